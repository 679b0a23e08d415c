/* GGUF, version 3: the file that llama.cpp reads. A header, pairs of metadata, a list of tensors, then their data, each at a
 * multiple of 32 bytes. This header has the element types and the metadata; gguf_write.h writes the file. */
#ifndef ZN_FORMATS_GGUF_H
#define ZN_FORMATS_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/text.h"

/* ---- Element types ---- */

/* Those that can be written, by the format's numbers. */
typedef enum zn_gguf_type { ZN_GGUF_F32 = 0, ZN_GGUF_F16 = 1, ZN_GGUF_Q8_0 = 8, ZN_GGUF_BF16 = 30 } zn_gguf_type;

/* Q8_0: 32 values of a row share a scale in fp16. */
enum { ZN_GGUF_BLOCK = 32 };

/* "f32", "f16", "bf16", "q8_0": the names people type. */
const char *zn_gguf_type_name(zn_gguf_type type);
zn_status zn_gguf_type_parse(const char *text, const char *what, zn_gguf_type *type);

/* general.file_type of a file whose matrices are of the type. */
uint32_t zn_gguf_file_type(zn_gguf_type type);

/* Values that are written together: 1, or a block. */
int64_t zn_gguf_group(zn_gguf_type type);

/* Of n values, a multiple of the group. */
size_t zn_gguf_bytes(zn_gguf_type type, int64_t n);

/* Rounds n values, a multiple of the group, to the type: to nearest even, and in blocks as ggml does, to nearest and halves away
 * from zero. Returns the first value that the type cannot hold, -1 where there is none: a finite one beyond fp16, and one that
 * is not finite in a block. */
int64_t zn_gguf_encode(zn_gguf_type type, const float *values, int64_t n, void *out);

/* ---- Metadata ---- */

/* Pairs of a key and a value, as they lie in the file. A failed allocation sticks; zn_text_status of `bytes` tells. */
typedef struct zn_gguf_metadata {
    zn_text bytes;
    uint64_t n_pairs;
} zn_gguf_metadata;

/* Types of values, by the format's numbers. */
typedef enum zn_gguf_value {
    ZN_GGUF_UINT32 = 4,
    ZN_GGUF_INT32 = 5,
    ZN_GGUF_FLOAT32 = 6,
    ZN_GGUF_BOOL = 7,
    ZN_GGUF_STRING = 8,
    ZN_GGUF_ARRAY = 9,
} zn_gguf_value;

void zn_gguf_metadata_init(zn_gguf_metadata *metadata);
void zn_gguf_metadata_fini(zn_gguf_metadata *metadata);

void zn_gguf_add_u32(zn_gguf_metadata *metadata, const char *key, uint32_t value);
void zn_gguf_add_f32(zn_gguf_metadata *metadata, const char *key, float value);
void zn_gguf_add_bool(zn_gguf_metadata *metadata, const char *key, bool value);
void zn_gguf_add_string(zn_gguf_metadata *metadata, const char *key, const char *text);

/* Begins an array of n items of one type; the n calls of the matching zn_gguf_item_… come next. */
void zn_gguf_add_array(zn_gguf_metadata *metadata, const char *key, zn_gguf_value type, uint64_t n);
void zn_gguf_item_string(zn_gguf_metadata *metadata, const char *text, size_t n_bytes);
void zn_gguf_item_i32(zn_gguf_metadata *metadata, int32_t value);
void zn_gguf_item_f32(zn_gguf_metadata *metadata, float value);
void zn_gguf_item_bool(zn_gguf_metadata *metadata, bool value);

#endif
