/* Counter-based random numbers: a value is a pure function of (key, counter), so any rank can
 * make any element of any tensor alone. */
#ifndef ZN_BASE_RNG_H
#define ZN_BASE_RNG_H

#include <stdint.h>

/* 64 well-mixed bits of (key, counter). */
static inline uint64_t zn_random_bits(uint64_t key, uint64_t counter)
{
    uint64_t z = key + (counter + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    z ^= z >> 31;
    z = (z ^ key) * UINT64_C(0xd6e8feb86659fd93);
    return z ^ (z >> 32);
}

/* Uniform in (0, 1), never an end. */
static inline double zn_random_uniform(uint64_t key, uint64_t counter)
{
    return ((double)(zn_random_bits(key, counter) >> 11) + 0.5) * 0x1p-53;
}

/* Uniform integer below n (n > 0). The bias is below n / 2^64. */
uint64_t zn_random_below(uint64_t key, uint64_t counter, uint64_t n);

/* The middle of the inverse normal distribution, |q| <= 0.425 with q = p - 0.5: no branch and no call, so that
 * loops over it vectorise. PPND16 of M. J. Wichura, "Algorithm AS 241: The percentage points of the normal
 * distribution", Applied Statistics 37 (1988): relative error about 1e-16. */
#define ZN_NORMAL_MIDDLE 0.425

static inline double zn_normal_middle(double q)
{
    double r = 0.180625 - q * q;
    double a = (((((((2509.0809287301226727 * r + 33430.575583588128105) * r + 67265.770927008700853) * r +
                    45921.953931549871457) * r + 13731.693765509461125) * r + 1971.5909503065514427) * r +
                 133.14166789178437745) * r + 3.387132872796366608);
    double b = (((((((5226.495278852545925 * r + 28729.085735721942674) * r + 39307.89580009271061) * r +
                    21213.794301586595867) * r + 5394.1960214247511077) * r + 687.1870074920579083) * r +
                 42.313330701600911252) * r + 1.0);
    return q * a / b;
}

/* Standard normal, by the inverse of the distribution. */
double zn_random_normal(uint64_t key, uint64_t counter);

/* A key from a seed and a name ("model.layers.0.mlp.up_proj.weight"). */
uint64_t zn_random_key(uint64_t seed, const char *name);

#endif
