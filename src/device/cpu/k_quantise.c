/* Quantised parameters (tensor/quantum.h): made once, when a model is loaded or born, and widened before each product. */
#include "tensor/quantum.h"

#include <math.h>
#include <string.h>

#include "device/cpu/dynamic_map.h"
#include "device/cpu/ranges.h"

enum { BLOCK = ZN_QUANTISED_BLOCK, SCALES = ZN_QUANTISED_GROUP / BLOCK };

_Static_assert((int)ZN_RANGE_ELEMENTS == (int)ZN_QUANTISED_GROUP, "a thread takes a group at a time");

static float largest(const float *values, int64_t n)
{
    float most = 0;
    for (int64_t i = 0; i < n; i++) {
        float size = fabsf(values[i]);
        most = size > most ? size : most;
    }
    return most;
}

static void find_scales(const float *values, int64_t n, float *scales)
{
    for (int64_t at = 0; at < n; at += BLOCK)
        scales[at / BLOCK] = largest(values + at, zn_min_count(n - at, BLOCK));
}

static void block_scales_range(const void *args, int64_t begin, int64_t end)
{
    const struct zn_block_scales_args *a = args;
    find_scales(zn_floats(a->src) + begin, end - begin, zn_floats(a->dst) + begin / BLOCK);
}

zn_status ZN_K(block_scales)(const struct zn_cpu *cpu, const void *args)
{
    const struct zn_block_scales_args *a = args;
    zn_for_ranges(cpu, a->n_elements, block_scales_range, a);
    return ZN_OK;
}

/* ---- int8 ---- */

/* To the nearest, ties to even: adding and taking 1.5 × 2^23 leaves no fraction. */
static float nearest(float x)
{
    const float shift = 12582912.0f;
    return (x + shift) - shift;
}

static void quantise_int8(const struct zn_quantise_args *a, int64_t begin, int64_t end)
{
    const float *values = zn_floats(a->src);
    struct zn_int8_quantum *quanta = zn_pointer(a->dst);
    for (int64_t at = begin; at < end; at += BLOCK) {
        struct zn_int8_quantum *q = &quanta[at / ZN_QUANTUM];
        int64_t in = at % ZN_QUANTUM, n = zn_min_count(end - at, BLOCK);
        float scale = largest(values + at, n) / 127.0f;
        if (in == 0)
            memset(q, 0, sizeof *q);
        q->scales[in / BLOCK] = scale;
        for (int64_t i = 0; i < n && scale > 0; i++) {
            float code = values[at + i] / scale; /* beyond 127 where the scale is too small to be exact */
            code = nearest(code > 127.0f ? 127.0f : code < -127.0f ? -127.0f : code);
            q->codes[in + i] = (int8_t)code;
        }
    }
}

static void widen_int8(const struct zn_int8_quantum *q, int64_t in, int64_t n, float *dst)
{
    float scale = q->scales[in / BLOCK];
    for (int64_t i = 0; i < n; i++)
        dst[i] = (float)q->codes[in + i] * scale;
}

/* ---- nf4 ---- */

/* Codes are the number of bounds, halfway between neighbours of the map, below x. */
static void find_nf4(const float *values, int64_t n, float scale, uint8_t codes[BLOCK])
{
    float factor = 1.0f / (scale > 1e-38f ? scale : 1e-38f); /* as bitsandbytes: x × (1 / scale) */
    float bounds[ZN_NF4_CODES - 1], x[BLOCK] = {0};
    for (int k = 0; k < ZN_NF4_CODES - 1; k++)
        bounds[k] = (zn_nf4_map[k] + zn_nf4_map[k + 1]) / 2;
    for (int64_t i = 0; i < n; i++)
        x[i] = values[i] * factor;
    for (int i = 0; i < BLOCK; i++) {
        int32_t code = 0;
#pragma GCC unroll 16
        for (int k = 0; k < ZN_NF4_CODES - 1; k++)
            code += bounds[k] < x[i];
        codes[i] = (uint8_t)code;
    }
}

static uint8_t find_scale_code(float x)
{
    int code = 0;
    for (int half = ZN_MAP_CODES / 2; half > 0; half /= 2) {
        int i = code + half - 1;
        code += (zn_signed_map[i] + zn_signed_map[i + 1]) / 2 < x ? half : 0;
    }
    return (uint8_t)code;
}

