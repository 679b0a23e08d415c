/* The order of the data: each epoch takes every window once, in an order of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "train/order.h"

static void check_epoch(const struct zn_order *order, int64_t epoch)
{
    int64_t n = order->n_windows;
    unsigned char *seen = calloc((size_t)n, 1);
    assert_non_null(seen);
    for (int64_t k = 0; k < n; k++) {
        int64_t window = zn_order_window(order, epoch * n + k);
        if (window < 0 || window >= n || seen[window]++)
            fail_msg("sample %lld of %lld is window %lld", (long long)k, (long long)n,
                     (long long)window);
    }
    free(seen);
}

static void every_epoch_is_a_permutation(void **state)
{
    (void)state;
    static const int64_t counts[] = {1,  2,  3,   4,   5,    7,    16,   17,    63,
                                     64, 65, 100, 257, 1000, 4095, 4097, 65536, 65537};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        for (uint64_t seed = 0; seed < 3; seed++)
            for (int64_t epoch = 0; epoch < 3; epoch++)
                check_epoch(&(struct zn_order){counts[i], seed, true}, epoch);
}

/* How many of the first n samples of two orders are the same window. */
static int64_t n_same(const struct zn_order *a, int64_t from_a, const struct zn_order *b,
                      int64_t from_b)
{
    int64_t same = 0;
    for (int64_t k = 0; k < a->n_windows; k++)
        same += zn_order_window(a, from_a + k) == zn_order_window(b, from_b + k);
    return same;
}

/* Two random permutations share about one place; ten is out of the question (below 1e-7). */
static void epochs_and_seeds_differ(void **state)
{
    (void)state;
    enum { N = 1000 };
    struct zn_order one = {N, 1, true}, two = {N, 2, true}, large = {N, UINT64_MAX, true};
    for (int64_t epoch = 1; epoch < 10; epoch++)
        assert_true(n_same(&one, 0, &one, epoch * N) < 10);
    assert_true(n_same(&one, 0, &two, 0) < 10);
    assert_true(n_same(&one, 0, &large, 0) < 10);
    assert_true(n_same(&one, N, &two, 0) < 10); /* the next epoch is not the next seed's first */
}

static void an_order_is_not_the_order_of_the_data(void **state)
{
    (void)state;
    enum { N = 1000 };
    struct zn_order shuffled = {N, 1, true}, plain = {N, 1, false};
    assert_true(n_same(&shuffled, 0, &plain, 0) < 10);
    /* Neighbours are torn apart: a run of the data would have every difference 1. */
    int64_t neighbours = 0;
    for (int64_t k = 1; k < N; k++)
        neighbours += zn_order_window(&shuffled, k) - zn_order_window(&shuffled, k - 1) == 1;
    assert_true(neighbours < 12);
}

/* The first window of an epoch is any window: over many epochs each of 8 comes up about equally. */
static void the_first_window_is_fair(void **state)
{
    (void)state;
    int64_t n_first[8] = {0};
    struct zn_order order = {8, 5, true};
    for (int64_t epoch = 0; epoch < 8000; epoch++)
        n_first[zn_order_window(&order, epoch * 8)]++;
    for (int i = 0; i < 8; i++)
        assert_in_range(n_first[i], 850, 1150); /* 1000 ± 5 deviations of 30 */
}

static void no_shuffle_is_the_order_of_the_data(void **state)
{
    (void)state;
    struct zn_order order = {7, 3, false};
    for (int64_t sample = 0; sample < 50; sample++)
        assert_int_equal(zn_order_window(&order, sample), sample % 7);
}

static void the_same_order_each_time(void **state)
{
    (void)state;
    struct zn_order order = {12345, 1, true};
    int64_t first = zn_order_window(&order, 54321);
    zn_order_window(&order, 1);
    assert_int_equal(zn_order_window(&order, 54321), first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_epoch_is_a_permutation),
        cmocka_unit_test(epochs_and_seeds_differ),
        cmocka_unit_test(an_order_is_not_the_order_of_the_data),
        cmocka_unit_test(the_first_window_is_fair),
        cmocka_unit_test(no_shuffle_is_the_order_of_the_data),
        cmocka_unit_test(the_same_order_each_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
