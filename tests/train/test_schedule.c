/* The learning rate of every step, against its formula: step s from 1 has lr·min(1, s/W), then
 * constant, linear or cosine to min-lr at the last step; and against DeepSpeed's own figures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "train/schedule.h"

#include "deepspeed_schedules.h"

static void assert_close(double got, double want)
{
    if (!(fabs(got - want) <= 1e-15 + 1e-13 * fabs(want)))
        fail_msg("%.17g, not %.17g", got, want);
}

static void constant_stays(void **state)
{
    (void)state;
    struct zn_schedule c = {.kind = ZN_CONSTANT, .lr = 3e-4, .min_lr = 1e-5, .steps = 100};
    for (int64_t s = 1; s <= 100; s++)
        assert_true(zn_schedule_lr(&c, s) == 3e-4);
}

static void warm_up_is_a_line_that_ends_at_the_full_rate(void **state)
{
    (void)state;
    for (zn_schedule_kind kind = ZN_CONSTANT; kind <= ZN_COSINE; kind++) {
        struct zn_schedule c = {.kind = kind, .lr = 0.01, .warmup = 8, .steps = 20};
        for (int64_t s = 1; s <= 8; s++)
            assert_close(zn_schedule_lr(&c, s), 0.01 * (double)s / 8);
        assert_true(zn_schedule_lr(&c, 8) == 0.01);
    }
}

static void linear_ends_at_the_least_rate(void **state)
{
    (void)state;
    struct zn_schedule c = {.kind = ZN_LINEAR, .lr = 1.0, .min_lr = 0.2, .warmup = 10, .steps = 50};
    for (int64_t s = 11; s <= 50; s++)
        assert_close(zn_schedule_lr(&c, s), 0.2 + 0.8 * (1 - (double)(s - 10) / 40));
    assert_true(zn_schedule_lr(&c, 50) == 0.2);
    assert_close(zn_schedule_lr(&c, 30), 0.6);
}

static void cosine_ends_at_the_least_rate(void **state)
{
    (void)state;
    const double pi = 3.14159265358979323846;
    struct zn_schedule c = {.kind = ZN_COSINE, .lr = 1.0, .min_lr = 0.1, .warmup = 5, .steps = 45};
    for (int64_t s = 6; s <= 45; s++)
        assert_close(zn_schedule_lr(&c, s), 0.1 + 0.9 * (1 + cos(pi * (double)(s - 5) / 40)) / 2);
    assert_close(zn_schedule_lr(&c, 45), 0.1);
    assert_close(zn_schedule_lr(&c, 25), 0.55); /* half way */
}

static void without_warm_up_the_first_step_is_already_lower(void **state)
{
    (void)state;
    struct zn_schedule c = {.kind = ZN_LINEAR, .lr = 1.0, .steps = 4};
    assert_close(zn_schedule_lr(&c, 1), 0.75);
    assert_close(zn_schedule_lr(&c, 4), 0);
    c.steps = 1;
    assert_close(zn_schedule_lr(&c, 1), 0);
}

/* 0 would come one step after the last. */
static void without_a_least_rate_the_last_step_still_trains(void **state)
{
    (void)state;
    const double pi = 3.14159265358979323846;
    struct zn_schedule c = {.kind = ZN_LINEAR, .lr = 1.0, .min_lr = -1, .warmup = 2, .steps = 6};
    for (int64_t s = 3; s <= 7; s++)
        assert_close(zn_schedule_lr(&c, s), 1 - (double)(s - 2) / 5);
    assert_close(zn_schedule_lr(&c, 6), 0.2);
    c.kind = ZN_COSINE;
    for (int64_t s = 3; s <= 7; s++)
        assert_close(zn_schedule_lr(&c, s), (1 + cos(pi * (double)(s - 2) / 5)) / 2);
    assert_true(zn_schedule_lr(&c, 6) > 0.09);
}

