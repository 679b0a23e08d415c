/* Sampling tensors. */
#include "checkpoint/fingerprint.h"

#include <string.h>

#include <xxhash.h>

enum { BLOCK_BYTES = 4096, N_BLOCKS = 8 /* of a tensor, spread evenly from its first byte to its last */ };

zn_status zn_fingerprint_tensor(const zn_st_file *file, const struct zn_st_tensor *t, uint64_t *hash)
{
    unsigned char bytes[BLOCK_BYTES];
    uint64_t sum = XXH3_64bits_withSeed(t->name, strlen(t->name), *hash);
    sum = XXH3_64bits_withSeed(t->dims, (size_t)t->n_dims * sizeof t->dims[0], sum + (uint64_t)t->dtype);
    size_t n = t->n_bytes < sizeof bytes ? (size_t)t->n_bytes : sizeof bytes;
    uint64_t last = t->n_bytes - n, n_blocks = last == 0 ? 1 : N_BLOCKS;
    for (uint64_t i = 0; i < n_blocks; i++) {
        ZN_TRY(zn_st_read_raw(file, t, n_blocks > 1 ? last / (n_blocks - 1) * i : 0, n, bytes));
        sum = XXH3_64bits_withSeed(bytes, n, sum);
    }
    *hash = sum;
    return ZN_OK;
}

zn_status zn_fingerprint_weights(const zn_model_files *files, uint64_t *hash)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < zn_model_files_n_tensors(files); i++) {
        struct zn_model_tensor at = zn_model_files_tensor_at(files, i);
        ZN_TRY(zn_fingerprint_tensor(at.file, at.tensor, &sum));
    }
    *hash = sum;
    return ZN_OK;
}
