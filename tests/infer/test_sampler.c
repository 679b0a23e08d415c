/* The choice of a token: greedy, and drawn with the frequencies that the logits say. */
#include "files.h"

#include <math.h>

#include "infer/sampler.h"

enum { N = 6, DRAWS = 20000 };

static const float logits[N] = {1.0f, 3.0f, 2.0f, 3.0f, -INFINITY, 0.0f};

static int32_t sample(const struct zn_sampling *s, const float *from, int64_t n, int64_t position)
{
    struct zn_candidate room[64];
    int32_t id = -1;
    OK(zn_sample(s, from, n, position, room, &id));
    return id;
}

/* Counts over positions; the share of each id is `weight` over their sum within four standard
 * deviations. */
static void check_shares(const struct zn_sampling *s, const double weight[N])
{
    int64_t count[N] = {0};
    double total = 0;
    for (int64_t i = 0; i < DRAWS; i++)
        count[sample(s, logits, N, i)]++;
    for (int i = 0; i < N; i++)
        total += weight[i];
    for (int i = 0; i < N; i++) {
        double p = weight[i] / total, bound = 4 * sqrt(DRAWS * p * (1 - p));
        if (!(fabs((double)count[i] - DRAWS * p) <= bound))
            fail_msg("id %d came %lld times of %d, not %.1f within %.1f", i, (long long)count[i], DRAWS,
                     DRAWS * p, bound);
    }
}

static double e(double x)
{
    return exp(x);
}

static void greedy_takes_the_lowest_id_among_equals(void **state)
{
    (void)state;
    struct zn_sampling s = {.temperature = 0, .top_p = 1};
    assert_int_equal(sample(&s, logits, N, 0), 1);
    assert_int_equal(sample(&s, (float[]){-5, -5}, 2, 0), 0);
    assert_int_equal(sample(&s, (float[]){0}, 1, 0), 0);
}

static void temperature_shapes_the_frequencies(void **state)
{
    (void)state;
    struct zn_sampling s = {.temperature = 1, .top_p = 1, .seed = 5};
    check_shares(&s, (double[N]){e(1), e(3), e(2), e(3), 0, e(0)});
    s.temperature = 2;
    check_shares(&s, (double[N]){e(0.5), e(1.5), e(1), e(1.5), 0, e(0)});
}

static void top_k_keeps_the_most_likely_and_the_lower_id(void **state)
{
    (void)state;
    struct zn_sampling s = {.temperature = 1, .top_k = 1, .top_p = 1, .seed = 6};
    check_shares(&s, (double[N]){0, 1, 0, 0, 0, 0});
    s.top_k = 2;
    check_shares(&s, (double[N]){0, 1, 0, 1, 0, 0});
    s.top_k = 3;
    check_shares(&s, (double[N]){0, e(3), e(2), e(3), 0, 0});
    s.top_k = 100; /* more than there are */
    check_shares(&s, (double[N]){e(1), e(3), e(2), e(3), 0, e(0)});
}

/* Probabilities in order: 3 and 3 about 0.39 each, 2 about 0.14, 1 about 0.05, 0 about 0.02. */
static void top_p_keeps_the_fewest_that_suffice(void **state)
{
    (void)state;
    struct zn_sampling s = {.temperature = 1, .top_p = 1e-9, .seed = 7};
    check_shares(&s, (double[N]){0, 1, 0, 0, 0, 0}); /* never none */
    s.top_p = 0.38;
    check_shares(&s, (double[N]){0, 1, 0, 0, 0, 0});
    s.top_p = 0.5;
    check_shares(&s, (double[N]){0, 1, 0, 1, 0, 0});
    s.top_p = 0.9;
    check_shares(&s, (double[N]){0, e(3), e(2), e(3), 0, 0});
    s.top_p = 0.9999999;
    check_shares(&s, (double[N]){e(1), e(3), e(2), e(3), 0, e(0)});
}

/* Of four equal ones two have exactly half: a third would be too many. */
static void top_p_stops_exactly_at_its_share(void **state)
{
    (void)state;
    struct zn_sampling s = {.temperature = 1, .top_p = 0.5, .seed = 8};
    for (int64_t i = 0; i < 1000; i++)
        assert_true(sample(&s, (float[]){2, 2, 2, 2}, 4, i) < 2);
}

/* Of two that top-k leaves the first has half, of three 0.42. */
static void top_p_counts_within_top_k(void **state)
{
    (void)state;
    struct zn_sampling s = {.temperature = 1, .top_k = 2, .top_p = 0.45, .seed = 9};
    check_shares(&s, (double[N]){0, 1, 0, 0, 0, 0});
    s.top_k = 3;
    check_shares(&s, (double[N]){0, 1, 0, 1, 0, 0});
}

static void the_draw_depends_on_seed_and_position_alone(void **state)
{
    (void)state;
    struct zn_sampling a = {.temperature = 1, .top_p = 1, .seed = 1}, b = a;
    b.seed = 2;
    int differ = 0, differ_by_position = 0;
    for (int64_t i = 0; i < 200; i++) {
        int32_t id = sample(&a, logits, N, i);
        assert_int_equal(id, sample(&a, logits, N, i));
        differ += id != sample(&b, logits, N, i);
        differ_by_position += id != sample(&a, logits, N, i + 1);
    }
    assert_true(differ > 50 && differ_by_position > 50);
}

static void a_tiny_temperature_is_greedy(void **state)
{
    (void)state;
    struct zn_sampling s = {.temperature = 1e-300, .top_p = 1, .seed = 3};
    for (int64_t i = 0; i < 100; i++)
        assert_int_equal(sample(&s, (float[]){0, 1, 0.5f}, 3, i), 1);
}

static void logits_that_are_no_numbers_are_refused(void **state)
{
    (void)state;
    struct zn_candidate room[2];
    int32_t id;
    struct zn_sampling s = {.top_p = 1};
    FAILS(zn_sample(&s, (float[]){0, NAN}, 2, 0, room, &id), ZN_ERR_NUMERIC, "token 1", "not a number");
    FAILS(zn_sample(&s, (float[]){0, INFINITY}, 2, 0, room, &id), ZN_ERR_NUMERIC, "token 1", "not finite");
    FAILS(zn_sample(&s, (float[]){-INFINITY, -INFINITY}, 2, 0, room, &id), ZN_ERR_NUMERIC, "token 0",
          "not finite");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_takes_the_lowest_id_among_equals),
        cmocka_unit_test(temperature_shapes_the_frequencies),
        cmocka_unit_test(top_k_keeps_the_most_likely_and_the_lower_id),
        cmocka_unit_test(top_p_keeps_the_fewest_that_suffice),
        cmocka_unit_test(top_p_stops_exactly_at_its_share),
        cmocka_unit_test(top_p_counts_within_top_k),
        cmocka_unit_test(the_draw_depends_on_seed_and_position_alone),
        cmocka_unit_test(a_tiny_temperature_is_greedy),
        cmocka_unit_test(logits_that_are_no_numbers_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
