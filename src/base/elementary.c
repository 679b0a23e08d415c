/* Argument reduction with constants in parts whose products are exact, then minimax polynomials. What matters for the last
 * bit is carried as an unevaluated sum of two doubles (T. J. Dekker, "A floating-point technique for extending the available
 * precision", Numerische Mathematik 18, 1971). */
#include "base/elementary.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#define LN2_HIGH 0x1.62e42fefa38p-1 /* 42 bits: exact times any exponent */
#define LN2_LOW 0x1.ef35793c7673p-45
#define ONE_OVER_LN2 0x1.71547652b82fep+0
#define ROOT_TWO 0x1.6a09e667f3bcdp+0
#define TWO_OVER_PI 0x1.45f306dc9c883p-1
#define ROUND_MAGIC 0x1.8p+52 /* adding it rounds to an integer, which stands in the lowest bits */

/* A value as high + low, |low| at most half an ulp of high. */
struct sum {
    double high, low;
};

static uint64_t bits_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static double of_bits(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* 2^n for a normal result. */
static double power_of_two(int64_t n)
{
    return of_bits((uint64_t)(n + 1023) << 52);
}

/* a + b without loss, |a| >= |b| or a = 0. */
static struct sum sum_ordered(double a, double b)
{
    double high = a + b;
    return (struct sum){high, b - (high - a)};
}

static struct sum sum_any(double a, double b)
{
    double high = a + b, part = high - a;
    return (struct sum){high, (a - (high - part)) + (b - part)};
}

/* c[0] + c[1] x + … + c[n-1] x^(n-1) */
static inline double polynomial(const double *c, int n, double x)
{
    double p = c[n - 1];
    for (int i = n - 2; i >= 0; i--)
        p = p * x + c[i];
    return p;
}

/* e^(high + low), low being small beside high. */
static double exp_of_sum(double high, double low)
{
    static const double c[] = { /* (e^r - 1 - r) / r² for |r| <= ln 2 / 2 */
        0.5, 0x1.5555555555555p-3, 0x1.5555555555557p-5, 0x1.1111111111113p-7, 0x1.6c16c16c15a6bp-10, 0x1.a01a01a0188dcp-13,
        0x1.a01a01a9e845dp-16, 0x1.71de3a5ec3099p-19, 0x1.27e4d41cedf0cp-22, 0x1.ae641b6b7acb5p-26, 0x1.1f7f20da3ad9cp-29,
        0x1.61d987e974745p-33};
    if (!(high <= 709.79))
        return high + INFINITY; /* not-a-number stays */
    if (high < -745.2)
        return 0.0;
    double n = (high * ONE_OVER_LN2 + ROUND_MAGIC) - ROUND_MAGIC;
    struct sum r = sum_any(high - n * LN2_HIGH, low - n * LN2_LOW), one = sum_ordered(1.0, r.high);
    double rest = r.high * r.high * polynomial(c, 12, r.high) + (r.low + r.low * r.high);
    double y = one.high + (one.low + rest);
    int64_t exponent = (int64_t)n, half = exponent / 2; /* two factors, so that only the last product may round */
    return y * power_of_two(half) * power_of_two(exponent - half);
}

double zn_exp_f64(double x)
{
    return exp_of_sum(x, 0.0);
}

/* x = m × 2^n with √½ <= m < √2; x is positive and finite. */
static double significand_of(double x, double *n)
{
    int64_t exponent = 0;
    if (x < 0x1p-1022) {
        x *= 0x1p54;
        exponent = -54;
    }
    uint64_t bits = bits_of(x);
    exponent += (int64_t)(bits >> 52) - 1023;
    double m = of_bits((bits & UINT64_C(0x000fffffffffffff)) | UINT64_C(0x3ff0000000000000));
    if (m >= ROOT_TWO) {
        m *= 0.5;
        exponent++;
    }
    *n = (double)exponent;
    return m;
}

/* With f = m - 1 and s = f / (2 + f): log m = 2 atanh s = f - f²/2 + s (f²/2 + s² L(s²)). */
double zn_log_f64(double x)
{
    static const double c[] = {0x1.5555555555555p-1, 0x1.9999999999a39p-2, 0x1.2492492476949p-2, 0x1.c71c7201b2936p-3,
                               0x1.745cf8e2989cap-3, 0x1.3b1c3bf7c4ad1p-3, 0x1.0fbdf2537cdc6p-3, 0x1.0c09d03c3618bp-3};
    if (!(x > 0.0 && x < INFINITY))
        return x == 0.0 ? -INFINITY : x < 0.0 ? NAN : x;
    double n, f = significand_of(x, &n) - 1.0;
    double s = f / (2.0 + f), z = s * s, half_square = 0.5 * f * f;
    struct sum start = sum_ordered(f, -half_square), whole = sum_ordered(n * LN2_HIGH, start.high);
    double rest = s * (half_square + z * polynomial(c, 8, z)) + start.low;
    return whole.high + (whole.low + (rest + n * LN2_LOW));
}

/* The products of two sums and of a constant c + x, to about 100 bits. */
static struct sum multiply(struct sum a, struct sum b)
{
    double high = a.high * b.high;
    return sum_ordered(high, fma(a.high, b.high, -high) + (a.high * b.low + a.low * b.high));
}

static struct sum add(struct sum c, struct sum x)
{
    struct sum y = sum_ordered(c.high, x.high);
    return sum_ordered(y.high, y.low + (c.low + x.low));
}

/* log x to about 75 bits, x positive and finite: atanh s = s + s³/3 + s⁵/5 + …, its first three terms in sums. */
static struct sum log_wide(double x)
{
    static const double c[] = {0x1.2492492492492p-3, 0x1.c71c71c71c705p-4, 0x1.745d1745d3f5dp-4,
                               0x1.3b13b138ec621p-4, 0x1.11111220fcd46p-4, 0x1.e1e13ed15ee02p-5,
                               0x1.af469aad809b6p-5, 0x1.82bc89cc8ec36p-5, 0x1.987592a898193p-5};
    const struct sum third = {0x1.5555555555555p-2, 0x1.5555555555555p-56}, fifth = {0x1.999999999999ap-3, -0x1.999999999999ap-57};
    double n, m = significand_of(x, &n), f = m - 1.0;
    struct sum below = sum_any(m, 1.0), s;
    s.high = f / below.high;
    s.low = (fma(-s.high, below.high, f) - s.high * below.low) / below.high;
    struct sum z = multiply(s, s), rest = {z.high * polynomial(c, 9, z.high), 0.0};
    struct sum tail = multiply(z, add(third, multiply(z, add(fifth, rest))));
    struct sum half = add(s, multiply(s, tail));
    return add((struct sum){n * LN2_HIGH, n * LN2_LOW}, (struct sum){2.0 * half.high, 2.0 * half.low});
}

double zn_pow_f64(double x, double y)
{
    if (y == 0.0)
        return 1.0;
    if (!(x > 0.0 && x < INFINITY))
        return x < 0.0 ? NAN : x != x ? x : (x == 0.0) == (y > 0.0) ? 0.0 : INFINITY;
    struct sum log_x = log_wide(x);
    double high = y * log_x.high;
    return exp_of_sum(high, fma(y, log_x.high, -high) + y * log_x.low);
}

/* x less the nearest multiple of π/2, |x| <= 2^27; *quadrant is that multiple, mod 4. π/2 is in four parts, the first three
 * of 25 bits. */
static struct sum reduce_angle(double x, uint64_t *quadrant)
{
    double shifted = x * TWO_OVER_PI + ROUND_MAGIC, n = shifted - ROUND_MAGIC;
    *quadrant = bits_of(shifted) & 3;
    double r = (x - n * 0x1.921fb5p+0) - n * 0x1.110b46p-26;
    struct sum rest = sum_any(r, -(n * 0x1.1a6263p-54));
    return sum_any(rest.high, rest.low - n * 0x1.8a2e03707344ap-81);
}

static double sine_near_zero(struct sum r)
{
    static const double c[] = {-0x1.5555555555555p-3, 0x1.111111111111p-7,   -0x1.a01a01a019939p-13, 0x1.71de3a5460acfp-19,
                               -0x1.ae645412e9bb9p-26, 0x1.61217f25a912ap-33, -0x1.ab17e2232ad1ep-41};
    double z = r.high * r.high;
    return r.high + (r.high * z * polynomial(c, 7, z) + (r.low - 0.5 * z * r.low));
}

static double cosine_near_zero(struct sum r)
{
    static const double c[] = {0x1.5555555555555p-5, -0x1.6c16c16c16c16p-10, 0x1.a01a01a019d0bp-16, -0x1.27e4fb7712dfap-22,
                               0x1.1eed8deba6314p-29, -0x1.9394ba21bf8cfp-37, 0x1.ab7866490c6c9p-45};
    double z = r.high * r.high;
    struct sum start = sum_ordered(1.0, -0.5 * z);
    return start.high + (start.low + (z * z * polynomial(c, 7, z) - r.high * r.low));
}

/* sin(x + turns × π/2) */
static double sine_turned(double x, uint64_t turns)
{
    if (!(x <= 0x1p27 && x >= -0x1p27))
        return NAN;
    uint64_t quadrant;
    struct sum r = reduce_angle(x, &quadrant);
    quadrant += turns;
    double y = quadrant & 1 ? cosine_near_zero(r) : sine_near_zero(r);
    return quadrant & 2 ? -y : y;
}

double zn_sin_f64(double x)
{
    return sine_turned(x, 0);
}

double zn_cos_f64(double x)
{
    return sine_turned(x, 1);
}
