/* Single-threaded matrix products on one block: all of Zinc that sees a BLAS.
 *
 * Threads are the kernels' own business, since a threaded BLAS changes bits with its thread count. */
#ifndef ZN_DEVICE_CPU_BLAS_H
#define ZN_DEVICE_CPU_BLAS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* One operand: its rows as stored, `stride` elements apart. */
struct zn_block {
    const float *at;
    int64_t stride;
    bool transposed;
};

/* Sets the BLAS of this process to one thread for each call. Once, before the first product;
 * again does no harm. */
void zn_blas_init(void);

/* Takes the buffers that the BLAS needs for so many threads at once, where the process's address space is limited: OpenBLAS takes
 * them at the first products, and tries for ever where it gets none. Fails where they do not fit. */
zn_status zn_blas_reserve(int n_threads);

/* Address space that they will take beside what the BLAS has taken already; 0 where it has none of the kind. Before
 * zn_blas_init. */
size_t zn_blas_reserved_bytes(int n_threads);

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
