/* GELU in both forms (Hendrycks and Gimpel 2016) and SwiGLU (Shazeer 2020). */
#include "device/cpu/cpu.h"
#include "device/cpu/fastmath.h"
#include "device/cpu/ranges.h"

#define ROOT_HALF 0.70710678118654752f       /* 1/√2 */
#define ROOT_TWO_OVER_PI 0.79788456080286536f
#define ROOT_ONE_OVER_TWO_PI 0.39894228040143268f
#define CUBIC 0.044715f

static inline float gelu(float x)
{
    return 0.5f * x * (1.0f + zn_erf(x * ROOT_HALF));
}

static inline float gelu_slope(float x)
{
    float below = 0.5f * (1.0f + zn_erf(x * ROOT_HALF));
    return below + x * (ROOT_ONE_OVER_TWO_PI * zn_exp(-0.5f * x * x));
}

static inline float gelu_tanh(float x)
{
    return 0.5f * x * (1.0f + zn_tanh(ROOT_TWO_OVER_PI * (x + CUBIC * x * x * x)));
}

static inline float gelu_tanh_slope(float x)
{
    float square = x * x;
    float t = zn_tanh(ROOT_TWO_OVER_PI * (x + CUBIC * x * square));
    float inner = ROOT_TWO_OVER_PI * (1.0f + 3.0f * CUBIC * square);
    return 0.5f * (1.0f + t) + 0.5f * x * ((1.0f - t * t) * inner);
}

static inline float sigmoid(float x)
{
    return 1.0f / (1.0f + zn_exp(-x));
}

static void gelu_forward_range(const void *args, int64_t begin, int64_t end)
{
    const struct zn_gelu_forward_args *a = args;
    const float *x = zn_floats(a->x);
    float *y = zn_floats(a->y);
    if (a->tanh_form) {
#pragma omp simd
        for (int64_t i = begin; i < end; i++)
            y[i] = gelu_tanh(x[i]);
    } else {
#pragma omp simd
        for (int64_t i = begin; i < end; i++)
            y[i] = gelu(x[i]);
    }
}

zn_status ZN_K(gelu_forward)(const struct zn_cpu *cpu, const void *args)
{
    const struct zn_gelu_forward_args *a = args;
    zn_for_ranges(cpu, a->n_elements, gelu_forward_range, a);
    return ZN_OK;
}

static void gelu_backward_range(const void *args, int64_t begin, int64_t end)
{
    const struct zn_gelu_backward_args *a = args;
    const float *x = zn_floats(a->x), *dy = zn_floats(a->dy);
    float *dx = zn_floats(a->dx);
    if (a->tanh_form) {
#pragma omp simd
        for (int64_t i = begin; i < end; i++)
            dx[i] = dy[i] * gelu_tanh_slope(x[i]);
    } else {
#pragma omp simd
        for (int64_t i = begin; i < end; i++)
            dx[i] = dy[i] * gelu_slope(x[i]);
    }
}

zn_status ZN_K(gelu_backward)(const struct zn_cpu *cpu, const void *args)
{
    const struct zn_gelu_backward_args *a = args;
    zn_for_ranges(cpu, a->n_elements, gelu_backward_range, a);
    return ZN_OK;
}

static void swiglu_forward_range(const void *args, int64_t begin, int64_t end)
{
    const struct zn_swiglu_forward_args *a = args;
    const float *restrict gate = zn_floats(a->gate), *restrict up = zn_floats(a->up);
    float *restrict y = zn_floats(a->y);
    for (int64_t i = begin; i < end; i++)
        y[i] = gate[i] * sigmoid(gate[i]) * up[i];
}

zn_status ZN_K(swiglu_forward)(const struct zn_cpu *cpu, const void *args)
{
    const struct zn_swiglu_forward_args *a = args;
    zn_for_ranges(cpu, a->n_elements, swiglu_forward_range, a);
    return ZN_OK;
}

static void swiglu_backward_range(const void *args, int64_t begin, int64_t end)
{
    const struct zn_swiglu_backward_args *a = args;
    const float *gate = zn_floats(a->gate), *up = zn_floats(a->up), *dy = zn_floats(a->dy);
    float *d_gate = zn_floats(a->d_gate), *d_up = zn_floats(a->d_up);
#pragma omp simd
    for (int64_t i = begin; i < end; i++) {
        float s = sigmoid(gate[i]), g = dy[i];
        d_up[i] = g * (gate[i] * s);
        d_gate[i] = g * up[i] * (s + gate[i] * s * (1.0f - s));
    }
}

zn_status ZN_K(swiglu_backward)(const struct zn_cpu *cpu, const void *args)
{
    const struct zn_swiglu_backward_args *a = args;
    zn_for_ranges(cpu, a->n_elements, swiglu_backward_range, a);
    return ZN_OK;
}
