/* Layer norm and RMS norm, forward and backward, a row at a time.
 *
 * A thread takes ZN_SUM_ROWS rows at a time; the gradients of weight and bias are summed over these
 * rows into one row of `partial`, and the rows of `partial` in order. */
#include <math.h>

#include "device/cpu/columns.h"
#include "device/cpu/cpu.h"
#include "device/cpu/lanes.h"
#include "device/cpu/ranges.h"
#include "device/cpu/widen.h"

/* Makes the address of weight or bias (0 where there is none) that of fp32 values: where they are, or
 * widened in a half of the scratch. All rows use them, so they are widened once. */
static zn_status widen_param(const struct zn_cpu *cpu, zn_dtype type, int64_t cols, zn_addr *param, int half)
{
    ZN_TRY(zn_check_real(type, "norm"));
    if (type == ZN_F32 || !*param)
        return ZN_OK;
    if (cols > ZN_SCRATCH_FLOATS / 2)
        return zn_fail(ZN_ERR_UNSUPPORTED, "norm: %lld columns with 16-bit weights, at most %d",
                       (long long)cols, ZN_SCRATCH_FLOATS / 2);
    float *wide = zn_scratch(cpu, 0) + half * (ZN_SCRATCH_FLOATS / 2);
    zn_widen(wide, *param, type, 0, cols);
    *param = (zn_addr)(uintptr_t)wide;
    return ZN_OK;
}

static float row_sum(const float *x, int64_t n)
{
    zn_lanes lanes = {0};
    int64_t i = 0;
    for (; i + ZN_LANES <= n; i += ZN_LANES)
        lanes = zn_lanes_add(lanes, zn_lanes_load(x + i));
    float sums[ZN_LANES];
    zn_lanes_store(sums, lanes);
    for (int l = 0; i < n; i++, l++)
        sums[l] += x[i];
    return zn_lanes_total(sums);
}

/* The sum of (x - centre)². */
static float row_squares(const float *x, float centre, int64_t n)
{
    zn_lanes lanes = {0};
    int64_t i = 0;
    for (; i + ZN_LANES <= n; i += ZN_LANES) {
        zn_lanes d = zn_lanes_sub_scalar(zn_lanes_load(x + i), centre);
        lanes = zn_lanes_add(lanes, zn_lanes_mul(d, d));
    }
    float sums[ZN_LANES];
    zn_lanes_store(sums, lanes);
    for (int l = 0; i < n; i++, l++)
        sums[l] += (x[i] - centre) * (x[i] - centre);
    return zn_lanes_total(sums);
}

static float row_dot(const float *x, const float *y, int64_t n)
{
    zn_lanes lanes = {0};
    int64_t i = 0;
    for (; i + ZN_LANES <= n; i += ZN_LANES)
        lanes = zn_lanes_add(lanes, zn_lanes_mul(zn_lanes_load(x + i), zn_lanes_load(y + i)));
    float sums[ZN_LANES];
    zn_lanes_store(sums, lanes);
    for (int l = 0; i < n; i++, l++)
        sums[l] += x[i] * y[i];
    return zn_lanes_total(sums);
}

/* The sum of dy × weight × (x - mean) × rstd. */
static float row_project(const float *dy, const float *weight, const float *x, float mean,
                         float rstd, int64_t n)
{
    zn_lanes lanes = {0};
    int64_t i = 0;
    for (; i + ZN_LANES <= n; i += ZN_LANES) {
        zn_lanes g = zn_lanes_mul(zn_lanes_load(dy + i), zn_lanes_load(weight + i));
        zn_lanes h = zn_lanes_mul_scalar(zn_lanes_sub_scalar(zn_lanes_load(x + i), mean), rstd);
        lanes = zn_lanes_add(lanes, zn_lanes_mul(g, h));
    }
    float sums[ZN_LANES];
    zn_lanes_store(sums, lanes);
    for (int l = 0; i < n; i++, l++)
        sums[l] += dy[i] * weight[i] * ((x[i] - mean) * rstd);
    return zn_lanes_total(sums);
}

