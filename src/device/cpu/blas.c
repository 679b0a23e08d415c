/* Single-threaded matrix products through CBLAS. */
#include "device/cpu/blas.h"

#include <cblas.h>
#include <limits.h>
#include <omp.h>
#include <string.h>

/* How each library is told to stay on the calling thread. Weak: only the linked one has its own. */
extern void openblas_set_num_threads(int n_threads) __attribute__((weak));
extern void MKL_Set_Num_Threads(int n_threads) __attribute__((weak));
extern void bli_thread_set_num_threads(int64_t n_threads) __attribute__((weak));

void zn_blas_init(void)
{
    int n_threads = omp_get_max_threads();
    if (openblas_set_num_threads)
        openblas_set_num_threads(1);
    if (MKL_Set_Num_Threads)
        MKL_Set_Num_Threads(1);
    if (bli_thread_set_num_threads)
        bli_thread_set_num_threads(1);
    omp_set_num_threads(n_threads); /* some libraries set OpenMP itself, which is not theirs */
}

void zn_blas_enter_team(void)
{
    omp_set_num_threads(1);
}

bool zn_blas_fits(int64_t stride)
{
    return stride >= 0 && stride <= INT_MAX;
}

/* C and op(A) are one row: the product with a vector does not copy B into panels first, and B is
 * then read at the speed of memory. */
static void row_times_block(int64_t n, int64_t k, float alpha, struct zn_block a, struct zn_block b,
                            bool adds, float *c)
{
    bool rows_are_columns = b.transposed; /* B is stored (n,k) */
    if (!adds)
        memset(c, 0,
               (size_t)n * sizeof *c); /* not by beta = 0, which some libraries multiply with */
    cblas_sgemv(CblasRowMajor, rows_are_columns ? CblasNoTrans : CblasTrans,
                (int)(rows_are_columns ? n : k), (int)(rows_are_columns ? k : n), alpha, b.at,
                (int)b.stride, a.at, a.transposed ? (int)a.stride : 1, 1.0f, c, 1);
}

void zn_sgemm_block(int64_t m, int64_t n, int64_t k, float alpha, struct zn_block a,
                    struct zn_block b, bool adds, float *c, int64_t c_stride)
{
    if (m == 1) {
        row_times_block(n, k, alpha, a, b, adds, c);
        return;
    }
    cblas_sgemm(CblasRowMajor, a.transposed ? CblasTrans : CblasNoTrans,
                b.transposed ? CblasTrans : CblasNoTrans, (int)m, (int)n, (int)k, alpha, a.at,
                (int)a.stride, b.at, (int)b.stride, adds ? 1.0f : 0.0f, c, (int)c_stride);
}
