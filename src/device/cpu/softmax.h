/* What a softmax does along a row, for attention and the loss: the greatest element and sums of
 * exponentials. Element i belongs to lane i mod ZN_ROW_LANES and the lanes are added by one fixed
 * tree, so that the register width does not show in the bits. */
#ifndef ZN_DEVICE_CPU_SOFTMAX_H
#define ZN_DEVICE_CPU_SOFTMAX_H

#include <math.h>
#include <stdint.h>

#include "device/cpu/fastmath.h"

enum { ZN_ROW_LANES = 16 };

/* gcc unrolls a loop over the lanes before it could make vectors of a comparison, unless told;
 * clang makes them anyway. */
#if defined(__clang__)
#define ZN_LANE_LOOP
#else
#define ZN_LANE_LOOP _Pragma("omp simd")
#endif

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

/* x ← exp(x - shift); returns the sum. */
static inline float zn_row_exp(float *restrict x, int64_t n, float shift)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = zn_exp(x[i] - shift);
    float lanes[ZN_ROW_LANES] = {0};
    int64_t i = 0;
    for (; i + ZN_ROW_LANES <= n; i += ZN_ROW_LANES)
        for (int l = 0; l < ZN_ROW_LANES; l++)
            lanes[l] += x[i + l];
    for (int l = 0; i + l < n; l++)
        lanes[l] += x[i + l];
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
