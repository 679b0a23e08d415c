/* An exact sum of doubles that are not negative: a number of fixed point, wide enough for sums of
 * squares of fp32 values. Adding and merging never round, so the result does not depend on the order
 * of the terms, nor on who added which of them. Plain memory: it may be copied and sent. */
#ifndef ZN_BASE_EXACT_H
#define ZN_BASE_EXACT_H

#include <stdint.h>

enum { ZN_EXACT_LIMBS = 22 };

/* The value is the sum of limb[i] × 2^(32 i - 298); limbs may exceed 32 bits until they are read. */
typedef struct zn_exact {
    int64_t limb[ZN_EXACT_LIMBS];
    int64_t n_bad; /* terms that were not finite */
} zn_exact;

/* Each term is a multiple of 2^-298, the square of the least fp32, and below 2^300. At most 2^30 terms. */
void zn_exact_add(zn_exact *sum, double term);

void zn_exact_merge(zn_exact *sum, const zn_exact *other);

/* The nearest double or one beside it, always the same for the same value; NaN when a term was bad. */
double zn_exact_value(const zn_exact *sum);

#endif
