/* The matrix product as a fixed grid of single-threaded products.
 *
 * The grid's constants cut C and the sum over k at the same places whatever the thread count, and
 * whatever number of calls a product is made of: a product cut along m, n or k (`adds`, bias with
 * the last part) at multiples of ZN_GEMM_* makes the same BLAS calls, hence the same bits. */
#include <omp.h>

#include "base/status.h"
#include "device/cpu/blas.h"
#include "device/cpu/cpu.h"

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t n_blocks(int64_t extent, int64_t block)
{
    return (extent + block - 1) / block;
}

/* Where op(X) begins at (row, col). */
static const float *operand(zn_addr x, int64_t stride, bool transposed, int64_t row, int64_t col)
{
    return zn_floats(x) + (transposed ? col * stride + row : row * stride + col);
}

static void add_bias(float *restrict c, const float *restrict bias, int64_t rows, int64_t cols,
                     int64_t stride)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            c[i * stride + j] += bias[j];
}

/* The block of C that begins at (row, col), its whole sum over k. */
static void compute_block(const struct zn_gemm_args *g, int64_t row, int64_t col)
{
    int64_t rows = smaller(ZN_GEMM_M, g->m - row), cols = smaller(ZN_GEMM_N, g->n - col);
    float *c = zn_floats(g->c) + row * g->c_stride + col;
    int64_t at = 0;
    do {
        struct zn_block a = {operand(g->a, g->a_stride, g->transpose_a, row, at), g->a_stride,
                             g->transpose_a};
        struct zn_block b = {operand(g->b, g->b_stride, g->transpose_b, at, col), g->b_stride,
                             g->transpose_b};
        zn_sgemm_block(rows, cols, smaller(ZN_GEMM_K, g->k - at), 1.0f, a, b, g->adds || at > 0, c,
                       g->c_stride);
        at += ZN_GEMM_K;
    } while (at < g->k);
    if (g->bias)
        add_bias(c, zn_floats(g->bias) + col, rows, cols, g->c_stride);
}

zn_status ZN_K(gemm)(const struct zn_cpu *cpu, const void *args)
{
    const struct zn_gemm_args *g = args;
    if (!zn_blas_fits(g->a_stride) || !zn_blas_fits(g->b_stride) || !zn_blas_fits(g->c_stride))
        return zn_fail(ZN_ERR_UNSUPPORTED, "gemm: a row stride does not fit the BLAS's integers");
    int64_t n_rows = n_blocks(g->m, ZN_GEMM_M), n_cols = n_blocks(g->n, ZN_GEMM_N);
#pragma omp parallel num_threads(cpu->n_threads)
    {
        zn_blas_enter_team();
        /* Down the rows first: threads that work at once share a panel of B. */
#pragma omp for schedule(dynamic)
        for (int64_t block = 0; block < n_rows * n_cols; block++)
            compute_block(g, block % n_rows * ZN_GEMM_M, block / n_rows * ZN_GEMM_N);
    }
    return ZN_OK;
}
