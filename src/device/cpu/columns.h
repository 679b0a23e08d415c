/* Sums down the columns of a matrix, in two steps: chunks of ZN_SUM_ROWS rows into one row of
 * partial sums each, then the partial sums in chunk order. */
#ifndef ZN_DEVICE_CPU_COLUMNS_H
#define ZN_DEVICE_CPU_COLUMNS_H

#include <string.h>

#include "device/cpu/ranges.h"

/* dst(cols) += row(cols) */
static inline void zn_add_row(float *restrict dst, const float *restrict row, int64_t cols)
{
    for (int64_t c = 0; c < cols; c++)
        dst[c] += row[c];
}

/* dst(cols) = the rows of src added one after the other. */
static inline void zn_sum_rows(float *dst, const float *src, int64_t rows, int64_t stride,
                               int64_t cols)
{
    memset(dst, 0, (size_t)cols * sizeof *dst);
    for (int64_t r = 0; r < rows; r++)
        zn_add_row(dst, src + r * stride, cols);
}

/* The second step: dst(cols) = the sum of the n_chunks rows of partial. */
static inline void zn_sum_partials(const struct zn_cpu *cpu, float *dst, const float *partial,
                                   int64_t n_chunks, int64_t cols)
{
    enum { BLOCK = 512 }; /* columns one thread takes at a time */
#pragma omp parallel for schedule(static) num_threads(cpu->n_threads)                              \
    if (n_chunks * cols >= ZN_SERIAL_BELOW)
    for (int64_t c = 0; c < cols; c += BLOCK)
        zn_sum_rows(dst + c, partial + c, n_chunks, cols, zn_min_count(cols - c, BLOCK));
}

#endif
