/* Sums over rows and sums of squares, in constant chunks. */
#include "base/exact.h"
#include "device/cpu/columns.h"
#include "device/cpu/cpu.h"
#include "device/cpu/lanes.h"
#include "device/cpu/ranges.h"

zn_status ZN_K(column_sum)(const struct zn_cpu *cpu, const void *args)
{
    const struct zn_column_sum_args *a = args;
    const float *src = zn_floats(a->src);
    float *partial = zn_floats(a->partial);
    int64_t n_chunks = zn_pieces(a->rows, ZN_SUM_ROWS);
#pragma omp parallel for schedule(static) num_threads(cpu->n_threads)                              \
    if (a->rows * a->cols >= ZN_SERIAL_BELOW)
    for (int64_t k = 0; k < n_chunks; k++) {
        int64_t first = k * ZN_SUM_ROWS;
        zn_sum_rows(partial + k * a->cols, src + first * a->stride,
                    zn_min_count(a->rows - first, ZN_SUM_ROWS), a->stride, a->cols);
    }
    zn_sum_partials(cpu, zn_floats(a->dst), partial, n_chunks, a->cols);
    return ZN_OK;
}

static double chunk_squares(const float *x, int64_t n)
{
    zn_lanes_double lanes = {0};
    int64_t i = 0;
    for (; i + ZN_LANES <= n; i += ZN_LANES)
        lanes = zn_lanes_add_squares(lanes, x + i);
    double sums[ZN_LANES];
    zn_lanes_store_double(sums, lanes);
    for (int l = 0; i < n; i++, l++)
        sums[l] += (double)x[i] * (double)x[i];
    return zn_lanes_total_double(sums);
}

zn_status ZN_K(sum_squares)(const struct zn_cpu *cpu, const void *args)
{
    const struct zn_sum_squares_args *a = args;
    const float *src = zn_floats(a->src);
    double *partial = zn_pointer(a->partial);
    zn_exact *sum = zn_pointer(a->sum);
    int64_t n = a->n_elements, n_chunks = zn_pieces(n, ZN_SUM_ELEMENTS);
#pragma omp parallel for schedule(static) num_threads(cpu->n_threads) if (n >= ZN_SERIAL_BELOW)
    for (int64_t k = 0; k < n_chunks; k++) {
        int64_t first = k * ZN_SUM_ELEMENTS;
        partial[k] = chunk_squares(src + first, zn_min_count(n - first, ZN_SUM_ELEMENTS));
    }
    for (int64_t k = 0; k < n_chunks; k++)
        zn_exact_add(sum, partial[k]);
    return ZN_OK;
}
