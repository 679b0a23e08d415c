/* The lane sums of device/kernels.h, in which the register width does not show. The lanes are vectors
 * of the compiler, as wide as the instruction set's registers; a loop over an array of sums would
 * leave it to luck whether they stay in registers. */
#ifndef ZN_DEVICE_CPU_LANES_H
#define ZN_DEVICE_CPU_LANES_H

#include <math.h>
#include <stdint.h>
#include <string.h>
#if defined(__SSE2__)
#include <immintrin.h>
#elif defined(ZN_ISA_neon)
#include <arm_neon.h>
#endif

#include "device/kernels.h"

#if defined(__AVX512F__)
#define ZN_VECTOR_BYTES 64
#elif defined(__AVX2__)
#define ZN_VECTOR_BYTES 32
#else
#define ZN_VECTOR_BYTES 16
#endif

enum {
    ZN_LANE_FLOATS = ZN_VECTOR_BYTES / 4, /* in one register */
    ZN_LANE_DOUBLES = ZN_VECTOR_BYTES / 8,
    ZN_LANE_PARTS = ZN_LANES / ZN_LANE_FLOATS,
    ZN_LANE_PARTS_DOUBLE = ZN_LANES / ZN_LANE_DOUBLES,
};

typedef float zn_vector __attribute__((vector_size(ZN_VECTOR_BYTES)));
typedef uint32_t zn_vector_bits __attribute__((vector_size(ZN_VECTOR_BYTES)));
typedef float zn_half_vector __attribute__((vector_size(ZN_VECTOR_BYTES / 2)));
typedef double zn_vector_double __attribute__((vector_size(ZN_VECTOR_BYTES)));

static inline zn_vector zn_vector_load(const float *x)
{
    zn_vector v;
    memcpy(&v, x, sizeof v);
    return v;
}

static inline void zn_vector_store(float *x, zn_vector v)
{
    memcpy(x, &v, sizeof v);
}

static inline zn_vector zn_vector_all(float x)
{
    return x - (zn_vector){0};
}

#if defined(__SSE2__) && !defined(__FMA__)
/* a × b + c, rounded once, on processors without such an instruction. The product is exact in double, so only the sum is rounded before the rounding to float. That
 * changes a result only where the sum is halfway between two floats (or below the normal ones, where halves lie elsewhere): no
 * double is between the exact sum and the rounded one. These rare cases go to the library. */
static inline zn_vector zn_vector_fma_by_double(zn_vector a, zn_vector b, zn_vector c)
{
    __m128 x = (__m128)a, y = (__m128)b, z = (__m128)c;
    __m128d low = _mm_add_pd(_mm_mul_pd(_mm_cvtps_pd(x), _mm_cvtps_pd(y)), _mm_cvtps_pd(z));
    __m128d high = _mm_add_pd(_mm_mul_pd(_mm_cvtps_pd(_mm_movehl_ps(x, x)), _mm_cvtps_pd(_mm_movehl_ps(y, y))),
                              _mm_cvtps_pd(_mm_movehl_ps(z, z)));
    __m128 sum = _mm_movelh_ps(_mm_cvtpd_ps(low), _mm_cvtpd_ps(high));
    __m128i last = _mm_castps_si128(_mm_shuffle_ps(_mm_castpd_ps(low), _mm_castpd_ps(high), 0x88));
    __m128i first = _mm_castps_si128(_mm_shuffle_ps(_mm_castpd_ps(low), _mm_castpd_ps(high), 0xdd));
    __m128i is_half = _mm_cmpeq_epi32(_mm_and_si128(last, _mm_set1_epi32(0x1fffffff)), _mm_set1_epi32(0x10000000));
    __m128i is_zero = _mm_cmpeq_epi32(_mm_or_si128(last, _mm_slli_epi32(first, 1)), _mm_setzero_si128());
    __m128i is_small = _mm_cmplt_epi32(_mm_and_si128(_mm_castps_si128(sum), _mm_set1_epi32(0x7fffffff)), _mm_set1_epi32(0x00800001));
    if (__builtin_expect(_mm_movemask_epi8(_mm_or_si128(is_half, _mm_andnot_si128(is_zero, is_small))), 0))
        for (int i = 0; i < ZN_LANE_FLOATS; i++)
            sum[i] = fmaf(a[i], b[i], c[i]);
    return (zn_vector)sum;
}
#endif

