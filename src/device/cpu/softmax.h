/* What a softmax does along a row, for attention and the loss: the greatest element and sums of
 * exponentials. Sums are taken in lanes (lanes.h). */
#ifndef ZN_DEVICE_CPU_SOFTMAX_H
#define ZN_DEVICE_CPU_SOFTMAX_H

#include <math.h>
#include <stdint.h>

#include "device/cpu/fastmath.h"
#include "device/cpu/lanes.h"
#include "device/cpu/vector_math.h"

/* The greatest element; -infinity when there is none. Not-a-number is passed over: the sum of
 * exponentials that follows keeps it. */
static inline float zn_row_max(const float *x, int64_t n)
{
    zn_vector part[ZN_LANE_PARTS];
    for (int p = 0; p < ZN_LANE_PARTS; p++)
        part[p] = zn_vector_all(-INFINITY);
    int64_t i = 0;
    for (; i + ZN_LANES <= n; i += ZN_LANES)
        for (int p = 0; p < ZN_LANE_PARTS; p++)
            part[p] = zn_vector_max(zn_vector_load(x + i + p * ZN_LANE_FLOATS), part[p]);
    float lanes[ZN_LANES], max = -INFINITY;
    memcpy(lanes, part, sizeof lanes);
    for (; i < n; i++)
        max = x[i] > max ? x[i] : max;
    for (int l = 0; l < ZN_LANES; l++)
        max = lanes[l] > max ? lanes[l] : max;
    return max;
}

/* The sum of exp(x - shift), no x being above the shift by 88 or more. */
static inline float zn_row_exp_sum(const float *x, int64_t n, float shift)
{
    zn_lanes sum = {0};
    int64_t i = 0;
    for (; i + ZN_LANES <= n; i += ZN_LANES)
        for (int p = 0; p < ZN_LANE_PARTS; p++)
            sum.part[p] += zn_vector_exp(zn_vector_load(x + i + p * ZN_LANE_FLOATS) - shift);
    float lanes[ZN_LANES];
    zn_lanes_store(lanes, sum);
    for (int l = 0; i + l < n; l++)
        lanes[l] += zn_exp(x[i + l] - shift);
    return zn_lanes_total(lanes);
}

static inline float zn_row_dot(const float *a, const float *b, int64_t n)
{
    zn_lanes sum = {0};
    int64_t i = 0;
    for (; i + ZN_LANES <= n; i += ZN_LANES)
        sum = zn_lanes_add(sum, zn_lanes_mul(zn_lanes_load(a + i), zn_lanes_load(b + i)));
    float lanes[ZN_LANES];
    zn_lanes_store(lanes, sum);
    for (int l = 0; i + l < n; l++)
        lanes[l] += a[i + l] * b[i + l];
    return zn_lanes_total(lanes);
}

#endif
