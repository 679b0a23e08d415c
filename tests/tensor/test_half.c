/* 16-bit conversions, against the definition in double; every result exact. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "tensor/half.h"

/* The value of a 16-bit float by its definition; the exponent has e bits, the rest m. */
static double value_of(uint16_t bits, int e, int m)
{
    int exponent = (bits >> m) & ((1 << e) - 1), bias = (1 << (e - 1)) - 1, fraction = bits & ((1 << m) - 1);
    double sign = bits & 0x8000 ? -1 : 1;
    if (exponent == (1 << e) - 1)
        return fraction ? NAN : sign * INFINITY;
    if (exponent == 0)
        return sign * ldexp(fraction, 1 - bias - m);
    return sign * ldexp((1 << m) + fraction, exponent - bias - m);
}

/* x rounded to nearest even with m fraction bits and a least exponent; above `largest` infinity. */
static double rounded(double x, int m, int least, double largest)
{
    if (!isfinite(x) || x == 0)
        return x;
    int exponent = ilogb(x) < least ? least : ilogb(x);
    double y = ldexp(nearbyint(ldexp(x, m - exponent)), exponent - m);
    return fabs(y) > largest ? copysign(INFINITY, x) : y;
}

static void check_same(double got, double wanted)
{
    if (isnan(wanted))
        assert_true(isnan(got));
    else
        assert_true(got == wanted && signbit(got) == signbit(wanted));
}

static void all_halves_widen_exactly_and_come_back(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 65536; i++) {
        uint16_t half = (uint16_t)i;
        float f = zn_f16_to_float(half), b = zn_bf16_to_float(half);
        check_same((double)f, value_of(half, 5, 10));
        check_same((double)b, value_of(half, 8, 7));
        assert_int_equal(zn_float_to_f16(f), isnan(f) ? half | 0x0200 : half);
        assert_int_equal(zn_float_to_bf16(b), isnan(b) ? half | 0x0040 : half);
    }
}

static void check_narrowing(uint32_t bits)
{
    float x = zn_float_of_bits(bits);
    uint16_t f = zn_float_to_f16(x), b = zn_float_to_bf16(x);
    check_same(value_of(f, 5, 10), rounded((double)x, 10, -14, 65504.0));
    check_same(value_of(b, 8, 7), rounded((double)x, 7, -126, 0x1.fep127));
    assert_int_equal(f >> 15, bits >> 31); /* the sign of NaN too */
    assert_int_equal(b >> 15, bits >> 31);
}

static void narrowing_rounds_to_nearest_even(void **state)
{
    (void)state;
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 6151)
        check_narrowing((uint32_t)bits);
    /* Around every value, every middle between two, and their neighbours in fp32. */
    for (uint32_t i = 0; i < 65536; i++) {
        for (int d = -2; d <= 2; d++) {
            check_narrowing((i << 16) + (uint32_t)d);
            check_narrowing((i << 16) + 0x8000u + (uint32_t)d);
            uint32_t wide = zn_float_bits(zn_f16_to_float((uint16_t)i));
            check_narrowing(wide + (uint32_t)d);
            check_narrowing(wide + 0x1000u + (uint32_t)d);
        }
    }
    for (uint32_t m = 0; m < 1024; m++) /* the middles of fp16's denormals */
        for (int d = -1; d <= 1; d++)
            check_narrowing(zn_float_bits(((float)m + 0.5f) * 0x1p-24f) + (uint32_t)d);
}

static void signalling_nan_becomes_quiet(void **state)
{
    (void)state;
    assert_int_equal(zn_float_to_f16(zn_float_of_bits(0xff800001u)), 0xfe00);
    assert_int_equal(zn_float_to_bf16(zn_float_of_bits(0x7f800001u)), 0x7fc0);
    assert_int_equal(zn_float_bits(zn_f16_to_float(0x7c01)), 0x7fc02000u);
    assert_int_equal(zn_float_bits(zn_bf16_to_float(0xff81)), 0xffc10000u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_halves_widen_exactly_and_come_back),
        cmocka_unit_test(narrowing_rounds_to_nearest_even),
        cmocka_unit_test(signalling_nan_becomes_quiet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
