/* Single-threaded matrix products on one block: all of Zinc that sees a BLAS.
 *
 * Threads are the kernels' own business, since a threaded BLAS changes bits with its thread count. */
#ifndef ZN_DEVICE_CPU_BLAS_H
#define ZN_DEVICE_CPU_BLAS_H

#include <stdbool.h>
#include <stdint.h>

/* One operand: its rows as stored, `stride` elements apart. */
struct zn_block {
    const float *at;
    int64_t stride;
    bool transposed;
};

/* Sets the BLAS of this process to one thread for each call. Once, before the first product;
 * again does no harm. */
void zn_blas_init(void);

/* Every thread of a team calls it first in a parallel region that makes products. A BLAS built on
 * OpenMP asks OpenMP how many threads to take, and a team of one thread does not count as a
 * parallel region there: it would start threads of its own. The setting ends with the region. */
void zn_blas_enter_team(void);

/* C(m,n) = alpha · op(A)(m,k) · op(B)(k,n) [+ C when `adds`], row-major, on the calling thread.
 * Extents and strides are within int (zn_blas_fits). */
void zn_sgemm_block(int64_t m, int64_t n, int64_t k, float alpha, struct zn_block a,
                    struct zn_block b, bool adds, float *c, int64_t c_stride);

/* Whether the BLAS's integers can hold a stride. */
bool zn_blas_fits(int64_t stride);

#endif
