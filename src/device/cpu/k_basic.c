/* Moving, converting, filling and elementwise arithmetic. */
#include <string.h>

#include "base/rng.h"
#include "device/cpu/cpu.h"
#include "device/cpu/half.h"
#include "device/cpu/ranges.h"

static void zero_range(const void *args, int64_t begin, int64_t end)
{
    const struct zn_zero_args *a = args;
    memset((char *)zn_pointer(a->dst) + 4 * begin, 0,
           (size_t)(zn_min_count(4 * end, a->n_bytes) - 4 * begin));
}

/* Bytes are cut as if they were floats. */
zn_status ZN_K(zero)(const struct zn_cpu *cpu, const void *args)
{
    const struct zn_zero_args *a = args;
    zn_for_ranges(cpu, zn_pieces(a->n_bytes, 4), zero_range, a);
    return ZN_OK;
}

static void copy_range(const void *args, int64_t begin, int64_t end)
{
    const struct zn_copy_args *a = args;
    memcpy((char *)zn_pointer(a->dst) + 4 * begin, (const char *)zn_pointer(a->src) + 4 * begin,
           (size_t)(zn_min_count(4 * end, a->n_bytes) - 4 * begin));
}

zn_status ZN_K(copy)(const struct zn_cpu *cpu, const void *args)
{
    const struct zn_copy_args *a = args;
    zn_for_ranges(cpu, zn_pieces(a->n_bytes, 4), copy_range, a);
    return ZN_OK;
}

zn_status ZN_K(copy_rows)(const struct zn_cpu *cpu, const void *args)
{
    const struct zn_copy_rows_args *a = args;
#pragma omp parallel for schedule(static) num_threads(cpu->n_threads)                              \
    if (a->rows * a->width >= ZN_SERIAL_BELOW)
    for (int64_t row = 0; row < a->rows; row++)
        memcpy(zn_floats(a->dst) + row * a->dst_stride, zn_floats(a->src) + row * a->src_stride,
               (size_t)a->width * sizeof(float));
    return ZN_OK;
}

/* Between the two 16-bit types by way of fp32, which holds both exactly: one rounding. */
static void cast_between_halves(const struct zn_cast_args *a, int64_t begin, int64_t end)
{
    enum { BLOCK = 512 };
    float block[BLOCK];
    const uint16_t *src = zn_pointer(a->src);
    uint16_t *dst = zn_pointer(a->dst);
    for (int64_t i = begin; i < end; i += BLOCK) {
        int64_t n = zn_min_count(end - i, BLOCK);
        if (a->src_type == ZN_BF16) {
            zn_from_bf16(block, src + i, n);
            zn_to_f16(dst + i, block, n);
        } else {
            zn_from_f16(block, src + i, n);
            zn_to_bf16(dst + i, block, n);
        }
    }
}

static void cast_range(const void *args, int64_t begin, int64_t end)
{
    const struct zn_cast_args *a = args;
    const void *src = zn_pointer(a->src);
    void *dst = zn_pointer(a->dst);
    int64_t n = end - begin;
    if (a->src_type == a->dst_type) {
        size_t size = zn_dtype_bytes(a->dst_type);
        memcpy((char *)dst + size * (size_t)begin, (const char *)src + size * (size_t)begin,
               size * (size_t)n);
    } else if (a->src_type == ZN_F32) {
        if (a->dst_type == ZN_BF16)
            zn_to_bf16((uint16_t *)dst + begin, (const float *)src + begin, n);
        else
            zn_to_f16((uint16_t *)dst + begin, (const float *)src + begin, n);
    } else if (a->dst_type == ZN_F32) {
        if (a->src_type == ZN_BF16)
            zn_from_bf16((float *)dst + begin, (const uint16_t *)src + begin, n);
        else
            zn_from_f16((float *)dst + begin, (const uint16_t *)src + begin, n);
    } else {
        cast_between_halves(a, begin, end);
    }
}

static bool is_real(zn_dtype type)
{
    return type == ZN_F32 || type == ZN_BF16 || type == ZN_F16;
}

zn_status ZN_K(cast)(const struct zn_cpu *cpu, const void *args)
{
    const struct zn_cast_args *a = args;
    if (!is_real(a->src_type) || !is_real(a->dst_type))
        return zn_fail(ZN_ERR_UNSUPPORTED, "cast from %s to %s", zn_dtype_name(a->src_type),
                       zn_dtype_name(a->dst_type));
    zn_for_ranges(cpu, a->n_elements, cast_range, a);
    return ZN_OK;
}

static void round_range(const void *args, int64_t begin, int64_t end)
{
    enum { BLOCK = 512 };
    uint16_t block[BLOCK];
    const struct zn_round_args *a = args;
    for (int64_t i = begin; i < end; i += BLOCK) {
        int64_t n = zn_min_count(end - i, BLOCK);
        float *x = zn_floats(a->x) + i;
        if (a->type == ZN_BF16) {
            zn_to_bf16(block, x, n);
            zn_from_bf16(x, block, n);
        } else {
            zn_to_f16(block, x, n);
            zn_from_f16(x, block, n);
        }
    }
}

