/* GELU in both forms (Hendrycks and Gimpel 2016) and SwiGLU (Shazeer 2020). */
#include "device/cpu/cpu.h"
#include "device/cpu/ranges.h"
#include "device/cpu/vector_math.h"

#define ROOT_TWO_OVER_PI 0.79788456080286536f
#define ROOT_ONE_OVER_TWO_PI 0.39894228040143268f
#define CUBIC 0.044715f

/* The elements of x from i on, those from `end` on being 0; and writing of those before `end`. */
static inline zn_vector take(const float *x, int64_t i, int64_t end)
{
    zn_vector v = {0};
    if (end - i >= ZN_LANE_FLOATS)
        return zn_vector_load(x + i);
    memcpy(&v, x + i, (size_t)(end - i) * sizeof *x);
    return v;
}

static inline void put(float *x, int64_t i, int64_t end, zn_vector v)
{
    if (end - i >= ZN_LANE_FLOATS)
        zn_vector_store(x + i, v);
    else
        memcpy(x + i, &v, (size_t)(end - i) * sizeof *x);
}

static inline zn_vector gelu(zn_vector x)
{
    return x * zn_vector_normal(x, zn_vector_exp(-0.5f * x * x));
}

static inline zn_vector gelu_slope(zn_vector x)
{
    zn_vector bell = zn_vector_exp(-0.5f * x * x);
    return zn_vector_normal(x, bell) + x * (ROOT_ONE_OVER_TWO_PI * bell);
}

/* (1 + tanh u) / 2 is the sigmoid of 2u, which loses no digits where tanh is near -1. */
static inline zn_vector gelu_tanh(zn_vector x)
{
    return x * zn_vector_sigmoid(2.0f * ROOT_TWO_OVER_PI * (x + CUBIC * x * x * x));
}

static inline zn_vector gelu_tanh_slope(zn_vector x)
{
    zn_vector square = x * x;
    zn_vector s = zn_vector_sigmoid(2.0f * ROOT_TWO_OVER_PI * (x + CUBIC * x * square));
    zn_vector inner = 2.0f * ROOT_TWO_OVER_PI * (1.0f + 3.0f * CUBIC * square);
    return s + x * (s * (1.0f - s) * inner);
}

static void gelu_forward_range(const void *args, int64_t begin, int64_t end)
{
    const struct zn_gelu_forward_args *a = args;
    const float *x = zn_floats(a->x);
    float *y = zn_floats(a->y);
    for (int64_t i = begin; i < end; i += ZN_LANE_FLOATS) {
        zn_vector v = take(x, i, end);
        put(y, i, end, a->tanh_form ? gelu_tanh(v) : gelu(v));
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
    for (int64_t i = begin; i < end; i += ZN_LANE_FLOATS) {
        zn_vector v = take(x, i, end);
        put(dx, i, end, take(dy, i, end) * (a->tanh_form ? gelu_tanh_slope(v) : gelu_slope(v)));
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
    const float *gate = zn_floats(a->gate), *up = zn_floats(a->up);
    float *y = zn_floats(a->y);
    for (int64_t i = begin; i < end; i += ZN_LANE_FLOATS) {
        zn_vector x = take(gate, i, end);
        put(y, i, end, x * zn_vector_sigmoid(x) * take(up, i, end));
    }
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
    for (int64_t i = begin; i < end; i += ZN_LANE_FLOATS) {
        zn_vector x = take(gate, i, end), s = zn_vector_sigmoid(x), g = take(dy, i, end), u = take(up, i, end);
        put(d_up, i, end, g * (x * s));
        put(d_gate, i, end, g * u * (s + x * s * (1.0f - s)));
    }
}

zn_status ZN_K(swiglu_backward)(const struct zn_cpu *cpu, const void *args)
{
    const struct zn_swiglu_backward_args *a = args;
    zn_for_ranges(cpu, a->n_elements, swiglu_backward_range, a);
    return ZN_OK;
}
