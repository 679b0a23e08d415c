/* The tensors of a hub folder as one set: model.safetensors, or the shards that
 * model.safetensors.index.json lists. Const after opening: any number of threads may read. */
#ifndef ZN_FORMATS_MODEL_FILES_H
#define ZN_FORMATS_MODEL_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "formats/safetensors.h"

typedef struct zn_model_files zn_model_files;

/* A tensor and the file it is read from; both belong to the set. */
struct zn_model_tensor {
    const struct zn_st_tensor *tensor;
    const zn_st_file *file;
    /* What elements first … first+n are changed by as they are read; NULL: they stay. Borrowed. */
    void (*change)(const void *self, int64_t first, int64_t n_elements, float *values);
    const void *change_self;
};

/* Elements first … first+n as fp32, changed. Blocks. */
zn_status zn_model_tensor_read(const struct zn_model_tensor *tensor, int64_t first, int64_t n_elements, float *values);

/* Reads the headers of all files. A shard outside the folder, a listed tensor that its shard
 * does not have and a tensor in two shards are errors. */
zn_status zn_model_files_open(const char *folder, zn_model_files **files);
void zn_model_files_close(zn_model_files *files); /* NULL is legal */

/* Sorted by name. */
size_t zn_model_files_n_tensors(const zn_model_files *files);
struct zn_model_tensor zn_model_files_tensor_at(const zn_model_files *files, size_t i);

/* False: no tensor of this name. */
bool zn_model_files_find(const zn_model_files *files, const char *name, struct zn_model_tensor *found);

/* A tensor that the model cannot do without, with the shape that its configuration asks for and a
 * type that can be read; anything else is an error that names the file. */
zn_status zn_model_files_get(const zn_model_files *files, const char *name, int n_dims, const int64_t *dims,
                             struct zn_model_tensor *found);

#endif