static void layernorm_row(const struct zn_layernorm_forward_args *a, int64_t row)
{
    int64_t n = a->cols;
    const float *restrict x = zn_floats(a->x) + row * n;
    const float *restrict weight = zn_floats(a->weight), *restrict bias = zn_floats(a->bias);
    float *restrict y = zn_floats(a->y) + row * n;
    float mean = row_sum(x, n) / (float)n;
    float rstd = 1.0f / sqrtf(row_squares(x, mean, n) / (float)n + a->eps);
    zn_floats(a->mean)[row] = mean;
    zn_floats(a->rstd)[row] = rstd;
    if (bias) {
        for (int64_t i = 0; i < n; i++)
            y[i] = (x[i] - mean) * rstd * weight[i] + bias[i];
    } else {
        for (int64_t i = 0; i < n; i++)
            y[i] = (x[i] - mean) * rstd * weight[i];
    }
}

zn_status ZN_K(layernorm_forward)(const struct zn_cpu *cpu, const void *args)
{
    struct zn_layernorm_forward_args wide = *(const struct zn_layernorm_forward_args *)args,
                                     *a = &wide;
    ZN_TRY(widen_param(cpu, wide.weight_type, wide.cols, &wide.weight, 0));
    ZN_TRY(widen_param(cpu, wide.bias_type, wide.cols, &wide.bias, 1));
#pragma omp parallel for schedule(static)                                                          \
    num_threads(cpu->n_threads) if (a->rows * a->cols >= ZN_SERIAL_BELOW)
    for (int64_t row = 0; row < a->rows; row++)
        layernorm_row(a, row);
    return ZN_OK;
}

/* dx = rstd × (g - mean(g) - h × mean(g·h)) with g = dy × weight, h = (x - mean) × rstd; adds
 * dy × h and dy to the sums of weight and bias. */
static void layernorm_row_backward(const struct zn_layernorm_backward_args *a, int64_t row,
                                   float *restrict d_weight, float *restrict d_bias)
{
    int64_t n = a->cols;
    const float *restrict x = zn_floats(a->x) + row * n, *restrict dy = zn_floats(a->dy) + row * n;
    const float *restrict weight = zn_floats(a->weight);
    float *restrict dx = zn_floats(a->dx) + row * n;
    float mean = zn_floats(a->mean)[row], rstd = zn_floats(a->rstd)[row];
    float mean_g = row_dot(dy, weight, n) / (float)n;
    float mean_gh = row_project(dy, weight, x, mean, rstd, n) / (float)n;
    for (int64_t i = 0; i < n; i++) {
        float h = (x[i] - mean) * rstd;
        dx[i] = (dy[i] * weight[i] - mean_g - h * mean_gh) * rstd;
        d_weight[i] += dy[i] * h;
    }
    if (d_bias)
        zn_add_row(d_bias, dy, n);
}

zn_status ZN_K(layernorm_backward)(const struct zn_cpu *cpu, const void *args)
{
    struct zn_layernorm_backward_args wide = *(const struct zn_layernorm_backward_args *)args,
                                      *a = &wide;
    ZN_TRY(widen_param(cpu, wide.weight_type, wide.cols, &wide.weight, 0));
    int64_t cols = a->cols, n_chunks = zn_pieces(a->rows, ZN_SUM_ROWS);
    float *weights = zn_floats(a->partial), *biases = weights + n_chunks * cols;
#pragma omp parallel for schedule(static)                                                          \
    num_threads(cpu->n_threads) if (a->rows * cols >= ZN_SERIAL_BELOW)
    for (int64_t k = 0; k < n_chunks; k++) {
        float *d_weight = weights + k * cols, *d_bias = a->d_bias ? biases + k * cols : NULL;
        memset(d_weight, 0, (size_t)cols * sizeof *d_weight);
        if (d_bias)
            memset(d_bias, 0, (size_t)cols * sizeof *d_bias);
        int64_t end = zn_min_count(a->rows, (k + 1) * ZN_SUM_ROWS);
        for (int64_t row = k * ZN_SUM_ROWS; row < end; row++)
            layernorm_row_backward(a, row, d_weight, d_bias);
    }
    zn_sum_partials(cpu, zn_floats(a->d_weight), weights, n_chunks, cols);
    if (a->d_bias)
        zn_sum_partials(cpu, zn_floats(a->d_bias), biases, n_chunks, cols);
    return ZN_OK;
}

