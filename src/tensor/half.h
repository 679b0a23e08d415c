/* 16-bit floats on the host, one value at a time: round to nearest even, infinities and
 * denormals kept, NaN made quiet with its sign and leading bits, as the vector instructions do.
 * Written without branches on the value, so that loops over them become vector code. */
#ifndef ZN_TENSOR_HALF_H
#define ZN_TENSOR_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t zn_float_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float zn_float_of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* A signalling NaN is made quiet. */
static inline float zn_bf16_to_float(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    return zn_float_of_bits(bits | ((bits & 0x7fffffffu) > 0x7f800000u ? 0x00400000u : 0));
}

static inline uint16_t zn_float_to_bf16(float x)
{
    uint32_t bits = zn_float_bits(x);
    uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1)) >> 16; /* a carry may reach infinity */
    uint32_t nan = (bits >> 16) | 0x0040u;
    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

static inline float zn_f16_to_float(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16, rest = half & 0x7fffu;
    uint32_t normal = (rest << 13) + (112u << 23); /* bias 15 to 127 */
    uint32_t special = (rest << 13) | 0x7f800000u | (rest > 0x7c00u ? 0x00400000u : 0);
    /* A denormal is m × 2^-24 = 2^-14 × (1 + m/1024) - 2^-14, exactly. */
    uint32_t denormal = zn_float_bits(zn_float_of_bits(0x38800000u | (rest << 13)) - 0x1p-14f);
    uint32_t bits = rest < 0x0400u ? denormal : rest < 0x7c00u ? normal : special;
    return zn_float_of_bits(sign | bits);
}

static inline uint16_t zn_float_to_f16(float x)
{
    uint32_t bits = zn_float_bits(x), sign = (bits >> 16) & 0x8000u, rest = bits & 0x7fffffffu;
    uint32_t normal = (rest - (112u << 23) + 0x0fffu + ((rest >> 13) & 1)) >> 13;
    /* Below 2^-14 the last place is 2^-24, which is that of 0.5 in fp32: the sum rounds there. */
    uint32_t denormal = zn_float_bits(zn_float_of_bits(rest) + 0.5f) - 0x3f000000u;
    uint32_t nan = 0x7e00u | ((rest >> 13) & 0x03ffu);
    uint32_t half = rest < 0x38800000u   ? denormal
                    : rest < 0x477ff000u ? normal /* 65520 and above round to infinity */
                    : rest <= 0x7f800000u ? 0x7c00u
                                          : nan;
    return (uint16_t)(sign | half);
}

#endif
