/* Plain loops that compilers turn into vector code, compiled a second time for AVX2 where the
 * processor has it. All operations are exact or rounded once, so both give the same bits. A block
 * of the destination stays in the first-level cache while all ranks' terms are added to it. */
#include "comm/sum.h"

#include <string.h>

#include "tensor/half.h"

enum { BLOCK = 4096 }; /* elements */

#define ALWAYS_INLINE inline __attribute__((always_inline))

static ALWAYS_INLINE float rounded(float x, zn_dtype wire)
{
    if (wire == ZN_BF16)
        return zn_bf16_to_float(zn_float_to_bf16(x));
    if (wire == ZN_F16)
        return zn_f16_to_float(zn_float_to_f16(x));
    return x;
}

static ALWAYS_INLINE float widened(uint16_t x, zn_dtype wire)
{
    return wire == ZN_BF16 ? zn_bf16_to_float(x) : zn_f16_to_float(x);
}

/* `wire` and `first` are constants at every call, so that the loops have no choice inside. */
static ALWAYS_INLINE void take_floats(float *restrict sum, const float *restrict term, int64_t n,
                                      zn_dtype wire, bool first)
{
    for (int64_t i = 0; i < n; i++)
        sum[i] = first ? rounded(term[i], wire) : sum[i] + rounded(term[i], wire);
}

static ALWAYS_INLINE void take_halves(float *restrict sum, const uint16_t *restrict term, int64_t n,
                                      zn_dtype wire, bool first)
{
    for (int64_t i = 0; i < n; i++)
        sum[i] = first ? widened(term[i], wire) : sum[i] + widened(term[i], wire);
}

static ALWAYS_INLINE void take_term(float *sum, const struct sum_term *term, int64_t at, int64_t n,
                                    zn_dtype wire, bool first)
{
    const float *floats = (const float *)term->data + at;
    const uint16_t *halves = (const uint16_t *)term->data + at;
    if (wire == ZN_F32 || !term->on_wire)
        take_floats(sum, floats, n, wire, first);
    else
        take_halves(sum, halves, n, wire, first);
}

/* A sum of its own before it reaches `to`, which may be one of the terms. */
static ALWAYS_INLINE void sum_as(const struct sum_term *terms, int n_terms, int64_t n_elements,
                                 zn_dtype wire, float *to, bool adds)
{
    float sum[BLOCK];
    for (int64_t at = 0; at < n_elements; at += BLOCK) {
        int64_t n = n_elements - at < BLOCK ? n_elements - at : BLOCK;
        take_term(sum, &terms[0], at, n, wire, true);
        for (int i = 1; i < n_terms; i++)
            take_term(sum, &terms[i], at, n, wire, false);
        if (adds)
            for (int64_t i = 0; i < n; i++)
                to[at + i] += sum[i];
        else
            memcpy(to + at, sum, (size_t)n * sizeof *sum);
    }
}

static ALWAYS_INLINE void sum_any(const struct sum_term *terms, int n_terms, int64_t n_elements,
                                  zn_dtype wire, float *to, bool adds)
{
    if (wire == ZN_BF16)
        sum_as(terms, n_terms, n_elements, ZN_BF16, to, adds);
    else if (wire == ZN_F16)
        sum_as(terms, n_terms, n_elements, ZN_F16, to, adds);
    else
        sum_as(terms, n_terms, n_elements, ZN_F32, to, adds);
}

static ALWAYS_INLINE void round_any(const float *restrict from, int64_t n, zn_dtype wire,
                                    uint16_t *restrict to)
{
    if (wire == ZN_BF16)
        for (int64_t i = 0; i < n; i++)
            to[i] = zn_float_to_bf16(from[i]);
    else
        for (int64_t i = 0; i < n; i++)
            to[i] = zn_float_to_f16(from[i]);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void sum_avx2(const struct sum_term *terms, int n_terms,
                                                     int64_t n_elements, zn_dtype wire, float *to,
                                                     bool adds)
{
    sum_any(terms, n_terms, n_elements, wire, to, adds);
}

__attribute__((target("avx2"))) static void round_avx2(const float *from, int64_t n, zn_dtype wire,
                                                       uint16_t *to)
{
    round_any(from, n, wire, to);
}

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2");
}
#else
#define sum_avx2 sum_any
#define round_avx2 round_any
static bool has_avx2(void)
{
    return false;
}
#endif

void sum_terms(const struct sum_term *terms, int n_terms, int64_t n_elements, zn_dtype wire,
               float *to, bool adds)
{
    if (has_avx2())
        sum_avx2(terms, n_terms, n_elements, wire, to, adds);
    else
        sum_any(terms, n_terms, n_elements, wire, to, adds);
}

void sum_round(const float *from, int64_t n_elements, zn_dtype wire, void *to)
{
    if (has_avx2())
        round_avx2(from, n_elements, wire, to);
    else
        round_any(from, n_elements, wire, to);
}
