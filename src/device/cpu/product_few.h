/* The matrix product of few rows, bounded by the speed at which B is read: B is neither packed nor widened in memory, and what was
 * read serves all rows. The order is that of all products. */
#ifndef ZN_DEVICE_CPU_PRODUCT_FEW_H
#define ZN_DEVICE_CPU_PRODUCT_FEW_H

#include <omp.h>

#include "device/cpu/operand.h"
#include "device/cpu/ranges.h"

enum {
    FEW_ROWS = 16,
    STRIPE = 1024, /* columns whose sums a thread keeps in a cache where B is (k,n) */
    LINES = 4,     /* rows of B, in order, for which these are read once */
    AHEAD = 2,     /* times as many rows that are asked for before */
};

/* Asks for element i, which may lie beyond the matrix: B is read in pieces that are too short for processors to foresee. */
ZN_INLINE void prefetch(const void *at, int64_t i, zn_dtype type)
{
    __builtin_prefetch((const void *)((uintptr_t)at + (uintptr_t)i * (type == ZN_F32 ? 4 : 2)));
}

/* One element, where no vector fits. */
ZN_INLINE float chain(const struct zn_gemm_args *g, zn_dtype type, int64_t row, int64_t col, int64_t at, int64_t end)
{
    const float *a = zn_floats(g->a) + row * g->a_stride;
    const void *b = zn_pointer(g->b);
    float sum = 0;
    for (int64_t k = at; k < end; k++)
        sum = fmaf(a[k], zn_operand_one(b, g->transpose_b ? col * g->b_stride + k : k * g->b_stride + col, type), sum);
    return sum;
}

/* C(row, col …) [+]= a chunk's sums [+ bias]. */
ZN_INLINE void add_chunk(const struct zn_gemm_args *g, int64_t row, int64_t col, int64_t cols, int64_t at, const float *sum)
{
    float *c = zn_floats(g->c) + row * g->c_stride + col;
    bool adds = g->adds || at > 0;
    for (int64_t j = 0; j < cols; j++)
        c[j] = adds ? c[j] + sum[j] : sum[j];
    if (!g->bias || at + ZN_GEMM_K < g->k)
        return;
    for (int64_t j = 0; j < cols; j++)
        c[j] += zn_operand_one(zn_pointer(g->bias), col + j, g->bias_type);
}

/* sum(cols) += a(k) · B(k) + a(k+1) · B(k+1) … for each row; `lines` is a constant. */
ZN_INLINE void add_lines(const struct zn_gemm_args *g, zn_dtype type, int lines, int64_t k, int64_t col, int64_t cols, float *sums)
{
    const void *b = zn_pointer(g->b);
    int64_t first = k * g->b_stride + col, j = 0;
    for (; j + ZN_WIDTH <= cols; j += ZN_WIDTH) {
        zn_vector w[LINES];
#pragma GCC unroll 4
        for (int l = 0; l < lines; l++) {
            w[l] = zn_operand_load(b, first + l * g->b_stride + j, type);
            prefetch(b, first + (l + AHEAD * LINES) * g->b_stride + j, type);
        }
        for (int64_t r = 0; r < g->m; r++) {
            const float *a = zn_floats(g->a) + r * g->a_stride + k;
            zn_vector sum = zn_vector_load(sums + r * STRIPE + j);
#pragma GCC unroll 4
            for (int l = 0; l < lines; l++)
                sum = zn_vector_fma(zn_vector_all(a[l]), w[l], sum);
            zn_vector_store(sums + r * STRIPE + j, sum);
        }
    }
    for (; j < cols; j++)
        for (int64_t r = 0; r < g->m; r++)
            for (int l = 0; l < lines; l++)
                sums[r * STRIPE + j] = fmaf(zn_floats(g->a)[r * g->a_stride + k + l],
                                            zn_operand_one(b, first + l * g->b_stride + j, type), sums[r * STRIPE + j]);
}