/* a × b + c, rounded once. */
static inline zn_vector zn_vector_fma(zn_vector a, zn_vector b, zn_vector c)
{
#if defined(__AVX512F__)
    return (zn_vector)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__AVX2__)
    return (zn_vector)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(ZN_ISA_neon)
    return (zn_vector)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#elif defined(__SSE2__)
    return zn_vector_fma_by_double(a, b, c);
#else
    for (int i = 0; i < ZN_LANE_FLOATS; i++)
        c[i] = fmaf(a[i], b[i], c[i]);
    return c;
#endif
}

/* a > b ? a : b */
static inline zn_vector zn_vector_max(zn_vector a, zn_vector b)
{
#if defined(__AVX512F__)
    return (zn_vector)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
    return (zn_vector)_mm256_max_ps((__m256)a, (__m256)b);
#else
    for (int i = 0; i < ZN_LANE_FLOATS; i++)
        b[i] = a[i] > b[i] ? a[i] : b[i];
    return b;
#endif
}

/* a < b ? a : b */
static inline zn_vector zn_vector_min(zn_vector a, zn_vector b)
{
#if defined(__AVX512F__)
    return (zn_vector)_mm512_min_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
    return (zn_vector)_mm256_min_ps((__m256)a, (__m256)b);
#else
    for (int i = 0; i < ZN_LANE_FLOATS; i++)
        b[i] = a[i] < b[i] ? a[i] : b[i];
    return b;
#endif
}

/* ZN_LANES floats, and as many doubles. */
typedef struct zn_lanes {
    zn_vector part[ZN_LANE_PARTS];
} zn_lanes;

typedef struct zn_lanes_double {
    zn_vector_double part[ZN_LANE_PARTS_DOUBLE];
} zn_lanes_double;

static inline zn_lanes zn_lanes_load(const float *x)
{
    zn_lanes lanes;
    for (int p = 0; p < ZN_LANE_PARTS; p++)
        memcpy(&lanes.part[p], x + p * ZN_LANE_FLOATS, sizeof lanes.part[p]);
    return lanes;
}

static inline zn_lanes zn_lanes_add(zn_lanes a, zn_lanes b)
{
    for (int p = 0; p < ZN_LANE_PARTS; p++)
        a.part[p] += b.part[p];
    return a;
}

static inline zn_lanes zn_lanes_mul(zn_lanes a, zn_lanes b)
{
    for (int p = 0; p < ZN_LANE_PARTS; p++)
        a.part[p] *= b.part[p];
    return a;
}

static inline zn_lanes zn_lanes_sub_scalar(zn_lanes a, float b)
{
    for (int p = 0; p < ZN_LANE_PARTS; p++)
        a.part[p] -= b;
    return a;
}

static inline zn_lanes zn_lanes_mul_scalar(zn_lanes a, float b)
{
    for (int p = 0; p < ZN_LANE_PARTS; p++)
        a.part[p] *= b;
    return a;
}

/* Writes the lanes to an array, where the last elements of a row (fewer than ZN_LANES) are added. */
static inline void zn_lanes_store(float sums[ZN_LANES], zn_lanes lanes)
{
    memcpy(sums, &lanes, sizeof lanes);
}

static inline float zn_lanes_total(float sums[ZN_LANES])
{
    for (int width = ZN_LANES / 2; width > 0; width /= 2)
        for (int l = 0; l < width; l++)
            sums[l] += sums[l + width];
    return sums[0];
}

/* lanes + x², each x taken to double first. */
static inline zn_lanes_double zn_lanes_add_squares(zn_lanes_double lanes, const float *x)
{
    for (int p = 0; p < ZN_LANE_PARTS_DOUBLE; p++) {
        zn_half_vector v;
        memcpy(&v, x + p * ZN_LANE_DOUBLES, sizeof v);
        zn_vector_double d = __builtin_convertvector(v, zn_vector_double);
        lanes.part[p] += d * d;
    }
    return lanes;
}

static inline void zn_lanes_store_double(double sums[ZN_LANES], zn_lanes_double lanes)
{
    memcpy(sums, &lanes, sizeof lanes);
}

static inline double zn_lanes_total_double(double sums[ZN_LANES])
{
    for (int width = ZN_LANES / 2; width > 0; width /= 2)
        for (int l = 0; l < width; l++)
            sums[l] += sums[l + width];
    return sums[0];
}

#endif
