/* An operand of a matrix product: a matrix in fp32 or in a 16-bit type, read a vector of fp32 values at a time. Widening is
 * exact. The type is a constant where these are inlined. */
#ifndef ZN_DEVICE_CPU_OPERAND_H
#define ZN_DEVICE_CPU_OPERAND_H

#include "device/cpu/half.h"
#include "device/cpu/lanes.h"
#include "device/cpu/widen.h"

#define ZN_INLINE static inline __attribute__((always_inline))

enum { ZN_WIDTH = ZN_LANE_FLOATS }; /* of a vector */

struct zn_operand {
    const void *at;
    int64_t stride;
    zn_dtype type;
    bool transposed;
};

/* By intrinsics where there are some: not every compiler finds the one instruction. */
ZN_INLINE zn_vector_bits zn_widen_bits(const uint16_t *h)
{
#if defined(__AVX512F__)
    return (zn_vector_bits)_mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)h));
#elif defined(__AVX2__)
    return (zn_vector_bits)_mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)h));
#else
    uint16_t v __attribute__((vector_size(ZN_VECTOR_BYTES / 2)));
    memcpy(&v, h, sizeof v);
    return __builtin_convertvector(v, zn_vector_bits);
#endif
}

/* ZN_WIDTH elements from element i on. */
ZN_INLINE zn_vector zn_operand_load(const void *at, int64_t i, zn_dtype type)
{
    if (type == ZN_F32)
        return zn_vector_load((const float *)at + i);
    if (type == ZN_BF16)
        return (zn_vector)(zn_widen_bits((const uint16_t *)at + i) << 16);
#if defined(__AVX512F__)
    return (zn_vector)_mm512_cvtph_ps(_mm256_loadu_si256((const void *)((const uint16_t *)at + i)));
#else
    float x[ZN_WIDTH];
    zn_from_f16(x, (const uint16_t *)at + i, ZN_WIDTH);
    return zn_vector_load(x);
#endif
}

ZN_INLINE float zn_operand_one(const void *at, int64_t i, zn_dtype type)
{
    if (type == ZN_F32)
        return ((const float *)at)[i];
    uint16_t h = ((const uint16_t *)at)[i];
    return type == ZN_BF16 ? zn_float_of_bf16(h) : zn_float_of_f16(h);
}

/* Where op(X) begins at (row, col), in elements. */
ZN_INLINE int64_t zn_operand_place(const struct zn_operand *x, int64_t row, int64_t col)
{
    return x->transposed ? col * x->stride + row : row * x->stride + col;
}

/* Rows of a square of ZN_WIDTH vectors become its columns. */
#if defined(__AVX2__) && !defined(__AVX512F__)
ZN_INLINE void zn_transpose(zn_vector v[ZN_WIDTH])
{
    __m256 t[8], u[8];
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps((__m256)v[i], (__m256)v[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps((__m256)v[i], (__m256)v[i + 1]);
    }
    for (int i = 0; i < 8; i += 4)
        for (int j = 0; j < 2; j++) {
            u[i + 2 * j] = _mm256_shuffle_ps(t[i + j], t[i + 2 + j], 0x44);
            u[i + 2 * j + 1] = _mm256_shuffle_ps(t[i + j], t[i + 2 + j], 0xEE);
        }
    for (int i = 0; i < 4; i++) {
        v[i] = (zn_vector)_mm256_permute2f128_ps(u[i], u[i + 4], 0x20);
        v[i + 4] = (zn_vector)_mm256_permute2f128_ps(u[i], u[i + 4], 0x31);
    }
}
#else
/* Vectors i and i + ZN_WIDTH/2 interleaved become 2i and 2i + 1, log2(ZN_WIDTH) times. */
ZN_INLINE void zn_transpose(zn_vector v[ZN_WIDTH])
{
#if defined(__AVX512F__)
    const zn_vector_bits low = {0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23}, high = low + 8;
#define ZN_INTERLEAVE(a, b, which) (zn_vector) _mm512_permutex2var_ps((__m512)(a), (__m512i)(which), (__m512)(b))
#else
    const zn_vector_bits low = {0, 4, 1, 5}, high = low + 2;
#if defined(__clang__)
#define ZN_INTERLEAVE(a, b, which)                                                                                     \
    ((which)[0] == 0 ? __builtin_shufflevector(a, b, 0, 4, 1, 5) : __builtin_shufflevector(a, b, 2, 6, 3, 7))
#else
#define ZN_INTERLEAVE(a, b, which) __builtin_shuffle(a, b, which)
#endif
#endif
    for (int round = 1; round < ZN_WIDTH; round *= 2) {
        zn_vector t[ZN_WIDTH];
#pragma GCC unroll 8
        for (int i = 0; i < ZN_WIDTH / 2; i++) {
            t[2 * i] = ZN_INTERLEAVE(v[i], v[i + ZN_WIDTH / 2], low);
            t[2 * i + 1] = ZN_INTERLEAVE(v[i], v[i + ZN_WIDTH / 2], high);
        }
#pragma GCC unroll 16
        for (int i = 0; i < ZN_WIDTH; i++)
            v[i] = t[i];
    }
#undef ZN_INTERLEAVE
}
#endif

#endif
