/* Strings that end a text, and what of a text may still become one. */
#include "files.h"

#include "infer/stop_strings.h"

static const char *const words[] = {"END", "\n\n", "aab"};

static void first_of_them_counts(void **state)
{
    (void)state;
    struct zn_stop_strings stop;
    size_t at = 0;
    OK(zn_stop_strings_init(&stop, (struct zn_words){words, 3}));
    assert_true(zn_stop_strings_find(&stop, "x\n\ny END", 8, 0, &at));
    assert_int_equal(at, 1);
    assert_true(zn_stop_strings_find(&stop, "aaab", 4, 0, &at));
    assert_int_equal(at, 1);
    assert_false(zn_stop_strings_find(&stop, "EN D", 4, 0, &at));
    assert_false(zn_stop_strings_find(&stop, "", 0, 0, &at));
    /* From byte 4 on, one that ends there is found, though it began before. */
    assert_true(zn_stop_strings_find(&stop, "xxEND", 5, 4, &at));
    assert_int_equal(at, 2);
}

static void what_may_become_one_is_held_back(void **state)
{
    (void)state;
    struct zn_stop_strings stop;
    OK(zn_stop_strings_init(&stop, (struct zn_words){words, 3}));
    assert_int_equal(zn_stop_strings_settled(&stop, "abc", 3), 3);
    assert_int_equal(zn_stop_strings_settled(&stop, "abcE", 4), 3);
    assert_int_equal(zn_stop_strings_settled(&stop, "abcEN", 5), 3);
    assert_int_equal(zn_stop_strings_settled(&stop, "abcENx", 6), 6);
    assert_int_equal(zn_stop_strings_settled(&stop, "aaa", 3), 1);
    assert_int_equal(zn_stop_strings_settled(&stop, "\n", 1), 0);
    OK(zn_stop_strings_init(&stop, (struct zn_words){0}));
    assert_int_equal(zn_stop_strings_settled(&stop, "abcE", 4), 4);
}

static void empty_ones_are_refused(void **state)
{
    (void)state;
    static const char *const empty[] = {"x", ""};
    struct zn_stop_strings stop;
    FAILS(zn_stop_strings_init(&stop, (struct zn_words){empty, 2}), ZN_ERR_USAGE, "--stop", "empty");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_of_them_counts),
        cmocka_unit_test(what_may_become_one_is_held_back),
        cmocka_unit_test(empty_ones_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
