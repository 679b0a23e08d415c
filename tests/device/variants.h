/* Kernels called directly, in every variant this processor can run, with any thread count. */
#ifndef ZN_TESTS_DEVICE_VARIANTS_H
#define ZN_TESTS_DEVICE_VARIANTS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/status.h"
#include "device/cpu/cpu.h"

struct variant {
    const char *isa;
    zn_cpu_kernel run;
};

#if defined(__x86_64__)
/* Declares the variants of a kernel and lists them, ended by NULL. */
#define VARIANTS(name)                                                                             \
    zn_status zn_k_##name##_plain(const struct zn_cpu *, const void *);                            \
    zn_status zn_k_##name##_avx2(const struct zn_cpu *, const void *);                             \
    zn_status zn_k_##name##_avx512(const struct zn_cpu *, const void *);                           \
    static const struct variant name##_variants[] = {{"plain", zn_k_##name##_plain},               \
                                                     {"avx2", zn_k_##name##_avx2},                 \
                                                     {"avx512", zn_k_##name##_avx512},             \
                                                     {NULL, NULL}};
#elif defined(__aarch64__)
#define VARIANTS(name)                                                                             \
    zn_status zn_k_##name##_plain(const struct zn_cpu *, const void *);                            \
    zn_status zn_k_##name##_neon(const struct zn_cpu *, const void *);                             \
    static const struct variant name##_variants[] = {                                              \
        {"plain", zn_k_##name##_plain}, {"neon", zn_k_##name##_neon}, {NULL, NULL}};
#else
#define VARIANTS(name)                                                                             \
    zn_status zn_k_##name##_plain(const struct zn_cpu *, const void *);                            \
    static const struct variant name##_variants[] = {{"plain", zn_k_##name##_plain}, {NULL, NULL}};
#endif

static inline bool variant_runs_here(const struct variant *variant)
{
#if defined(__x86_64__)
    if (strcmp(variant->isa, "avx2") == 0)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (strcmp(variant->isa, "avx512") == 0)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#endif
    (void)variant;
    return true;
}

static inline void run_variant(const struct variant *variant, int n_threads, const void *args)
{
    float *scratch = calloc((size_t)n_threads, ZN_CPU_SCRATCH_BYTES);
    assert_non_null(scratch);
    struct zn_cpu cpu = {.n_threads = n_threads, .scratch = scratch, .isa = variant->isa};
    zn_status status = variant->run(&cpu, args);
    free(scratch);
    if (status != ZN_OK)
        fail_msg("%s: %s", variant->isa, zn_error_message());
}

/* An address of host memory, as the cpu device gives it. */
static inline zn_addr address_of(const void *pointer)
{
    return (zn_addr)(uintptr_t)pointer;
}

/* n normal values; the caller frees. */
static inline float *random_floats(const char *name, int64_t n, double stddev)
{
    float *x = malloc((size_t)n * sizeof *x);
    assert_non_null(x);
    uint64_t key = zn_random_key(7, name);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(stddev * zn_random_normal(key, (uint64_t)i));
    return x;
}

/* n times one value; the caller frees. */
static inline float *filled_floats(int64_t n, float value)
{
    float *x = malloc((size_t)n * sizeof *x);
    assert_non_null(x);
    for (int64_t i = 0; i < n; i++)
        x[i] = value;
    return x;
}

static inline void assert_same_bits(const char *what, const float *a, const float *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (memcmp(&a[i], &b[i], sizeof *a) != 0)
            fail_msg("%s: element %lld is %.9g and %.9g", what, (long long)i, (double)a[i],
                     (double)b[i]);
}

#endif
