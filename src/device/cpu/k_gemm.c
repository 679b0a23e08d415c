/* The matrix product as a fixed grid of single-threaded products.
 *
 * The grid's constants cut C and the sum over k at the same places whatever the thread count, and
 * whatever number of calls a product is made of: a product cut along m, n or k (`adds`, bias with
 * the last part) at multiples of ZN_GEMM_* makes the same BLAS calls, hence the same bits.
 *
 * A 16-bit B is widened one panel (ZN_GEMM_K × ZN_GEMM_N) at a time into the thread's scratch, where
 * the same calls take it: widening is exact, so the bits are those of an fp32 B with these values.
 * Blocks down a column of the grid share the panel, so a thread takes several of them at once. */
#include <omp.h>
#include <stdatomic.h>

#include "base/status.h"
#include "device/cpu/blas.h"
#include "device/cpu/cpu.h"
#include "device/cpu/ranges.h"
#include "device/cpu/widen.h"

/* Blocks of one column of the grid. */
struct group {
    int64_t row, rows, col, cols;
};

/* Where op(X) begins at (row, col), in elements. */
static int64_t place(int64_t stride, bool transposed, int64_t row, int64_t col)
{
    return transposed ? col * stride + row : row * stride + col;
}

static struct zn_block block_of_a(const struct zn_gemm_args *g, int64_t row, int64_t at)
{
    return (struct zn_block){zn_floats(g->a) + place(g->a_stride, g->transpose_a, row, at),
                             g->a_stride, g->transpose_a};
}

/* B(at … at+depth, col … col+cols), in scratch unless it is fp32. */
static struct zn_block block_of_b(const struct zn_gemm_args *g, int64_t at, int64_t depth,
                                  int64_t col, int64_t cols, float *scratch)
{
    int64_t first = place(g->b_stride, g->transpose_b, at, col);
    if (g->b_type == ZN_F32)
        return (struct zn_block){zn_floats(g->b) + first, g->b_stride, g->transpose_b};
    int64_t rows = g->transpose_b ? cols : depth, length = g->transpose_b ? depth : cols;
    for (int64_t i = 0; i < rows; i++)
        zn_widen(scratch + i * length, g->b, g->b_type, first + i * g->b_stride, length);
    return (struct zn_block){scratch, length, g->transpose_b};
}

static void add_bias(const struct zn_gemm_args *g, const struct group *group)
{
    float bias[ZN_GEMM_N];
    zn_widen(bias, g->bias, g->bias_type, group->col, group->cols);
    for (int64_t i = group->row; i < group->row + group->rows; i++) {
        float *restrict c = zn_floats(g->c) + i * g->c_stride + group->col;
        for (int64_t j = 0; j < group->cols; j++)
            c[j] += bias[j];
    }
}

/* Blocks of C, their whole sum over k. */
static void compute_group(const struct zn_gemm_args *g, const struct group *group, float *scratch)
{
    int64_t at = 0, end = group->row + group->rows;
    do {
        int64_t depth = zn_min_count(ZN_GEMM_K, g->k - at);
        struct zn_block b = block_of_b(g, at, depth, group->col, group->cols, scratch);
        for (int64_t row = group->row; row < end; row += ZN_GEMM_M)
            zn_sgemm_block(zn_min_count(ZN_GEMM_M, end - row), group->cols, depth, 1.0f,
                           block_of_a(g, row, at), b, g->adds || at > 0,
                           zn_floats(g->c) + row * g->c_stride + group->col, g->c_stride);
        at += ZN_GEMM_K;
    } while (at < g->k);
    if (g->bias)
        add_bias(g, group);
}

/* How many of the blocks from `first` on, down one column of the grid, a thread takes at once. With
 * a panel to widen many while much is left, so that it serves often; ever fewer towards the end, so
 * that the threads end together. */
static int64_t blocks_at_once(const struct zn_gemm_args *g, int64_t n_rows, int64_t n_blocks,
                              int64_t first, int n_threads)
{
    if (g->b_type == ZN_F32)
        return 1;
    int64_t share = (n_blocks - first) / (2 * n_threads);
    int64_t below = n_rows - first % n_rows;
    return share < 1 ? 1 : zn_min_count(share, below);
}

/* Takes the next blocks; false when none are left. Down the rows first: threads that work at once
 * share a panel of B. */
static bool take_group(const struct zn_gemm_args *g, int n_threads, _Atomic int64_t *next,
                       struct group *group)
{
    int64_t n_rows = zn_pieces(g->m, ZN_GEMM_M), n_blocks = n_rows * zn_pieces(g->n, ZN_GEMM_N);
    int64_t first = atomic_load(next), n;
    do {
        if (first >= n_blocks)
            return false;
        n = blocks_at_once(g, n_rows, n_blocks, first, n_threads);
    } while (!atomic_compare_exchange_weak(next, &first, first + n));
    int64_t row = first % n_rows * ZN_GEMM_M, col = first / n_rows * ZN_GEMM_N;
    *group = (struct group){.row = row,
                            .rows = zn_min_count(n * ZN_GEMM_M, g->m - row),
                            .col = col,
                            .cols = zn_min_count(ZN_GEMM_N, g->n - col)};
    return true;
}

static zn_status check(const struct zn_gemm_args *g)
{
    if (!zn_blas_fits(g->a_stride) || !zn_blas_fits(g->b_stride) || !zn_blas_fits(g->c_stride))
        return zn_fail(ZN_ERR_UNSUPPORTED, "gemm: a row stride does not fit the BLAS's integers");
    ZN_TRY(zn_check_real(g->b_type, "gemm"));
    return zn_check_real(g->bias_type, "gemm");
}

zn_status ZN_K(gemm)(const struct zn_cpu *cpu, const void *args)
{
    const struct zn_gemm_args *g = args;
    ZN_TRY(check(g));
    _Atomic int64_t next = 0;
#pragma omp parallel num_threads(cpu->n_threads)
    {
        struct group group;
        float *scratch = zn_scratch(cpu, omp_get_thread_num());
        zn_blas_enter_team();
        while (take_group(g, cpu->n_threads, &next, &group))
            compute_group(g, &group, scratch);
    }
    return ZN_OK;
}
