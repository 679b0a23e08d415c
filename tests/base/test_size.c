/* Sizes as text and checked arithmetic. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/size.h"

static void sizes_are_read_as_people_write_them(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t n_bytes;
    } good[] = {
        {"0", 0},
        {"1048576", 1048576},
        {"512MiB", 512 * ZN_MIB},
        {"4GiB", 4 * ZN_GIB},
        {"1GB", 1000000000},
        {"1gb", 1000000000},
        {"1.5KiB", 1536},
        {"3K", 3 * ZN_KIB},
        {"2T", 2048 * ZN_GIB},
        {"7B", 7},
        {"9007199254740993", 9007199254740993}, /* not a double */
        {"9223372036854775807", INT64_MAX},
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        size_t n_bytes = 1;
        assert_int_equal(zn_size_parse(good[i].text, "--memory-limit", &n_bytes), ZN_OK);
        assert_int_equal(n_bytes, good[i].n_bytes);
    }
}

static void what_is_no_size_is_refused_with_the_option(void **state)
{
    (void)state;
    static const char *const bad[] = {"",     "GiB",   "-1",  "+1",  "1 GiB", "4GiBs", "1..5K", "nan",
                                      "inf", "0x10",  "0x1B", "1e30", "9223372036854775808",
                                      "8388608TiB", "4GiB,"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        size_t n_bytes = 77;
        assert_int_equal(zn_size_parse(bad[i], "--memory-limit", &n_bytes), ZN_ERR_USAGE);
        assert_int_equal(n_bytes, 77);
        assert_non_null(strstr(zn_error_message(), "--memory-limit"));
        assert_non_null(strstr(zn_error_message(), bad[i]));
    }
}

static void sizes_are_written_in_binary_units(void **state)
{
    (void)state;
    char text[ZN_SIZE_TEXT];
    assert_string_equal(zn_size_text(0, text), "0 B");
    assert_string_equal(zn_size_text(1023, text), "1023 B");
    assert_string_equal(zn_size_text(1024, text), "1.00 KiB");
    assert_string_equal(zn_size_text(3 * ZN_GIB / 2, text), "1.50 GiB");
    assert_string_equal(zn_size_text(SIZE_MAX, text), "16.00 EiB");
}

static void overflow_is_seen(void **state)
{
    (void)state;
    size_t size;
    int64_t count;
    assert_true(zn_mul_size(1u << 31, 1u << 31, &size) && size == (size_t)1 << 62);
    assert_false(zn_mul_size((size_t)1 << 32, (size_t)1 << 32, &size));
    assert_true(zn_add_size(SIZE_MAX, 0, &size) && size == SIZE_MAX);
    assert_false(zn_add_size(SIZE_MAX, 1, &size));
    assert_true(zn_mul_count(INT64_MAX, 1, &count) && count == INT64_MAX);
    assert_false(zn_mul_count(INT64_MAX, 2, &count));
    assert_false(zn_mul_count(INT64_MIN, -1, &count));
}

static void rounding_up_keeps_multiples(void **state)
{
    (void)state;
    assert_int_equal(zn_round_up(0, 4096), 0);
    assert_int_equal(zn_round_up(1, 4096), 4096);
    assert_int_equal(zn_round_up(4096, 4096), 4096);
    assert_int_equal(zn_round_up(10, 3), 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_read_as_people_write_them),
        cmocka_unit_test(what_is_no_size_is_refused_with_the_option),
        cmocka_unit_test(sizes_are_written_in_binary_units),
        cmocka_unit_test(overflow_is_seen),
        cmocka_unit_test(rounding_up_keeps_multiples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
