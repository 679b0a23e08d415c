/* Functions of fastmath.h on vectors, written out where the compiler makes worse ones of the scalar loop. The lanes of a vector do
 * not see each other, so its width shows in no bit. */
#ifndef ZN_DEVICE_CPU_VECTOR_MATH_H
#define ZN_DEVICE_CPU_VECTOR_MATH_H

#include "device/cpu/lanes.h"

/* zn_exp of each lane, from -87.3 to 88, with its bits. */
static inline zn_vector zn_vector_exp_within(zn_vector x)
{
    const float round_magic = 12582912.0f; /* 1.5 × 2^23: adding it rounds to an integer */
    zn_vector shifted = x * 1.44269504088896341f + round_magic;
    zn_vector n = shifted - round_magic;
    zn_vector r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    zn_vector p = zn_vector_all(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    return p * (zn_vector)(((zn_vector_bits)shifted + 127) << 23); /* 2^n: the lowest bits of `shifted` are n */
}

/* zn_exp of each lane that is at most 88, with its bits. Not-a-number stays. */
static inline zn_vector zn_vector_exp(zn_vector x)
{
    const zn_vector lowest = zn_vector_all(-87.3f);
    zn_vector y = zn_vector_exp_within(zn_vector_max(lowest, x));
    return (zn_vector)((zn_vector_bits)y & ~(zn_vector_bits)(x < lowest));
}

/* 1 / (1 + e^-x) within 2 ulp, at least e^-87: no subnormal numbers, which are slow. Not-a-number stays. */
static inline zn_vector zn_vector_sigmoid(zn_vector x)
{
    zn_vector in = zn_vector_max(zn_vector_all(-87.0f), zn_vector_min(zn_vector_all(87.0f), x));
    return 1.0f / (1.0f + zn_vector_exp_within(-in));
}

/* The normal distribution function of x, from e^(-x²/2): the share beyond |x| is e^(-x²/2) times a ratio that falls smoothly,
 * here a polynomial of 1 / (1 + 0.34 |x|). Relative error below 1e-6 for |x| < 4, and 5e-6 for |x| < 12. */
static inline zn_vector zn_vector_normal(zn_vector x, zn_vector bell)
{
    zn_vector a = (zn_vector)((zn_vector_bits)x & 0x7fffffffu), t = 1.0f / (1.0f + 0.34f * a);
    zn_vector p = zn_vector_all(-0.0264719445f);
    p = p * t + 0.14115037f;
    p = p * t - 0.276414692f;
    p = p * t + 0.205778286f;
    p = p * t - 0.047085125f;
    p = p * t + 0.116314396f;
    p = p * t + 0.114967495f;
    p = p * t + 0.136142388f;
    p = p * t + 0.135618851f;
    zn_vector beyond = bell * (p * t);
    zn_vector_bits below = (zn_vector_bits)(x < 0.0f);
    return (zn_vector)((below & (zn_vector_bits)beyond) | (~below & (zn_vector_bits)(1.0f - beyond)));
}

#endif
