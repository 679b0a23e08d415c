/* Parameters of 16 bits for tests, converted on the host without any kernel. */
#ifndef ZN_TESTS_DEVICE_HALVES_H
#define ZN_TESTS_DEVICE_HALVES_H

#include <stdlib.h>

#include "tensor/dtype.h"
#include "tensor/half.h"

/* x in a 16-bit type, which the caller frees; x itself becomes exactly these values. */
static inline uint16_t *round_to(float *x, int64_t n, zn_dtype type)
{
    uint16_t *halves = malloc((size_t)n * sizeof *halves + 1);
    for (int64_t i = 0; halves && i < n; i++) {
        halves[i] = type == ZN_BF16 ? zn_float_to_bf16(x[i]) : zn_float_to_f16(x[i]);
        x[i] = type == ZN_BF16 ? zn_bf16_to_float(halves[i]) : zn_f16_to_float(halves[i]);
    }
    return halves;
}

#endif
