/* What a model and its checkpoints take on disk, before they are written. */
#ifndef ZN_CHECKPOINT_SIZES_H
#define ZN_CHECKPOINT_SIZES_H

#include "checkpoint/hub_files.h"
#include "checkpoint/weights.h"

/* States among a checkpoint's files. */
struct zn_state_sizes {
    uint64_t n_tensors, n_bytes;
};

/* The data to the byte; headers, lists and the small files of the hub folder are counted from above. */
uint64_t zn_model_disk_bytes(const zn_model *model, const struct zn_weights_style *style, const zn_hub_files *hub);
uint64_t zn_checkpoint_disk_bytes(const zn_model *model, const struct zn_weights_style *style, const zn_hub_files *hub,
                                  struct zn_state_sizes states);

/* Of a run that may hold an update back. Frozen parameters have no states but their masters. */
struct zn_state_sizes zn_checkpoint_states(const zn_model *model, const struct zn_weights_style *style,
                                           const struct zn_engine_options *options);

/* Bytes that are free to this user on the file system of a path; where that is not there yet, of the folder above it that is.
 * *device names the file system on this machine. UINT64_MAX: it does not tell. */
zn_status zn_disk_free(const char *path, uint64_t *n_bytes, uint64_t *device);

/* Bytes of all files below a folder; 0 where it is not there. */
uint64_t zn_tree_disk_bytes(const char *path);

#endif
