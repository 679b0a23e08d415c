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

/* Standard normal, by the inverse of the distribution (Wichura's AS 241). */
double zn_random_normal(uint64_t key, uint64_t counter);

/* A key from a seed and a name ("model.layers.0.mlp.up_proj.weight"). */
uint64_t zn_random_key(uint64_t seed, const char *name);

#endif
