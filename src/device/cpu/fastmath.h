/* Elementary functions without branches, tables or calls, so that loops over them vectorise,
 * and with exact operations only (+, -, ×, ÷, √, bits), so that every instruction set and every
 * position in a vector gives the same bits. Not-a-number stays not-a-number. */
#ifndef ZN_DEVICE_CPU_FASTMATH_H
#define ZN_DEVICE_CPU_FASTMATH_H

#include <stdint.h>
#include <string.h>

static inline int32_t zn_bits_of(float x)
{
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float zn_of_bits(int32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* e^x within 1 ulp; 0 below -87.3, infinity above 88.7. */
static inline float zn_exp(float x)
{
    const float round_magic = 12582912.0f; /* 1.5 × 2^23: adding it rounds to an integer */
    float low = x < -87.3f ? -87.3f : x;
    float in = low > 88.72f ? 88.72f : low;
    float shifted = in * 1.44269504088896341f + round_magic;
    float n = shifted - round_magic;
    float r = (in - n * 0.693359375f) + n * 2.12194440e-4f; /* ln 2 in two parts, the first exact */
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    /* 2^n in two factors, so that n = 128 does not overflow too early. Shifted without sign: of
     * not-a-number n is anything. */
    int32_t exponent = zn_bits_of(shifted) - zn_bits_of(round_magic);
    int32_t half = exponent >> 1;
    float y = p * zn_of_bits((int32_t)((uint32_t)(half + 127) << 23)) *
              zn_of_bits((int32_t)((uint32_t)(exponent - half + 127) << 23));
    y = x < -87.3f ? 0.0f : y;
    return x > 88.72f ? zn_of_bits(0x7f800000) : y;
}

/* log x within 1 ulp; -infinity at 0, not-a-number below. x = m × 2^n with √½ <= m < √2, f = m - 1, s = f / (2 + f):
 * log m = f - f²/2 + s (f²/2 + s² p(s²)). */
static inline float zn_log(float x)
{
    const float infinity = zn_of_bits(0x7f800000), nan = zn_of_bits(0x7fc00000);
    float normal = x < 0x1p-126f ? x * 0x1p23f : x;
    int32_t above = (int32_t)((uint32_t)zn_bits_of(normal) - 0x3f3504f3u); /* √½ taken off: n is above the fraction's bits */
    float n = (float)((above >> 23) - (x < 0x1p-126f ? 23 : 0));
    float f = zn_of_bits((above & 0x7fffff) + 0x3f3504f3) - 1.0f;
    float s = f / (2.0f + f), z = s * s, half_square = 0.5f * f * f;
    float p = 0.233322695f;
    p = p * z + 0.285507411f;
    p = p * z + 0.400001228f;
    p = p * z + 0.666666687f;
    float rest = s * (half_square + z * p) - n * 2.12194440e-4f;
    float y = n * 0.693359375f - ((half_square - rest) - f); /* ln 2 in two parts, the first exact */
    y = x < infinity ? y : x;                                /* infinity and not-a-number */
    y = x < 0.0f ? nan : y;
    return x == 0.0f ? -infinity : y;
}

#endif
