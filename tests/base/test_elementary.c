/* The elementary functions in double: within an ulp of the nearest double, and the same bits as on every other machine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "base/elementary.h"
#include "base/elementary_values.h"
#include "base/rng.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static double exp_of(double x, double y)
{
    (void)y;
    return zn_exp_f64(x);
}

static double log_of(double x, double y)
{
    (void)y;
    return zn_log_f64(x);
}

static double sin_of(double x, double y)
{
    (void)y;
    return zn_sin_f64(x);
}

static double cos_of(double x, double y)
{
    (void)y;
    return zn_cos_f64(x);
}

static void check(const char *name, double (*f)(double, double), const struct value *values, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double got = f(values[i].x, values[i].y), want = values[i].nearest;
        if (got != want && got != nextafter(want, INFINITY) && got != nextafter(want, -INFINITY))
            fail_msg("%s(%a, %a) is %a, not %a", name, values[i].x, values[i].y, got, want);
    }
}

static void values_are_within_an_ulp(void **state)
{
    (void)state;
    check("exp", exp_of, exp_values, COUNT(exp_values));
    check("log", log_of, log_values, COUNT(log_values));
    check("pow", zn_pow_f64, pow_values, COUNT(pow_values));
    check("sin", sin_of, sin_values, COUNT(sin_values));
    check("cos", cos_of, cos_values, COUNT(cos_values));
}

/* A hash of the bits of many results; x lies between low and high, y between -most and most. */
static uint64_t hash_results(double (*f)(double, double), double low, double high, double most)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (uint64_t i = 0; i < 100000; i++) {
        double y = f(low + (high - low) * zn_random_uniform(1, i), most * (2 * zn_random_uniform(2, i) - 1));
        uint64_t bits;
        memcpy(&bits, &y, sizeof bits);
        hash = (hash ^ bits) * UINT64_C(0x100000001b3);
    }
    return hash;
}

static void assert_hash(const char *name, uint64_t got, uint64_t want)
{
    if (got != want)
        fail_msg("%s: the bits of the results have the hash 0x%016llx, not 0x%016llx", name, (unsigned long long)got,
                 (unsigned long long)want);
}

static void results_have_the_bits_of_every_machine(void **state)
{
    (void)state;
    assert_hash("exp", hash_results(exp_of, -750, 712, 0), UINT64_C(0xfd73d0e5ac04f723));
    assert_hash("log", hash_results(log_of, 0, 10, 0), UINT64_C(0x4c842ca3818bb0a1));
    assert_hash("pow", hash_results(zn_pow_f64, 0, 3, 800), UINT64_C(0xc5033f0aa656914c));
    assert_hash("sin", hash_results(sin_of, -1e6, 1e6, 0), UINT64_C(0xdb0c8071b4afef0f));
    assert_hash("cos", hash_results(cos_of, -1e6, 1e6, 0), UINT64_C(0xcc1a847d7a730385));
}

static void ends_are_known(void **state)
{
    (void)state;
    assert_true(zn_exp_f64(INFINITY) == INFINITY && zn_exp_f64(710) == INFINITY && zn_exp_f64(-INFINITY) == 0);
    assert_true(zn_exp_f64(-746) == 0 && zn_exp_f64(-745) > 0 && zn_exp_f64(0) == 1);
    assert_true(zn_log_f64(0) == -INFINITY && zn_log_f64(INFINITY) == INFINITY && zn_log_f64(1) == 0);
    assert_true(zn_pow_f64(0, 3) == 0 && zn_pow_f64(0, -3) == INFINITY && zn_pow_f64(0, 0) == 1 && zn_pow_f64(7, 0) == 1);
    assert_true(zn_pow_f64(INFINITY, 2) == INFINITY && zn_pow_f64(INFINITY, -2) == 0);
    assert_true(zn_pow_f64(2, 1e300) == INFINITY && zn_pow_f64(2, -1e300) == 0 && zn_pow_f64(1, 1e300) == 1);
    assert_true(zn_sin_f64(0) == 0 && zn_cos_f64(0) == 1);
}

static void what_is_not_defined_is_not_a_number(void **state)
{
    (void)state;
    assert_true(isnan(zn_exp_f64(NAN)) && isnan(zn_log_f64(NAN)) && isnan(zn_log_f64(-1)) && isnan(zn_log_f64(-INFINITY)));
    assert_true(isnan(zn_pow_f64(NAN, 2)) && isnan(zn_pow_f64(-1, 2)) && isnan(zn_pow_f64(2, NAN)));
    assert_true(isnan(zn_sin_f64(NAN)) && isnan(zn_sin_f64(INFINITY)));
    assert_true(isnan(zn_cos_f64(0x1.1p27)) && isnan(zn_sin_f64(-0x1.1p27)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_within_an_ulp),
        cmocka_unit_test(results_have_the_bits_of_every_machine),
        cmocka_unit_test(ends_are_known),
        cmocka_unit_test(what_is_not_defined_is_not_a_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
