/* Fingerprints of weights: cheap enough for a model of any size, since of a large tensor only some blocks are read. Another
 * training of the same model differs in nearly every block. */
#ifndef ZN_CHECKPOINT_FINGERPRINT_H
#define ZN_CHECKPOINT_FINGERPRINT_H

#include "formats/model_files.h"

/* Mixes name, type, shape and sampled bytes of a tensor into *hash. Blocks. */
zn_status zn_fingerprint_tensor(const zn_st_file *file, const struct zn_st_tensor *tensor, uint64_t *hash);

/* Of all tensors of a folder, however they are cut into files. Blocks. */
zn_status zn_fingerprint_weights(const zn_model_files *files, uint64_t *hash);

#endif
