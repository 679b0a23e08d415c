/* fp32 to and from bf16 and fp16, round to nearest even. NaN stays NaN and becomes quiet with the
 * upper bits it had, overflow becomes infinity, subnormals are exact: the same bits as the F16C
 * instructions, which are used where the instruction set has them. */
#ifndef ZN_DEVICE_CPU_HALF_H
#define ZN_DEVICE_CPU_HALF_H

#include <stdint.h>
#if defined(__F16C__)
#include <immintrin.h>
#endif

#include "device/cpu/fastmath.h"

static inline uint16_t zn_bf16_of(float x)
{
    uint32_t bits = (uint32_t)zn_bits_of(x);
    uint32_t rounded = bits + 0x7fff + ((bits >> 16) & 1);
    uint32_t result = (bits & 0x7fffffff) > 0x7f800000 ? bits | 0x400000 : rounded;
    return (uint16_t)(result >> 16);
}

static inline float zn_float_of_bf16(uint16_t h)
{
    return zn_of_bits((int32_t)((uint32_t)h << 16));
}

static inline uint16_t zn_f16_of(float x)
{
    uint32_t bits = (uint32_t)zn_bits_of(x);
    uint32_t a = bits & 0x7fffffff;
    /* The exponent's bias goes from 127 to 15; a carry of the rounding may reach infinity. */
    uint32_t normal = (a - (112u << 23) + 0xfff + ((a >> 13) & 1)) >> 13;
    /* Below 2^-14 an ulp is 2^-24, which is the ulp of 0.5 in fp32: the addition rounds. */
    uint32_t subnormal = (uint32_t)(zn_bits_of(zn_of_bits((int32_t)a) + 0.5f) - 0x3f000000);
    uint32_t nan = 0x7e00 | ((a >> 13) & 0x3ff);
    uint32_t h = a < 0x38800000 ? subnormal : normal;
    h = a >= 0x47800000 ? 0x7c00 : h;
    h = a > 0x7f800000 ? nan : h;
    return (uint16_t)(h | ((bits >> 16) & 0x8000));
}

static inline float zn_float_of_f16(uint16_t h)
{
    uint32_t sign = ((uint32_t)h & 0x8000) << 16;
    uint32_t a = (uint32_t)h & 0x7fff;
    uint32_t normal = (a << 13) + (112u << 23);
    uint32_t special = (a << 13) | 0x7f800000 | (a > 0x7c00 ? 0x400000 : 0);
    uint32_t subnormal = (uint32_t)zn_bits_of((float)(int32_t)a * 0x1p-24f);
    uint32_t bits = a < 0x400 ? subnormal : normal;
    bits = a >= 0x7c00 ? special : bits;
    return zn_of_bits((int32_t)(bits | sign));
}

static inline void zn_to_bf16(uint16_t *restrict dst, const float *restrict src, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        dst[i] = zn_bf16_of(src[i]);
}

static inline void zn_from_bf16(float *restrict dst, const uint16_t *restrict src, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        dst[i] = zn_float_of_bf16(src[i]);
}

static inline void zn_to_f16(uint16_t *restrict dst, const float *restrict src, int64_t n)
{
    int64_t i = 0;
#if defined(__F16C__)
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(dst + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(src + i), _MM_FROUND_TO_NEAREST_INT));
#endif
    for (; i < n; i++)
        dst[i] = zn_f16_of(src[i]);
}

static inline void zn_from_f16(float *restrict dst, const uint16_t *restrict src, int64_t n)
{
    int64_t i = 0;
#if defined(__F16C__)
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(src + i))));
#endif
    for (; i < n; i++)
        dst[i] = zn_float_of_f16(src[i]);
}

#endif
