/* Matrix products by OpenBLAS. */
#include "blas_rival.h"

#include <cblas.h>
#include <omp.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "device/cpu/half.h"

extern void openblas_set_num_threads(int n_threads) __attribute__((weak));

enum { GRID_M = 256, GRID_N = 512, GRID_K = 1024 };

static float *panels;

bool rival_init(int n_threads)
{
    if (openblas_set_num_threads)
        openblas_set_num_threads(1);
    panels = calloc((size_t)n_threads, sizeof(float) * GRID_N * GRID_K);
    return panels != NULL;
}

void rival_fini(void)
{
    free(panels);
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t place(int64_t stride, bool transposed, int64_t row, int64_t col)
{
    return transposed ? col * stride + row : row * stride + col;
}

/* B(at … at+depth, col … col+cols): where it lies, or widened. */
static const float *panel_of_b(const struct zn_gemm_args *g, int64_t at, int64_t depth, int64_t col, int64_t cols, float *panel,
                               int64_t *stride)
{
    int64_t first = place(g->b_stride, g->transpose_b, at, col);
    *stride = g->b_stride;
    if (g->b_type == ZN_F32)
        return (const float *)(uintptr_t)g->b + first;
    int64_t rows = g->transpose_b ? cols : depth, length = g->transpose_b ? depth : cols;
    const uint16_t *b = (const uint16_t *)(uintptr_t)g->b + first;
    *stride = length;
    for (int64_t i = 0; i < rows; i++)
        if (g->b_type == ZN_BF16)
            zn_from_bf16(panel + i * length, b + i * g->b_stride, length);
        else
            zn_from_f16(panel + i * length, b + i * g->b_stride, length);
    return panel;
}

static void compute_block(const struct zn_gemm_args *g, int64_t row, int64_t rows, int64_t col, float *panel)
{
    int64_t cols = least(GRID_N, g->n - col);
    for (int64_t at = 0; at < g->k; at += GRID_K) {
        int64_t depth = least(GRID_K, g->k - at), stride;
        const float *b = panel_of_b(g, at, depth, col, cols, panel, &stride);
        for (int64_t i = row; i < row + rows; i += GRID_M)
            cblas_sgemm(CblasRowMajor, g->transpose_a ? CblasTrans : CblasNoTrans, g->transpose_b ? CblasTrans : CblasNoTrans,
                        (int)least(GRID_M, row + rows - i), (int)cols, (int)depth, 1,
                        (const float *)(uintptr_t)g->a + place(g->a_stride, g->transpose_a, i, at), (int)g->a_stride, b,
                        (int)stride, g->adds || at > 0 ? 1 : 0, (float *)(uintptr_t)g->c + i * g->c_stride + col,
                        (int)g->c_stride);
    }
}

/* Blocks down a column share a widened panel: several are taken at once, fewer towards the end. */
static int64_t blocks_at_once(const struct zn_gemm_args *g, int64_t n_rows, int64_t n_left, int64_t first, int n_threads)
{
    int64_t share = n_left / (2 * n_threads);
    return g->b_type == ZN_F32 || share < 1 ? 1 : least(share, n_rows - first % n_rows);
}

void rival_grid(const struct zn_gemm_args *g, int n_threads)
{
    int64_t n_rows = (g->m + GRID_M - 1) / GRID_M, n_blocks = n_rows * ((g->n + GRID_N - 1) / GRID_N);
    _Atomic int64_t next = 0;
#pragma omp parallel num_threads(n_threads)
    {
        float *panel = panels + (size_t)omp_get_thread_num() * GRID_N * GRID_K;
        omp_set_num_threads(1); /* a BLAS on OpenMP stays on this thread */
        for (int64_t first = atomic_load(&next), n; first < n_blocks;) {
            n = blocks_at_once(g, n_rows, n_blocks - first, first, n_threads);
            if (!atomic_compare_exchange_weak(&next, &first, first + n))
                continue;
            int64_t row = first % n_rows * GRID_M;
            compute_block(g, row, least(n * GRID_M, g->m - row), first / n_rows * GRID_N, panel);
            first = atomic_load(&next);
        }
    }
}

void rival_whole(const struct zn_gemm_args *g, int n_threads)
{
    if (openblas_set_num_threads)
        openblas_set_num_threads(n_threads);
    cblas_sgemm(CblasRowMajor, g->transpose_a ? CblasTrans : CblasNoTrans, g->transpose_b ? CblasTrans : CblasNoTrans, (int)g->m,
                (int)g->n, (int)g->k, 1, (const float *)(uintptr_t)g->a, (int)g->a_stride, (const float *)(uintptr_t)g->b,
                (int)g->b_stride, g->adds ? 1 : 0, (float *)(uintptr_t)g->c, (int)g->c_stride);
    if (openblas_set_num_threads)
        openblas_set_num_threads(1);
}
