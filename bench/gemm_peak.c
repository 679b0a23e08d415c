/* The machine's matrix-product peak: one large single-threaded sgemm on every OpenMP thread at once, as Zinc itself
 * calls BLAS. Prints {"threads","gflops","gflops_per_thread"}: the best of several rounds.
 *
 *   gemm_peak [THREADS] [ROUNDS]
 *
 * 2·N³ flop a product; N is large enough that packing and edges do not show and small enough for many rounds. */
#include <cblas.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { N = 1024, PRODUCTS = 4 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Three N×N matrices, written once so that no page is touched first inside the timing. Freed by the caller. */
static float *matrices(void)
{
    float *m = malloc(sizeof(float) * 3 * N * N);
    for (size_t i = 0; m && i < (size_t)3 * N * N; i++)
        m[i] = (float)(i % 97) * 0.01f;
    return m;
}

static void multiply(const float *a, const float *b, float *c)
{
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, N, N, N, 1.0f, a, N, b, N, 0.0f, c, N);
}

int main(int argc, char **argv)
{
    int threads = argc > 1 ? atoi(argv[1]) : omp_get_max_threads(), rounds = argc > 2 ? atoi(argv[2]) : 8;
    if (threads < 1 || rounds < 1) {
        fprintf(stderr, "usage: gemm_peak [THREADS] [ROUNDS]\n");
        return 2;
    }
    omp_set_dynamic(0);
    double best = 0, start = 0;
    int failed = 0;
#pragma omp parallel num_threads(threads)
    {
        omp_set_num_threads(1);                         /* this thread's BLAS stays on it, in a team of one too */
        float *m = matrices();
        if (m) {
            multiply(m, m + N * N, m + 2 * N * N);
        } else {
#pragma omp atomic write
            failed = 1;
        }
        for (int r = 0; r < rounds; r++) {
#pragma omp barrier
#pragma omp single
            start = now();
            for (int i = 0; m && i < PRODUCTS; i++)
                multiply(m, m + N * N, m + 2 * N * N);
#pragma omp barrier
#pragma omp single
            {
                double rate = 2.0 * N * N * N * PRODUCTS * threads / (now() - start) * 1e-9;
                best = rate > best ? rate : best;
            }
        }
        free(m);
    }
    if (failed) {
        fprintf(stderr, "gemm_peak: out of memory\n");
        return 1;
    }
    printf("{\"threads\": %d, \"gflops\": %.1f, \"gflops_per_thread\": %.1f}\n", threads, best, best / threads);
    return 0;
}