/* One group. */
static void quantise_nf4(const struct zn_quantise_args *a, int64_t begin, int64_t end)
{
    const float *values = zn_floats(a->src);
    struct zn_nf4_quantum *quanta = zn_pointer(a->dst);
    int64_t n_blocks = zn_pieces(end - begin, BLOCK);
    float scales[SCALES], rest[SCALES];
    find_scales(values + begin, end - begin, scales);
    for (int64_t b = 0; b < n_blocks; b++)
        rest[b] = scales[b] - a->mean;
    float group_scale = largest(rest, n_blocks), divisor = group_scale > 0 ? group_scale : 1.0f;
    for (int64_t b = 0; b < n_blocks; b++) {
        int64_t at = begin + b * BLOCK, in = at % ZN_QUANTUM;
        struct zn_nf4_quantum *q = &quanta[at / ZN_QUANTUM];
        uint8_t codes[BLOCK];
        if (in == 0) {
            memset(q, 0, sizeof *q);
            q->group_scale = group_scale;
            q->mean = a->mean;
        }
        q->scales[in / BLOCK] = find_scale_code(rest[b] / divisor);
        find_nf4(values + at, zn_min_count(end - at, BLOCK), scales[b], codes);
        for (int i = 0; i < BLOCK / 2; i++)
            q->codes[in / 2 + i] = (uint8_t)(codes[2 * i] << 4 | codes[2 * i + 1]);
    }
}

/* Elements in … in+n of a quantum, all of one block. */
static void widen_nf4(const struct zn_nf4_quantum *q, int64_t in, int64_t n, float *dst)
{
    float scale = zn_signed_map[q->scales[in / BLOCK]] * q->group_scale + q->mean, values[ZN_NF4_CODES];
    for (int k = 0; k < ZN_NF4_CODES; k++)
        values[k] = zn_nf4_map[k] * scale;
    if (n == BLOCK) {
        for (int i = 0; i < BLOCK / 2; i++) {
            uint8_t codes = q->codes[in / 2 + i];
            dst[2 * i] = values[codes >> 4];
            dst[2 * i + 1] = values[codes & 15];
        }
        return;
    }
    for (int64_t i = in; i < in + n; i++)
        dst[i - in] = values[i % 2 ? q->codes[i / 2] & 15 : q->codes[i / 2] >> 4];
}

/* ---- Both ---- */

static zn_status check_quantised(zn_dtype type)
{
    return zn_dtype_is_quantised(type) ? ZN_OK : zn_fail(ZN_ERR_UNSUPPORTED, "%s is not a quantised type", zn_dtype_name(type));
}

static void quantise_range(const void *args, int64_t begin, int64_t end)
{
    const struct zn_quantise_args *a = args;
    if (a->type == ZN_INT8)
        quantise_int8(a, begin, end);
    else
        quantise_nf4(a, begin, end);
}

zn_status ZN_K(quantise)(const struct zn_cpu *cpu, const void *args)
{
    const struct zn_quantise_args *a = args;
    ZN_TRY(check_quantised(a->type));
    zn_for_ranges(cpu, a->n_elements, quantise_range, a);
    return ZN_OK;
}

static void dequantise_range(const void *args, int64_t begin, int64_t end)
{
    const struct zn_dequantise_args *a = args;
    const struct zn_int8_quantum *int8 = zn_pointer(a->src);
    const struct zn_nf4_quantum *nf4 = zn_pointer(a->src);
    for (int64_t at = begin, n; at < end; at += n) {
        int64_t element = a->first + at, quantum = element / ZN_QUANTUM, in = element % ZN_QUANTUM;
        n = zn_min_count(end - at, BLOCK - in % BLOCK);
        if (a->type == ZN_INT8)
            widen_int8(&int8[quantum], in, n, zn_floats(a->dst) + at);
        else
            widen_nf4(&nf4[quantum], in, n, zn_floats(a->dst) + at);
    }
}

zn_status ZN_K(dequantise)(const struct zn_cpu *cpu, const void *args)
{
    const struct zn_dequantise_args *a = args;
    ZN_TRY(check_quantised(a->type));
    zn_for_ranges(cpu, a->n_elements, dequantise_range, a);
    return ZN_OK;
}
