/* Writing a GGUF file: what it holds is said first, then the values of its tensors come in pieces of any size. The file appears
 * under its name when it is whole. Memory does not grow with the tensors. */
#ifndef ZN_FORMATS_GGUF_WRITE_H
#define ZN_FORMATS_GGUF_WRITE_H

#include "formats/gguf.h"
#include "formats/model_files.h"

enum { ZN_GGUF_MAX_DIMS = 4, ZN_GGUF_NAME = 64 };

/* A tensor of the file. dims go from the slowest to the fastest, as in safetensors; the file has them the other way round. The
 * last one is a multiple of the type's group. */
struct zn_gguf_spec {
    char name[ZN_GGUF_NAME];
    zn_gguf_type type;
    int n_dims;
    int64_t dims[ZN_GGUF_MAX_DIMS];
};

typedef struct zn_gguf_writer zn_gguf_writer;

/* Writes header, metadata and the list of tensors under a temporary name and reserves the whole file, so that a full disk is
 * found before the work. The caller destroys. Blocks. */
zn_status zn_gguf_writer_create(const char *path, const zn_gguf_metadata *metadata, const struct zn_gguf_spec *specs,
                                size_t n_specs, zn_gguf_writer **writer);

/* Of the whole file. */
uint64_t zn_gguf_writer_bytes(const zn_gguf_writer *writer);

/* The next n values of the tensor of specs[i], a multiple of its group. A value that the type cannot hold is an error. */
zn_status zn_gguf_writer_append(zn_gguf_writer *writer, size_t i, const float *values, int64_t n);

/* How the values of a tensor of a hub folder are laid out in the file. */
typedef enum zn_gguf_layout {
    ZN_GGUF_SAME,
    ZN_GGUF_TRANSPOSED, /* of a matrix */
    ZN_GGUF_PAIRED      /* row i of a head's first half, then row i of its second: rotary pairs side by side */
} zn_gguf_layout;

/* All values of a tensor of a hub folder become those of specs[i]. n_heads is that of ZN_GGUF_PAIRED. Blocks. */
zn_status zn_gguf_writer_copy(zn_gguf_writer *writer, size_t i, const struct zn_model_tensor *from, zn_gguf_layout layout,
                              int64_t n_heads);

/* Checks that every value was written, syncs, and gives the file its name, replacing what was there. */
zn_status zn_gguf_writer_finish(zn_gguf_writer *writer);

/* Removes what was not finished. NULL is legal. */
void zn_gguf_writer_destroy(zn_gguf_writer *writer);

#endif