zn_status ZN_K(round)(const struct zn_cpu *cpu, const void *args)
{
    const struct zn_round_args *a = args;
    if (a->type != ZN_BF16 && a->type != ZN_F16)
        return zn_fail(ZN_ERR_UNSUPPORTED, "rounding to %s", zn_dtype_name(a->type));
    zn_for_ranges(cpu, a->n_elements, round_range, a);
    return ZN_OK;
}

static void fill_range(const void *args, int64_t begin, int64_t end)
{
    const struct zn_fill_args *a = args;
    float *dst = zn_floats(a->dst);
    for (int64_t i = begin; i < end; i++)
        dst[i] = a->value;
}

zn_status ZN_K(fill)(const struct zn_cpu *cpu, const void *args)
{
    const struct zn_fill_args *a = args;
    zn_for_ranges(cpu, a->n_elements, fill_range, a);
    return ZN_OK;
}

enum { NORMAL_BLOCK = 256 };

/* The middle of the distribution for all, in vectors; then the tails, one in seven, one by one. */
static void fill_normal_block(const struct zn_fill_normal_args *a, float *dst, uint64_t first, int n)
{
    double q[NORMAL_BLOCK], x[NORMAL_BLOCK];
    for (int i = 0; i < n; i++)
        q[i] = zn_random_uniform(a->key, first + (uint64_t)i) - 0.5;
    for (int i = 0; i < n; i++)
        x[i] = zn_normal_middle(q[i]);
    for (int i = 0; i < n; i++)
        if (q[i] > ZN_NORMAL_MIDDLE || q[i] < -ZN_NORMAL_MIDDLE)
            x[i] = zn_random_normal(a->key, first + (uint64_t)i);
    for (int i = 0; i < n; i++)
        dst[i] = (float)((double)a->stddev * x[i]);
}

static void fill_normal_range(const void *args, int64_t begin, int64_t end)
{
    const struct zn_fill_normal_args *a = args;
    for (int64_t i = begin; i < end; i += NORMAL_BLOCK)
        fill_normal_block(a, zn_floats(a->dst) + i, (uint64_t)(a->first + i),
                          end - i < NORMAL_BLOCK ? (int)(end - i) : NORMAL_BLOCK);
}

zn_status ZN_K(fill_normal)(const struct zn_cpu *cpu, const void *args)
{
    const struct zn_fill_normal_args *a = args;
    zn_for_ranges(cpu, a->n_elements, fill_normal_range, a);
    return ZN_OK;
}

static void fill_uniform_range(const void *args, int64_t begin, int64_t end)
{
    const struct zn_fill_uniform_args *a = args;
    float *dst = zn_floats(a->dst);
    for (int64_t i = begin; i < end; i++)
        dst[i] = (float)((double)a->bound * (2 * zn_random_uniform(a->key, (uint64_t)(a->first + i)) - 1));
}

zn_status ZN_K(fill_uniform)(const struct zn_cpu *cpu, const void *args)
{
    const struct zn_fill_uniform_args *a = args;
    zn_for_ranges(cpu, a->n_elements, fill_uniform_range, a);
    return ZN_OK;
}

/* `omp simd` and not restrict where an output may be an input: no element depends on another. */
static void add_range(const void *args, int64_t begin, int64_t end)
{
    const struct zn_add_args *args_add = args;
    const float *a = zn_floats(args_add->a), *b = zn_floats(args_add->b);
    float *y = zn_floats(args_add->y);
#pragma omp simd
    for (int64_t i = begin; i < end; i++)
        y[i] = a[i] + b[i];
}

zn_status ZN_K(add)(const struct zn_cpu *cpu, const void *args)
{
    zn_for_ranges(cpu, ((const struct zn_add_args *)args)->n_elements, add_range, args);
    return ZN_OK;
}

static void add_scaled_range(const void *args, int64_t begin, int64_t end)
{
    const struct zn_add_scaled_args *s = args;
    const float *a = zn_floats(s->a), *b = zn_floats(s->b);
    float *y = zn_floats(s->y), scale = s->scale;
    if (!a) {
#pragma omp simd
        for (int64_t i = begin; i < end; i++)
            y[i] = scale * b[i];
        return;
    }
#pragma omp simd
    for (int64_t i = begin; i < end; i++)
        y[i] = a[i] + scale * b[i];
}

zn_status ZN_K(add_scaled)(const struct zn_cpu *cpu, const void *args)
{
    zn_for_ranges(cpu, ((const struct zn_add_scaled_args *)args)->n_elements, add_scaled_range, args);
    return ZN_OK;
}

static void mul_range(const void *args, int64_t begin, int64_t end)
{
    const struct zn_mul_args *args_mul = args;
    const float *a = zn_floats(args_mul->a), *b = zn_floats(args_mul->b);
    float *y = zn_floats(args_mul->y);
#pragma omp simd
    for (int64_t i = begin; i < end; i++)
        y[i] = a[i] * b[i];
}

zn_status ZN_K(mul)(const struct zn_cpu *cpu, const void *args)
{
    zn_for_ranges(cpu, ((const struct zn_mul_args *)args)->n_elements, mul_range, args);
    return ZN_OK;
}
