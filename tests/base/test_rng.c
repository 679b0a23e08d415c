/* The counter-based generator: moments, bounds, and dependence on key and counter. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"

enum { N = 400000 };

/* Bounds are five standard deviations of the estimate. */
static void assert_within(double got, double want, double bound)
{
    if (!(fabs(got - want) <= bound))
        fail_msg("%.9g is not %.9g within %g", got, want, bound);
}

static void uniform_has_the_moments(void **state)
{
    (void)state;
    static const uint64_t keys[] = {0, 1, 12345, UINT64_MAX};
    for (int k = 0; k < 4; k++) {
        double mean = 0, square = 0, next = 0;
        for (uint64_t i = 0; i < N; i++) {
            double u = zn_random_uniform(keys[k], i);
            assert_true(u > 0 && u < 1);
            mean += u / N;
            square += (u - 0.5) * (u - 0.5) / N;
            next += (u - 0.5) * (zn_random_uniform(keys[k], i + 1) - 0.5) / N;
        }
        assert_within(mean, 0.5, 5 / sqrt(12.0 * N));
        assert_within(square, 1.0 / 12, 5 / sqrt(180.0 * N));
        assert_within(next, 0, 5 / (12 * sqrt(N)));
    }
}

static void every_bit_is_as_often_set_as_not(void **state)
{
    (void)state;
    int set[64] = {0};
    for (uint64_t i = 0; i < N; i++) {
        uint64_t bits = zn_random_bits(7, i);
        for (int b = 0; b < 64; b++)
            set[b] += (int)((bits >> b) & 1);
    }
    for (int b = 0; b < 64; b++)
        assert_within(set[b], N / 2, 5 * sqrt(N) / 2);
}

/* Flipping one bit of key or counter flips each bit of the result in half of the cases. */
static void key_and_counter_reach_every_bit(void **state)
{
    (void)state;
    enum { TRIES = 4000 };
    for (int which = 0; which < 2; which++) {
        for (int b = 0; b < 64; b += 7) {
            int flipped[64] = {0};
            for (uint64_t i = 0; i < TRIES; i++) {
                uint64_t key = zn_random_bits(1, i), counter = zn_random_bits(2, i);
                uint64_t mask = UINT64_C(1) << b;
                uint64_t other = which ? zn_random_bits(key, counter ^ mask)
                                       : zn_random_bits(key ^ mask, counter);
                uint64_t change = zn_random_bits(key, counter) ^ other;
                for (int o = 0; o < 64; o++)
                    flipped[o] += (int)((change >> o) & 1);
            }
            for (int o = 32; o < 64; o++) /* the upper bits make the numbers */
                assert_within(flipped[o], TRIES / 2, 0.1 * TRIES);
        }
    }
}

static void neighbouring_keys_are_not_correlated(void **state)
{
    (void)state;
    for (uint64_t key = 0; key < 8; key++) {
        double same = 0;
        for (uint64_t i = 0; i < N / 8; i++)
            same += zn_random_normal(key, i) * zn_random_normal(key + 1, i) / (N / 8);
        assert_within(same, 0, 5 / sqrt(N / 8));
    }
}

static void normal_has_the_moments(void **state)
{
    (void)state;
    double moment[5] = {0};
    for (uint64_t i = 0; i < N; i++) {
        double x = zn_random_normal(3, i), power = 1;
        for (int m = 1; m < 5; m++)
            moment[m] += (power *= x) / N;
    }
    assert_within(moment[1], 0, 5 / sqrt(N));
    assert_within(moment[2], 1, 5 * sqrt(2.0 / N));
    assert_within(moment[3], 0, 5 * sqrt(15.0 / N));
    assert_within(moment[4], 3, 5 * sqrt(96.0 / N));
}

/* The distribution function takes a normal value back to its uniform one. */
static void normal_inverts_the_distribution(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < N; i++) {
        double u = zn_random_uniform(4, i), x = zn_random_normal(4, i);
        assert_within(0.5 * erfc(-x / sqrt(2)), u, 2e-15 + 1e-13 * u);
    }
}

static void below_is_uniform_below_n(void **state)
{
    (void)state;
    int count[10] = {0};
    for (uint64_t i = 0; i < N; i++) {
        uint64_t v = zn_random_below(5, i, 10);
        assert_true(v < 10);
        count[v]++;
    }
    for (int v = 0; v < 10; v++)
        assert_within(count[v], N / 10, 5 * sqrt(0.09 * N));
    for (uint64_t i = 0; i < 100; i++) {
        assert_true(zn_random_below(5, i, 1) == 0);
        assert_true(zn_random_below(5, i, UINT64_C(1) << 63) < UINT64_C(1) << 63);
    }
}

static void keys_depend_on_seed_and_name(void **state)
{
    (void)state;
    uint64_t key = zn_random_key(1, "model.layers.0.mlp.up_proj.weight");
    assert_true(key == zn_random_key(1, "model.layers.0.mlp.up_proj.weight"));
    assert_true(key != zn_random_key(2, "model.layers.0.mlp.up_proj.weight"));
    assert_true(key != zn_random_key(1, "model.layers.1.mlp.up_proj.weight"));
    assert_true(zn_random_key(0, "") != zn_random_key(1, ""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uniform_has_the_moments),
        cmocka_unit_test(every_bit_is_as_often_set_as_not),
        cmocka_unit_test(key_and_counter_reach_every_bit),
        cmocka_unit_test(neighbouring_keys_are_not_correlated),
        cmocka_unit_test(normal_has_the_moments),
        cmocka_unit_test(normal_inverts_the_distribution),
        cmocka_unit_test(below_is_uniform_below_n),
        cmocka_unit_test(keys_depend_on_seed_and_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
