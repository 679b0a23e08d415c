/* Adam (Kingma and Ba 2015; decoupled decay of Loshchilov and Hutter 2019), with moments in fp32, in bf16, or in 8 bits by blocks
 * (Dettmers et al. 2022).
 *
 * Memory-bound: all states pass the processor once. Work goes block by block so that narrow moments and the 16-bit copy of parameters
 * are made from what is still in the first-level cache. */
#include <math.h>

#include "device/cpu/copies.h"
#include "device/cpu/dynamic_map.h"
#include "device/cpu/ranges.h"

enum { BLOCK = 512 };

/* `coupled` is a constant where this is inlined, so the loop has no branch. */
static inline void adam_loop(const struct zn_adam_args *a, bool coupled, int64_t first, int64_t n, float *restrict exp_avg,
                             float *restrict exp_avg_sq)
{
    float *restrict param = zn_floats(a->param) + first;
    const float *restrict grad = zn_floats(a->grad) + first;
    const float grad_scale = a->grad_scale, decay = a->coupled_decay, keep = a->keep;
    const float one_minus_beta1 = a->one_minus_beta1, beta2 = a->beta2;
    const float one_minus_beta2 = a->one_minus_beta2, eps = a->eps;
    const float step_size = a->step_size, root_correction = a->root_correction;
    for (int64_t i = 0; i < n; i++) {
        float p = param[i], m = exp_avg[i], v = exp_avg_sq[i];
        float g = grad[i] * grad_scale;
        if (coupled)
            g = g + decay * p;
        p = p * keep;
        m = m + one_minus_beta1 * (g - m);
        v = beta2 * v + one_minus_beta2 * g * g;
        param[i] = p - step_size * m / (sqrtf(v) / root_correction + eps);
        exp_avg[i] = m;
        exp_avg_sq[i] = v;
    }
}

/* Elements first … first+n, whose moments are at these places, and the copy. */
static void adam_block(const struct zn_adam_args *a, int64_t first, int64_t n, float *exp_avg, float *exp_avg_sq)
{
    if (a->coupled_decay != 0.0f)
        adam_loop(a, true, first, n, exp_avg, exp_avg_sq);
    else
        adam_loop(a, false, first, n, exp_avg, exp_avg_sq);
    if (a->copy)
        write_copy(a->copy, a->copy_type, zn_floats(a->param), first, n);
}

static void adam_range(const void *args, int64_t begin, int64_t end)
{
    const struct zn_adam_args *a = args;
    for (int64_t i = begin; i < end; i += BLOCK)
        adam_block(a, i, zn_min_count(end - i, BLOCK), zn_floats(a->exp_avg) + i, zn_floats(a->exp_avg_sq) + i);
}

static void adam_bf16_range(const void *args, int64_t begin, int64_t end)
{
    const struct zn_adam_args *a = args;
    uint16_t *exp_avg = zn_pointer(a->exp_avg), *exp_avg_sq = zn_pointer(a->exp_avg_sq);
    float m[BLOCK], v[BLOCK];
    for (int64_t i = begin; i < end; i += BLOCK) {
        int64_t n = zn_min_count(end - i, BLOCK);
        zn_from_bf16(m, exp_avg + i, n);
        zn_from_bf16(v, exp_avg_sq + i, n);
        adam_block(a, i, n, m, v);
        zn_to_bf16(exp_avg + i, m, n);
        zn_to_bf16(exp_avg_sq + i, v, n);
    }
}

zn_status ZN_K(adam)(const struct zn_cpu *cpu, const void *args)
{
    const struct zn_adam_args *a = args;
    ZN_TRY(check_copy(a->copy, a->copy_type));
    if (a->state_type != ZN_F32 && a->state_type != ZN_BF16)
        return zn_fail(ZN_ERR_UNSUPPORTED, "moments of Adam in %s", zn_dtype_name(a->state_type));
    zn_for_ranges(cpu, a->n_elements, a->state_type == ZN_BF16 ? adam_bf16_range : adam_range, a);
    return ZN_OK;
}

/* ---- 8 bits ---- */

/* Halfway between neighbours of the map. */
static void bounds_of(const float *restrict map, float *restrict bounds)
{
    for (int i = 0; i < ZN_MAP_CODES - 1; i++)
        bounds[i] = (map[i] + map[i + 1]) / 2;
}

static void widen_block(const float *restrict map, const uint8_t *restrict codes, float scale, float *restrict values, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        values[i] = map[codes[i]] * scale;
}

static float largest(const float *values, int64_t n)
{
    float most = 0;
    for (int64_t i = 0; i < n; i++) {
        float size = fabsf(values[i]);
        most = size > most ? size : most;
    }
    return most;
}

/* The code of x is the number of bounds below it, found by halving: no branch, so that the loop becomes vector code. */
static float narrow_block(const float *restrict bounds, const float *restrict values, uint8_t *restrict codes, int64_t n)
{
    float scale = largest(values, n), divisor = scale > 0 ? scale : 1.0f;
    for (int64_t i = 0; i < n; i++) {
        float x = values[i] / divisor;
        int32_t code = 0;
        for (int32_t half = ZN_MAP_CODES / 2; half > 0; half /= 2)
            code += bounds[code + half - 1] < x ? half : 0;
        codes[i] = (uint8_t)code;
    }
    return scale;
}

static void adam_8bit_range(const void *args, int64_t begin, int64_t end)
{
    const struct zn_adam_8bit_args *a = args;
    uint8_t *exp_avg = zn_pointer(a->adam.exp_avg), *exp_avg_sq = zn_pointer(a->adam.exp_avg_sq);
    float *scales = zn_floats(a->exp_avg_scales), *scales_sq = zn_floats(a->exp_avg_sq_scales);
    float m[ZN_STATE_BLOCK], v[ZN_STATE_BLOCK], bounds[ZN_MAP_CODES], bounds_sq[ZN_MAP_CODES];
    bounds_of(zn_signed_map, bounds);
    bounds_of(zn_unsigned_map, bounds_sq);
    for (int64_t i = begin; i < end; i += ZN_STATE_BLOCK) {
        int64_t n = zn_min_count(end - i, ZN_STATE_BLOCK), block = i / ZN_STATE_BLOCK;
        widen_block(zn_signed_map, exp_avg + i, scales[block], m, n);
        widen_block(zn_unsigned_map, exp_avg_sq + i, scales_sq[block], v, n);
        adam_block(&a->adam, i, n, m, v);
        scales[block] = narrow_block(bounds, m, exp_avg + i, n);
        scales_sq[block] = narrow_block(bounds_sq, v, exp_avg_sq + i, n);
    }
}

zn_status ZN_K(adam_8bit)(const struct zn_cpu *cpu, const void *args)
{
    const struct zn_adam_8bit_args *a = args;
    ZN_TRY(check_copy(a->adam.copy, a->adam.copy_type));
    zn_for_ranges(cpu, a->adam.n_elements, adam_8bit_range, a);
    return ZN_OK;
}
