/* SGD with momentum, Lion (Chen et al. 2023) and Adagrad (Duchi et al. 2011).
 *
 * Memory-bound: all states pass the processor once. Work goes block by block so that the 16-bit
 * copy is made from parameters that are still in the first-level cache. */
#include <math.h>

#include "device/cpu/copies.h"
#include "device/cpu/ranges.h"

enum { BLOCK = 512 };

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

static void lion_block(const struct zn_lion_args *a, int64_t first, int64_t n)
{
    float *restrict param = zn_floats(a->param) + first;
    float *restrict exp_avg = zn_floats(a->exp_avg) + first;
    const float *restrict grad = zn_floats(a->grad) + first;
    const float grad_scale = a->grad_scale, keep = a->keep, lr = a->lr;
    const float beta1 = a->beta1, one_minus_beta1 = a->one_minus_beta1;
    const float beta2 = a->beta2, one_minus_beta2 = a->one_minus_beta2;
    for (int64_t i = 0; i < n; i++) {
        float g = grad[i] * grad_scale, m = exp_avg[i];
        float c = beta1 * m + one_minus_beta1 * g;
        float sign = c > 0 ? 1.0f : c < 0 ? -1.0f : c;
        param[i] = param[i] * keep - lr * sign;
        exp_avg[i] = beta2 * m + one_minus_beta2 * g;
    }
}

static void lion_range(const void *args, int64_t begin, int64_t end)
{
    const struct zn_lion_args *a = args;
    for (int64_t i = begin; i < end; i += BLOCK) {
        int64_t n = zn_min_count(end - i, BLOCK);
        lion_block(a, i, n);
        if (a->copy)
            write_copy(a->copy, a->copy_type, zn_floats(a->param), i, n);
    }
}

zn_status ZN_K(lion)(const struct zn_cpu *cpu, const void *args)
{
    const struct zn_lion_args *a = args;
    ZN_TRY(check_copy(a->copy, a->copy_type));
    zn_for_ranges(cpu, a->n_elements, lion_range, a);
    return ZN_OK;
}

static void adagrad_block(const struct zn_adagrad_args *a, int64_t first, int64_t n)
{
    float *restrict param = zn_floats(a->param) + first;
    float *restrict sum = zn_floats(a->sum) + first;
    const float *restrict grad = zn_floats(a->grad) + first;
    const float grad_scale = a->grad_scale, decay = a->coupled_decay, lr = a->lr, eps = a->eps;
    for (int64_t i = 0; i < n; i++) {
        float g = grad[i] * grad_scale + decay * param[i];
        float s = sum[i] + g * g;
        param[i] = param[i] - lr * g / (sqrtf(s) + eps);
        sum[i] = s;
    }
}

static void adagrad_range(const void *args, int64_t begin, int64_t end)
{
    const struct zn_adagrad_args *a = args;
    for (int64_t i = begin; i < end; i += BLOCK) {
        int64_t n = zn_min_count(end - i, BLOCK);
        adagrad_block(a, i, n);
        if (a->copy)
            write_copy(a->copy, a->copy_type, zn_floats(a->param), i, n);
    }
}

zn_status ZN_K(adagrad)(const struct zn_cpu *cpu, const void *args)
{
    const struct zn_adagrad_args *a = args;
    ZN_TRY(check_copy(a->copy, a->copy_type));
    zn_for_ranges(cpu, a->n_elements, adagrad_range, a);
    return ZN_OK;
}
