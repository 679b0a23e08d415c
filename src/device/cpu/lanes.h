/* The lane sums of device/kernels.h, in which the register width does not show. The lanes are vectors
 * of the compiler, as wide as the instruction set's registers; a loop over an array of sums would
 * leave it to luck whether they stay in registers. */
#ifndef ZN_DEVICE_CPU_LANES_H
#define ZN_DEVICE_CPU_LANES_H

#include <math.h>
#include <stdint.h>
#include <string.h>
#if defined(__AVX2__)
#include <immintrin.h>
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

/* a × b + c, rounded once. */
static inline zn_vector zn_vector_fma(zn_vector a, zn_vector b, zn_vector c)
{
#if defined(__AVX512F__)
    return (zn_vector)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__AVX2__)
    return (zn_vector)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
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
