/* GGUF's element types and metadata. */
#include "formats/gguf.h"

#include <math.h>
#include <string.h>

#include "tensor/half.h"

/* ---- Element types ---- */

static const struct {
    const char *name;
    zn_gguf_type type;
    uint32_t file_type; /* LLAMA_FTYPE_… */
} types[] = {{"f32", ZN_GGUF_F32, 0}, {"f16", ZN_GGUF_F16, 1}, {"bf16", ZN_GGUF_BF16, 32}, {"q8_0", ZN_GGUF_Q8_0, 7}};

enum { N_TYPES = sizeof types / sizeof types[0], BLOCK_BYTES = 2 + ZN_GGUF_BLOCK };

const char *zn_gguf_type_name(zn_gguf_type type)
{
    for (size_t i = 0; i < N_TYPES; i++)
        if (types[i].type == type)
            return types[i].name;
    return "unknown";
}

zn_status zn_gguf_type_parse(const char *text, const char *what, zn_gguf_type *type)
{
    for (size_t i = 0; i < N_TYPES; i++) {
        if (strcmp(text, types[i].name) == 0) {
            *type = types[i].type;
            return ZN_OK;
        }
    }
    return zn_fail(ZN_ERR_USAGE, "%s: '%s' is not f32, f16, bf16 or q8_0", what, zn_shown(text).text);
}

uint32_t zn_gguf_file_type(zn_gguf_type type)
{
    for (size_t i = 0; i < N_TYPES; i++)
        if (types[i].type == type)
            return types[i].file_type;
    return 0;
}

int64_t zn_gguf_group(zn_gguf_type type)
{
    return type == ZN_GGUF_Q8_0 ? ZN_GGUF_BLOCK : 1;
}

size_t zn_gguf_bytes(zn_gguf_type type, int64_t n)
{
    if (type == ZN_GGUF_Q8_0)
        return (size_t)(n / ZN_GGUF_BLOCK) * BLOCK_BYTES;
    return (size_t)n * (type == ZN_GGUF_F32 ? 4 : 2);
}

/* Half to even is rounded by the conversion; what was finite must stay so. */
static int64_t encode_f16(const float *values, int64_t n, uint16_t *out)
{
    int64_t bad = -1;
    for (int64_t i = 0; i < n; i++)
        out[i] = zn_float_to_f16(values[i]);
    for (int64_t i = n - 1; i >= 0; i--)
        if ((out[i] & 0x7fffu) == 0x7c00u && isfinite(values[i]))
            bad = i;
    return bad;
}

/* d = max|x| / 127, rounded to fp16 for the file only; each value is x / d. False: not finite, or d is beyond fp16. */
static bool encode_block(const float *x, unsigned char *out)
{
    float largest = 0;
    bool finite = true;
    for (int i = 0; i < ZN_GGUF_BLOCK; i++) {
        float size = fabsf(x[i]);
        finite &= size <= 3.4028234663852886e38f;
        largest = size > largest ? size : largest;
    }
    float d = largest / 127, inverse = d != 0 ? 1 / d : 0;
    uint16_t half = zn_float_to_f16(d);
    if (!finite || (half & 0x7c00u) == 0x7c00u)
        return false;
    memcpy(out, &half, sizeof half);
    for (int i = 0; i < ZN_GGUF_BLOCK; i++) {
        float scaled = x[i] * inverse, size = fabsf(scaled);
        int whole = (int)size;
        whole += size - (float)whole >= 0.5f;
        out[2 + i] = (unsigned char)(signed char)(scaled < 0 ? -whole : whole);
    }
    return true;
}

/* The value that keeps a block from being written. */
static int64_t find_bad(const float *x)
{
    int64_t largest = 0;
    for (int64_t i = 0; i < ZN_GGUF_BLOCK; i++) {
        if (!isfinite(x[i]))
            return i;
        largest = fabsf(x[i]) > fabsf(x[largest]) ? i : largest;
    }
    return largest;
}

