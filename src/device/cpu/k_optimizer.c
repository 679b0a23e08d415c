/* Adam (Kingma and Ba 2015; decoupled decay of Loshchilov and Hutter 2019) and SGD with momentum.
 *
 * Memory-bound: all states pass the processor once. Work goes block by block so that the 16-bit
 * copy is made from parameters that are still in the first-level cache. */
#include <math.h>
#include <string.h>

#include "device/cpu/cpu.h"
#include "device/cpu/half.h"
#include "device/cpu/ranges.h"

enum { BLOCK = 512 };

static zn_status check_copy(zn_addr copy, zn_dtype type)
{
    if (copy && type != ZN_F32 && type != ZN_BF16 && type != ZN_F16)
        return zn_fail(ZN_ERR_UNSUPPORTED, "a copy of the parameters in %s", zn_dtype_name(type));
    return ZN_OK;
}

static inline void write_copy(zn_addr copy, zn_dtype type, const float *param, int64_t first,
                              int64_t n)
{
    if (type == ZN_BF16)
        zn_to_bf16((uint16_t *)zn_pointer(copy) + first, param + first, n);
    else if (type == ZN_F16)
        zn_to_f16((uint16_t *)zn_pointer(copy) + first, param + first, n);
    else
        memcpy(zn_floats(copy) + first, param + first, (size_t)n * sizeof *param);
}

/* `coupled` is a constant where this is inlined, so the loop has no branch. */
static inline void adam_block(const struct zn_adam_args *a, bool coupled, int64_t first, int64_t n)
{
    float *restrict param = zn_floats(a->param) + first;
    float *restrict exp_avg = zn_floats(a->exp_avg) + first;
    float *restrict exp_avg_sq = zn_floats(a->exp_avg_sq) + first;
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

static void adam_range(const void *args, int64_t begin, int64_t end)
{
    const struct zn_adam_args *a = args;
    for (int64_t i = begin; i < end; i += BLOCK) {
        int64_t n = zn_min_count(end - i, BLOCK);
        if (a->coupled_decay != 0.0f)
            adam_block(a, true, i, n);
        else
            adam_block(a, false, i, n);
        if (a->copy)
            write_copy(a->copy, a->copy_type, zn_floats(a->param), i, n);
    }
}

zn_status ZN_K(adam)(const struct zn_cpu *cpu, const void *args)
{
    const struct zn_adam_args *a = args;
    ZN_TRY(check_copy(a->copy, a->copy_type));
    zn_for_ranges(cpu, a->n_elements, adam_range, a);
    return ZN_OK;
}

static void sgd_block(const struct zn_sgd_args *a, int64_t first, int64_t n)
{
    float *restrict param = zn_floats(a->param) + first;
    const float *restrict grad = zn_floats(a->grad) + first;
    const float grad_scale = a->grad_scale, decay = a->coupled_decay, lr = a->lr;
    for (int64_t i = 0; i < n; i++) {
        float g = grad[i] * grad_scale + decay * param[i];
        param[i] = param[i] - lr * g;
    }
}

static void sgd_momentum_block(const struct zn_sgd_args *a, int64_t first, int64_t n)
{
    float *restrict param = zn_floats(a->param) + first;
    float *restrict buffer = zn_floats(a->momentum_buffer) + first;
    const float *restrict grad = zn_floats(a->grad) + first;
    const float grad_scale = a->grad_scale, decay = a->coupled_decay, lr = a->lr;
    const float momentum = a->momentum;
    const bool starts = a->first;
    for (int64_t i = 0; i < n; i++) {
        float g = grad[i] * grad_scale + decay * param[i];
        float b = starts ? g : momentum * buffer[i] + g;
        buffer[i] = b;
        param[i] = param[i] - lr * b;
    }
}

static void sgd_range(const void *args, int64_t begin, int64_t end)
{
    const struct zn_sgd_args *a = args;
    for (int64_t i = begin; i < end; i += BLOCK) {
        int64_t n = zn_min_count(end - i, BLOCK);
        if (a->momentum_buffer)
            sgd_momentum_block(a, i, n);
        else
            sgd_block(a, i, n);
        if (a->copy)
            write_copy(a->copy, a->copy_type, zn_floats(a->param), i, n);
    }
}

zn_status ZN_K(sgd)(const struct zn_cpu *cpu, const void *args)
{
    const struct zn_sgd_args *a = args;
    ZN_TRY(check_copy(a->copy, a->copy_type));
    zn_for_ranges(cpu, a->n_elements, sgd_range, a);
    return ZN_OK;
}