/* Columns col … end of C where B is (k,n). */
ZN_INLINE void few_by_lines(const struct zn_gemm_args *g, zn_dtype type, int64_t col, int64_t end, float *sums)
{
    for (; col < end; col += STRIPE) {
        int64_t cols = zn_min_count(STRIPE, end - col);
        for (int64_t at = 0; at < g->k; at += ZN_GEMM_K) {
            int64_t k = at, last = zn_min_count(at + ZN_GEMM_K, g->k);
            memset(sums, 0, (size_t)(g->m * STRIPE) * sizeof *sums);
            for (; k + LINES <= last; k += LINES)
                add_lines(g, type, LINES, k, col, cols, sums);
            for (; k < last; k++)
                add_lines(g, type, 1, k, col, cols, sums);
            for (int64_t r = 0; r < g->m; r++)
                add_chunk(g, r, col, cols, at, sums + r * STRIPE);
        }
    }
}

/* ZN_WIDTH columns of C from col on, one chunk, where B is (n,k): squares of B are transposed in registers. */
ZN_INLINE void few_of_square(const struct zn_gemm_args *g, zn_dtype type, int rows, int64_t row, int64_t col, int64_t at,
                             int64_t end)
{
    const void *b = zn_pointer(g->b);
    const float *a = zn_floats(g->a) + row * g->a_stride;
    zn_vector sum[4] = {0};
    int64_t k = at;
    for (; k + ZN_WIDTH <= end; k += ZN_WIDTH) {
        zn_vector w[ZN_WIDTH];
#pragma GCC unroll 16
        for (int j = 0; j < ZN_WIDTH; j++) {
            w[j] = zn_operand_load(b, (col + j) * g->b_stride + k, type);
            prefetch(b, (col + ZN_WIDTH + j) * g->b_stride + k, type);
        }
        zn_transpose(w);
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 16
            for (int j = 0; j < ZN_WIDTH; j++)
                sum[r] = zn_vector_fma(zn_vector_all(a[r * g->a_stride + k + j]), w[j], sum[r]);
    }
    for (; k < end; k++)
        for (int r = 0; r < rows; r++)
            for (int j = 0; j < ZN_WIDTH; j++)
                sum[r][j] = fmaf(a[r * g->a_stride + k], zn_operand_one(b, (col + j) * g->b_stride + k, type), sum[r][j]);
    for (int r = 0; r < rows; r++) {
        float sums[ZN_WIDTH];
        zn_vector_store(sums, sum[r]);
        add_chunk(g, row + r, col, ZN_WIDTH, at, sums);
    }
}

/* Columns col … end of C where B is (n,k). */
ZN_INLINE void few_by_squares(const struct zn_gemm_args *g, zn_dtype type, int64_t col, int64_t end)
{
    for (; col + ZN_WIDTH <= end; col += ZN_WIDTH)
        for (int64_t at = 0; at < g->k; at += ZN_GEMM_K) {
            int64_t last = zn_min_count(at + ZN_GEMM_K, g->k), r = 0;
            for (; r + 4 <= g->m; r += 4)
                few_of_square(g, type, 4, r, col, at, last);
            for (; r < g->m; r++)
                few_of_square(g, type, 1, r, col, at, last);
        }
    for (; col < end; col++)
        for (int64_t at = 0; at < g->k; at += ZN_GEMM_K)
            for (int64_t r = 0; r < g->m; r++) {
                float sum = chain(g, type, r, col, at, zn_min_count(at + ZN_GEMM_K, g->k));
                add_chunk(g, r, col, 1, at, &sum);
            }
}

static inline void few_columns(const struct zn_gemm_args *g, int64_t col, int64_t end, float *sums)
{
#define COLUMNS(type) (g->transpose_b ? few_by_squares(g, type, col, end) : few_by_lines(g, type, col, end, sums))
    if (g->b_type == ZN_F32)
        COLUMNS(ZN_F32);
    else if (g->b_type == ZN_BF16)
        COLUMNS(ZN_BF16);
    else
        COLUMNS(ZN_F16);
#undef COLUMNS
}

/* Each thread has its part of the columns, cut between vectors. */
static inline void run_few(const struct zn_cpu *cpu, const struct zn_gemm_args *g, int n_threads)
{
    int64_t n_vectors = zn_pieces(g->n, ZN_LANES);
#pragma omp parallel num_threads(n_threads)
    {
        int64_t t = omp_get_thread_num(), n = omp_get_num_threads();
        few_columns(g, n_vectors * t / n * ZN_LANES, zn_min_count(g->n, n_vectors * (t + 1) / n * ZN_LANES),
                    zn_scratch(cpu, (int)t));
    }
}

#endif