int64_t zn_gguf_encode(zn_gguf_type type, const float *values, int64_t n, void *out)
{
    switch (type) {
    case ZN_GGUF_F32:
        memcpy(out, values, (size_t)n * sizeof *values);
        break;
    case ZN_GGUF_F16:
        return encode_f16(values, n, out);
    case ZN_GGUF_BF16:
        for (int64_t i = 0; i < n; i++)
            ((uint16_t *)out)[i] = zn_float_to_bf16(values[i]);
        break;
    case ZN_GGUF_Q8_0:
        for (int64_t i = 0; i < n; i += ZN_GGUF_BLOCK)
            if (!encode_block(values + i, (unsigned char *)out + i / ZN_GGUF_BLOCK * BLOCK_BYTES))
                return i + find_bad(values + i);
        break;
    }
    return -1;
}

/* ---- Metadata ---- */

void zn_gguf_metadata_init(zn_gguf_metadata *metadata)
{
    *metadata = (zn_gguf_metadata){0};
    zn_text_init(&metadata->bytes);
}

void zn_gguf_metadata_fini(zn_gguf_metadata *metadata)
{
    zn_text_fini(&metadata->bytes);
    metadata->n_pairs = 0;
}

static void add_text(zn_text *bytes, const char *text, size_t n_bytes)
{
    uint64_t n = n_bytes;
    zn_text_add_bytes(bytes, &n, sizeof n);
    zn_text_add_bytes(bytes, text, n_bytes);
}

static void begin_pair(zn_gguf_metadata *metadata, const char *key, zn_gguf_value type)
{
    uint32_t number = type;
    add_text(&metadata->bytes, key, strlen(key));
    zn_text_add_bytes(&metadata->bytes, &number, sizeof number);
    metadata->n_pairs++;
}

void zn_gguf_add_u32(zn_gguf_metadata *metadata, const char *key, uint32_t value)
{
    begin_pair(metadata, key, ZN_GGUF_UINT32);
    zn_text_add_bytes(&metadata->bytes, &value, sizeof value);
}

void zn_gguf_add_f32(zn_gguf_metadata *metadata, const char *key, float value)
{
    begin_pair(metadata, key, ZN_GGUF_FLOAT32);
    zn_gguf_item_f32(metadata, value);
}

void zn_gguf_add_bool(zn_gguf_metadata *metadata, const char *key, bool value)
{
    begin_pair(metadata, key, ZN_GGUF_BOOL);
    zn_gguf_item_bool(metadata, value);
}

void zn_gguf_add_string(zn_gguf_metadata *metadata, const char *key, const char *text)
{
    begin_pair(metadata, key, ZN_GGUF_STRING);
    add_text(&metadata->bytes, text, strlen(text));
}

void zn_gguf_add_array(zn_gguf_metadata *metadata, const char *key, zn_gguf_value type, uint64_t n)
{
    uint32_t number = type;
    begin_pair(metadata, key, ZN_GGUF_ARRAY);
    zn_text_add_bytes(&metadata->bytes, &number, sizeof number);
    zn_text_add_bytes(&metadata->bytes, &n, sizeof n);
}

void zn_gguf_item_string(zn_gguf_metadata *metadata, const char *text, size_t n_bytes)
{
    add_text(&metadata->bytes, text, n_bytes);
}

void zn_gguf_item_i32(zn_gguf_metadata *metadata, int32_t value)
{
    zn_text_add_bytes(&metadata->bytes, &value, sizeof value);
}

void zn_gguf_item_f32(zn_gguf_metadata *metadata, float value)
{
    zn_text_add_bytes(&metadata->bytes, &value, sizeof value);
}

void zn_gguf_item_bool(zn_gguf_metadata *metadata, bool value)
{
    unsigned char byte = value;
    zn_text_add_bytes(&metadata->bytes, &byte, 1);
}
