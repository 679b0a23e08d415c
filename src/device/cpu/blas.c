/* Single-threaded matrix products through CBLAS. */
#include "device/cpu/blas.h"

#include <cblas.h>
#include <limits.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

/* How each library is told to stay on the calling thread. Weak: only the linked one has its own. */
extern void openblas_set_num_threads(int n_threads) __attribute__((weak));
extern int openblas_get_num_threads(void) __attribute__((weak));
extern void *blas_memory_alloc(int position) __attribute__((weak)); /* OpenBLAS's */
extern void blas_memory_free(void *buffer) __attribute__((weak));
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

/* BUFFER_SIZE of OpenBLAS on processors of 64 bits. */
static const size_t BUFFER_BYTES = (size_t)128 * 1024 * 1024;
static const size_t SPARE_BYTES = (size_t)1024 * 1024; /* for what it keeps beside them */

static bool has_buffers(void)
{
    return blas_memory_alloc && blas_memory_free;
}

/* One more than threads, as OpenBLAS keeps one for itself; it has taken some as it was loaded. */
size_t zn_blas_reserved_bytes(int n_threads)
{
    int taken = openblas_get_num_threads ? openblas_get_num_threads() : 0;
    int n = n_threads + 1 - taken;
    return has_buffers() && n > 0 ? (size_t)n * BUFFER_BYTES : 0;
}

static bool is_limited(void)
{
    struct rlimit space, data;
    return (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY) ||
           (getrlimit(RLIMIT_DATA, &data) == 0 && data.rlim_cur != RLIM_INFINITY);
}

static bool can_map(size_t n_bytes)
{
    void *map = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED)
        return false;
    munmap(map, n_bytes);
    return true;
}

zn_status zn_blas_reserve(int n_threads)
{
    if (!has_buffers() || !is_limited())
        return ZN_OK;
    void **buffers = calloc((size_t)n_threads, sizeof *buffers);
    int n = 0;
    while (buffers && n < n_threads && can_map(BUFFER_BYTES + SPARE_BYTES))
        buffers[n++] = blas_memory_alloc(0);
    for (int i = 0; i < n; i++)
        blas_memory_free(buffers[i]); /* they stay OpenBLAS's, for the threads that will ask */
    free(buffers);
    if (n == n_threads)
        return ZN_OK;
    return zn_fail(ZN_ERR_MEMORY, "the address space of the process is limited, and OpenBLAS takes %zu MiB of it for each of %d "
                   "threads: raise `ulimit -v` and `ulimit -d`, or give fewer --threads", BUFFER_BYTES >> 20, n_threads);
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
