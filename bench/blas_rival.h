/* The rival of bench_gemm: matrix products by OpenBLAS, as a grid of single-threaded calls whose order does not depend on the
 * number of threads, and as one call that may use all of them. */
#ifndef ZN_BENCH_BLAS_RIVAL_H
#define ZN_BENCH_BLAS_RIVAL_H

#include "device/kernels.h"

/* Memory for 16-bit B operands, which the grid widens a panel at a time. False where there is none. */
bool rival_init(int n_threads);
void rival_fini(void);

void rival_grid(const struct zn_gemm_args *g, int n_threads);
void rival_whole(const struct zn_gemm_args *g, int n_threads); /* fp32 without bias */

#endif