/* A run that ends within its warm-up never divides by nothing. */
static void a_warm_up_longer_than_the_run(void **state)
{
    (void)state;
    for (zn_schedule_kind kind = ZN_CONSTANT; kind <= ZN_COSINE; kind++) {
        struct zn_schedule c = {.kind = kind, .lr = 1.0, .warmup = 10, .steps = 4};
        for (int64_t s = 1; s <= 4; s++)
            assert_close(zn_schedule_lr(&c, s), (double)s / 10);
        c.warmup = 4;
        assert_true(zn_schedule_lr(&c, 4) == 1.0);
    }
}

/* From a rate of its own, by a line or by the logarithm of the step. */
static void warm_up_begins_where_it_is_told(void **state)
{
    (void)state;
    for (zn_schedule_kind kind = ZN_CONSTANT; kind <= ZN_COSINE; kind++) {
        struct zn_schedule c = {.kind = kind, .lr = 0.01, .warmup_min_lr = 0.002, .warmup = 8, .steps = 20};
        for (int64_t s = 1; s <= 8; s++)
            assert_close(zn_schedule_lr(&c, s), 0.002 + 0.008 * (double)s / 8);
        c.log_warmup = true;
        for (int64_t s = 1; s <= 8; s++)
            assert_close(zn_schedule_lr(&c, s), 0.002 + 0.008 * log((double)s) / log(8));
        assert_true(zn_schedule_lr(&c, 8) == 0.01);
        c.warmup = 1;
        assert_true(zn_schedule_lr(&c, 1) == 0.01);
    }
}

static void a_schedule_stays_where_its_steps_end(void **state)
{
    (void)state;
    struct zn_schedule c = {.kind = ZN_LINEAR, .lr = 1.0, .min_lr = 0.25, .warmup = 2, .steps = 6};
    assert_close(zn_schedule_lr(&c, 4), 0.625);
    for (int64_t s = 6; s <= 20; s++)
        assert_close(zn_schedule_lr(&c, s), 0.25);
    c.kind = ZN_COSINE;
    c.min_lr = -1;
    assert_true(zn_schedule_lr(&c, 6) > 0.09);
    for (int64_t s = 7; s <= 20; s++)
        assert_close(zn_schedule_lr(&c, s), 0);
}

static void fifty_steps_are_deepspeeds(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof deepspeed_schedules / sizeof deepspeed_schedules[0]; i++)
        for (int64_t s = 1; s <= 50; s++)
            assert_close(zn_schedule_lr(&deepspeed_schedules[i].schedule, s), deepspeed_schedules[i].lr[s - 1]);
}

static void names_are_read_and_others_refused(void **state)
{
    (void)state;
    zn_schedule_kind kind;
    assert_int_equal(zn_schedule_parse("constant", &kind), ZN_OK);
    assert_int_equal(kind, ZN_CONSTANT);
    assert_int_equal(zn_schedule_parse("linear", &kind), ZN_OK);
    assert_int_equal(kind, ZN_LINEAR);
    assert_int_equal(zn_schedule_parse("cosine", &kind), ZN_OK);
    assert_int_equal(kind, ZN_COSINE);
    assert_int_equal(zn_schedule_parse("WarmupCosineLR", &kind), ZN_OK);
    assert_int_equal(kind, ZN_WARMUP_COSINE_LR);
    assert_int_equal(zn_schedule_parse("cosin", &kind), ZN_ERR_USAGE);
    assert_non_null(strstr(zn_error_message(), "cosin"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constant_stays),
        cmocka_unit_test(warm_up_is_a_line_that_ends_at_the_full_rate),
        cmocka_unit_test(linear_ends_at_the_least_rate),
        cmocka_unit_test(cosine_ends_at_the_least_rate),
        cmocka_unit_test(without_warm_up_the_first_step_is_already_lower),
        cmocka_unit_test(without_a_least_rate_the_last_step_still_trains),
        cmocka_unit_test(a_warm_up_longer_than_the_run),
        cmocka_unit_test(warm_up_begins_where_it_is_told),
        cmocka_unit_test(a_schedule_stays_where_its_steps_end),
        cmocka_unit_test(fifty_steps_are_deepspeeds),
        cmocka_unit_test(names_are_read_and_others_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
