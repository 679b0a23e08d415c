/* Sums over ranks in fp32, in the order of the terms, each rounded to the wire's type first. */
#ifndef ZN_COMM_SUM_H
#define ZN_COMM_SUM_H

#include <stdbool.h>
#include <stdint.h>

#include "tensor/dtype.h"

/* One rank's contribution: floats that are yet to be rounded, or values of the wire's type. */
struct sum_term {
    const void *data;
    bool on_wire;
};

/* to[i] = or += term 0 + term 1 + …; `to` may be one of the terms that are floats. */
void sum_terms(const struct sum_term *terms, int n_terms, int64_t n_elements, zn_dtype wire,
               float *to, bool adds);

/* Rounds floats to the wire's type, bf16 or fp16. */
void sum_round(const float *from, int64_t n_elements, zn_dtype wire, void *to);

#endif
