/* Limbs of 32 bits, carried only when the sum is read. */
#include "base/exact.h"

#include <math.h>
#include <string.h>

enum { LOWEST = -298, LIMB_BITS = 32 };

void zn_exact_add(zn_exact *sum, double term)
{
    uint64_t bits;
    memcpy(&bits, &term, sizeof bits);
    int exponent = (int)(bits >> 52 & 0x7ff);
    if (exponent == 0) /* 0: a square of fp32 is never subnormal in double */
        return;
    if (exponent == 0x7ff || bits >> 63) {
        sum->n_bad++;
        return;
    }
    uint64_t mantissa = (bits & ((UINT64_C(1) << 52) - 1)) | UINT64_C(1) << 52;
    int place = exponent - 1075 - LOWEST; /* of the mantissa's lowest bit */
    if (place < 0) { /* those bits are zero */
        mantissa >>= -place;
        place = 0;
    }
    int limb = place / LIMB_BITS, shift = place % LIMB_BITS;
    if (limb > ZN_EXACT_LIMBS - 4) {
        sum->n_bad++;
        return;
    }
    uint64_t low = (mantissa & 0xffffffffu) << shift, high = (mantissa >> LIMB_BITS) << shift;
    sum->limb[limb] += (int64_t)(low & 0xffffffffu);
    sum->limb[limb + 1] += (int64_t)((low >> LIMB_BITS) + (high & 0xffffffffu));
    sum->limb[limb + 2] += (int64_t)(high >> LIMB_BITS);
}

static void carry(zn_exact *sum)
{
    for (int i = 0; i + 1 < ZN_EXACT_LIMBS; i++) {
        sum->limb[i + 1] += sum->limb[i] >> LIMB_BITS;
        sum->limb[i] &= 0xffffffff;
    }
}

void zn_exact_merge(zn_exact *sum, const zn_exact *other)
{
    zn_exact carried = *other;
    carry(&carried);
    for (int i = 0; i < ZN_EXACT_LIMBS; i++)
        sum->limb[i] += carried.limb[i];
    sum->n_bad += other->n_bad;
}

double zn_exact_value(const zn_exact *sum)
{
    zn_exact carried = *sum;
    carry(&carried);
    double value = 0;
    for (int i = 0; i < ZN_EXACT_LIMBS; i++) /* from the lowest: each step rounds below what follows */
        value += ldexp((double)carried.limb[i], LIMB_BITS * i + LOWEST);
    return sum->n_bad ? NAN : value;
}
