/* safetensors files: an 8-byte length, a JSON header, then the tensors without gaps.
 *
 * Reading takes the header only; it is checked in full before anything else is believed: sizes
 * are products of shape and type without overflow, ranges lie in the file, follow each other
 * without overlap or hole, and names are there once. An open file is const: any number of threads
 * may read from it at once. */
#ifndef ZN_FORMATS_SAFETENSORS_H
#define ZN_FORMATS_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "tensor/dtype.h"

enum { ZN_ST_MAX_DIMS = 8 };
#define ZN_ST_MAX_HEADER ((uint64_t)100 * 1000 * 1000)

/* Types as files name them, and their bits. Of these fp32, bf16 and fp16 can be read as floats;
 * the others are listed, so that a folder with mask buffers opens. */
#define ZN_ST_DTYPES(X)                                                                            \
    X(F32, 32)                                                                                     \
    X(BF16, 16)                                                                                    \
    X(F16, 16)                                                                                     \
    X(F64, 64)                                                                                     \
    X(I64, 64)                                                                                     \
    X(U64, 64)                                                                                     \
    X(C64, 64)                                                                                     \
    X(I32, 32)                                                                                     \
    X(U32, 32)                                                                                     \
    X(I16, 16)                                                                                     \
    X(U16, 16)                                                                                     \
    X(I8, 8)                                                                                       \
    X(U8, 8)                                                                                       \
    X(BOOL, 8)                                                                                     \
    X(F8_E5M2, 8)                                                                                  \
    X(F8_E4M3, 8)                                                                                  \
    X(F8_E8M0, 8)                                                                                  \
    X(F6_E2M3, 6)                                                                                  \
    X(F6_E3M2, 6)                                                                                  \
    X(F4, 4)

typedef enum zn_st_dtype {
#define ZN_ST_DTYPE_ENUM(name, bits) ZN_ST_##name,
    ZN_ST_DTYPES(ZN_ST_DTYPE_ENUM)
#undef ZN_ST_DTYPE_ENUM
        ZN_ST_N_DTYPES
} zn_st_dtype;

/* The file's name of the type: "BF16". */
const char *zn_st_dtype_name(zn_st_dtype dtype);

/* True for the types that can be read as floats; *type is then ours. */
bool zn_st_dtype_is_float(zn_st_dtype dtype, zn_dtype *type);

struct zn_st_tensor {
    const char *name;
    zn_st_dtype dtype;
    int n_dims;
    int64_t dims[ZN_ST_MAX_DIMS];
    int64_t n_elements;
    uint64_t n_bytes;
    uint64_t offset; /* of the first byte, in the file */
};

typedef struct zn_st_file zn_st_file;

zn_status zn_st_open(const char *path, zn_st_file **file);
void zn_st_close(zn_st_file *file); /* NULL is legal */

const char *zn_st_path(const zn_st_file *file);

/* Tensors in the order of their bytes; they belong to the file. */
size_t zn_st_n_tensors(const zn_st_file *file);
const struct zn_st_tensor *zn_st_tensor_at(const zn_st_file *file, size_t i);
const struct zn_st_tensor *zn_st_find(const zn_st_file *file, const char *name); /* NULL: none */

/* Elements first … first+n of the tensor as fp32; exact for every type that can be read. */
zn_status zn_st_read_f32(const zn_st_file *file, const struct zn_st_tensor *tensor, int64_t first,
                         int64_t n_elements, float *out);

/* The same of a tensor of U8: numbers from 0 to 255. */
zn_status zn_st_read_codes(const zn_st_file *file, const struct zn_st_tensor *tensor, int64_t first, int64_t n_elements,
                           float *out);

/* Bytes first … first+n of the tensor as they lie in the file. */
zn_status zn_st_read_raw(const zn_st_file *file, const struct zn_st_tensor *tensor, uint64_t first,
                         size_t n_bytes, void *out);

/* "(3, 4)" of a shape, for messages. */
enum { ZN_SHAPE_TEXT = 192 };
const char *zn_shape_text(int n_dims, const int64_t *dims, char text[ZN_SHAPE_TEXT]);

#endif