static void rmsnorm_row(const struct zn_rmsnorm_forward_args *a, int64_t row)
{
    int64_t n = a->cols;
    const float *restrict x = zn_floats(a->x) + row * n, *restrict weight = zn_floats(a->weight);
    float *restrict y = zn_floats(a->y) + row * n;
    float rstd = 1.0f / sqrtf(row_dot(x, x, n) / (float)n + a->eps);
    zn_floats(a->rstd)[row] = rstd;
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] * rstd * weight[i];
}

zn_status ZN_K(rmsnorm_forward)(const struct zn_cpu *cpu, const void *args)
{
    struct zn_rmsnorm_forward_args wide = *(const struct zn_rmsnorm_forward_args *)args, *a = &wide;
    ZN_TRY(widen_param(cpu, wide.weight_type, wide.cols, &wide.weight, 0));
#pragma omp parallel for schedule(static)                                                          \
    num_threads(cpu->n_threads) if (a->rows * a->cols >= ZN_SERIAL_BELOW)
    for (int64_t row = 0; row < a->rows; row++)
        rmsnorm_row(a, row);
    return ZN_OK;
}

/* dx = rstd × (g - h × mean(g·h)) with g = dy × weight, h = x × rstd; adds dy × h to the sum. */
static void rmsnorm_row_backward(const struct zn_rmsnorm_backward_args *a, int64_t row,
                                 float *restrict d_weight)
{
    int64_t n = a->cols;
    const float *restrict x = zn_floats(a->x) + row * n, *restrict dy = zn_floats(a->dy) + row * n;
    const float *restrict weight = zn_floats(a->weight);
    float *restrict dx = zn_floats(a->dx) + row * n;
    float rstd = zn_floats(a->rstd)[row];
    float mean_gh = row_project(dy, weight, x, 0.0f, rstd, n) / (float)n;
    for (int64_t i = 0; i < n; i++) {
        float h = x[i] * rstd;
        dx[i] = (dy[i] * weight[i] - h * mean_gh) * rstd;
        d_weight[i] += dy[i] * h;
    }
}

zn_status ZN_K(rmsnorm_backward)(const struct zn_cpu *cpu, const void *args)
{
    struct zn_rmsnorm_backward_args wide = *(const struct zn_rmsnorm_backward_args *)args,
                                    *a = &wide;
    ZN_TRY(widen_param(cpu, wide.weight_type, wide.cols, &wide.weight, 0));
    int64_t cols = a->cols, n_chunks = zn_pieces(a->rows, ZN_SUM_ROWS);
    float *partial = zn_floats(a->partial);
#pragma omp parallel for schedule(static)                                                          \
    num_threads(cpu->n_threads) if (a->rows * cols >= ZN_SERIAL_BELOW)
    for (int64_t k = 0; k < n_chunks; k++) {
        float *d_weight = partial + k * cols;
        memset(d_weight, 0, (size_t)cols * sizeof *d_weight);
        int64_t end = zn_min_count(a->rows, (k + 1) * ZN_SUM_ROWS);
        for (int64_t row = k * ZN_SUM_ROWS; row < end; row++)
            rmsnorm_row_backward(a, row, d_weight);
    }
    zn_sum_partials(cpu, zn_floats(a->d_weight), partial, n_chunks, cols);
    return ZN_OK;
}
