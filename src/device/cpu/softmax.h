/* What a softmax does along a row, for attention and the loss: the greatest element and sums of
 * exponentials. Element i belongs to lane i mod ZN_ROW_LANES and the lanes are added by one fixed
 * tree, so that the register width does not show in the bits. */
#ifndef ZN_DEVICE_CPU_SOFTMAX_H
#define ZN_DEVICE_CPU_SOFTMAX_H

#include <math.h>
#include <stdint.h>

#include "device/cpu/fastmath.h"
#include "device/cpu/lanes.h"

enum { ZN_ROW_LANES = 16 };

/* gcc unrolls a loop over the lanes before it could make vectors of a comparison, unless told;
 * clang makes them anyway. */
#if defined(__clang__)
#define ZN_LANE_LOOP
#else
#define ZN_LANE_LOOP _Pragma("omp simd")
#endif

/* zn_exp of each lane where it is at most 88, with its bits. */
static inline zn_vector zn_vector_exp(zn_vector x)
{
    const float round_magic = 12582912.0f;
    const zn_vector lowest = zn_vector_all(-87.3f);
    zn_vector in = zn_vector_max(lowest, x); /* not-a-number stays */
    zn_vector shifted = in * 1.44269504088896341f + round_magic;
    zn_vector n = shifted - round_magic;
    zn_vector r = (in - n * 0.693359375f) + n * 2.12194440e-4f;
    zn_vector p = zn_vector_all(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    zn_vector y = p * (zn_vector)(((zn_vector_bits)shifted + 127) << 23); /* 2^n: the lowest bits of `shifted` are n */
    return (zn_vector)((zn_vector_bits)y & ~(zn_vector_bits)(x < lowest));
}

static inline float zn_row_tree(float lanes[ZN_ROW_LANES])
{
    for (int width = ZN_ROW_LANES / 2; width > 0; width /= 2)
        for (int l = 0; l < width; l++)
            lanes[l] += lanes[l + width];
    return lanes[0];
}

/* The greatest element; -infinity when there is none. Not-a-number is passed over: the sum of
 * exponentials that follows keeps it. */
static inline float zn_row_max(const float *restrict x, int64_t n)
{
    float lanes[ZN_ROW_LANES];
    for (int l = 0; l < ZN_ROW_LANES; l++)
        lanes[l] = -INFINITY;
    int64_t i = 0;
    for (; i + ZN_ROW_LANES <= n; i += ZN_ROW_LANES) {
        ZN_LANE_LOOP
        for (int l = 0; l < ZN_ROW_LANES; l++)
            lanes[l] = x[i + l] > lanes[l] ? x[i + l] : lanes[l];
    }
    for (int l = 0; i + l < n; l++)
        lanes[l] = x[i + l] > lanes[l] ? x[i + l] : lanes[l];
    float max = lanes[0];
    for (int l = 1; l < ZN_ROW_LANES; l++)
        max = lanes[l] > max ? lanes[l] : max;
    return max;
}

/* The sum of exp(x - shift). */
static inline float zn_row_exp_sum(const float *restrict x, int64_t n, float shift)
{
    float lanes[ZN_ROW_LANES] = {0};
    int64_t i = 0;
    for (; i + ZN_ROW_LANES <= n; i += ZN_ROW_LANES)
        for (int l = 0; l < ZN_ROW_LANES; l++)
            lanes[l] += zn_exp(x[i + l] - shift);
    for (int l = 0; i + l < n; l++)
        lanes[l] += zn_exp(x[i + l] - shift);
    return zn_row_tree(lanes);
}

static inline float zn_row_dot(const float *restrict a, const float *restrict b, int64_t n)
{
    float lanes[ZN_ROW_LANES] = {0};
    int64_t i = 0;
    for (; i + ZN_ROW_LANES <= n; i += ZN_ROW_LANES)
        for (int l = 0; l < ZN_ROW_LANES; l++)
            lanes[l] += a[i + l] * b[i + l];
    for (int l = 0; i + l < n; l++)
        lanes[l] += a[i + l] * b[i + l];
    return zn_row_tree(lanes);
}

#endif
