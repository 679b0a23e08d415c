/* The text of the last failure. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"

static void fail_records_the_text_and_returns_the_code(void **state)
{
    (void)state;
    assert_int_equal(zn_fail(ZN_ERR_IO, "%s: line %d", "a.txt", 3), ZN_ERR_IO);
    assert_string_equal(zn_error_message(), "a.txt: line 3");
}

static void context_goes_before_the_text(void **state)
{
    (void)state;
    zn_fail(ZN_ERR_IO, "no such file");
    assert_int_equal(zn_add_context(ZN_ERR_INPUT, "reading %s", "model"), ZN_ERR_INPUT);
    assert_string_equal(zn_error_message(), "reading model: no such file");
    zn_add_context(ZN_ERR_INPUT, "rank %d", 2);
    assert_string_equal(zn_error_message(), "rank 2: reading model: no such file");
}

static void the_old_text_may_be_part_of_the_new(void **state)
{
    (void)state;
    zn_fail(ZN_ERR_IO, "cause");
    zn_fail(ZN_ERR_IO, "first %s then %s", zn_error_message(), zn_error_message());
    assert_string_equal(zn_error_message(), "first cause then cause");
    zn_fail_text(ZN_ERR_IO, zn_error_message() + 6);
    assert_string_equal(zn_error_message(), "cause then cause");
}

static void long_texts_are_cut_not_lost(void **state)
{
    (void)state;
    char text[5000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    zn_fail(ZN_ERR_IO, "%s", text);
    size_t n = strlen(zn_error_message());
    assert_true(n > 1000 && n < sizeof text);
    zn_add_context(ZN_ERR_IO, "context");
    assert_int_equal(strncmp(zn_error_message(), "context: xxx", 12), 0);
    assert_int_equal(strlen(zn_error_message()), n);
    zn_add_context(ZN_ERR_IO, "%s", text);
    assert_int_equal(strlen(zn_error_message()), n);
}

static void *fail_there(void *arg)
{
    zn_fail(ZN_ERR_IO, "of another thread");
    return arg;
}

static void threads_have_their_own_text(void **state)
{
    (void)state;
    pthread_t thread;
    zn_fail(ZN_ERR_IO, "of this thread");
    assert_int_equal(pthread_create(&thread, NULL, fail_there, NULL), 0);
    pthread_join(thread, NULL);
    assert_string_equal(zn_error_message(), "of this thread");
}

static void every_code_has_a_text(void **state)
{
    (void)state;
    assert_string_equal(zn_status_text(ZN_OK), "ok");
    assert_string_equal(zn_status_text(ZN_ERR_MEMORY), "out of memory");
    assert_string_equal(zn_status_text((zn_status)99), "unknown status");
}

static zn_status tries(zn_status status, int *reached)
{
    ZN_TRY(status);
    *reached = 1;
    return ZN_OK;
}

static void try_returns_only_failures(void **state)
{
    (void)state;
    int reached = 0;
    assert_int_equal(tries(ZN_ERR_NUMERIC, &reached), ZN_ERR_NUMERIC);
    assert_int_equal(reached, 0);
    assert_int_equal(tries(ZN_OK, &reached), ZN_OK);
    assert_int_equal(reached, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fail_records_the_text_and_returns_the_code),
        cmocka_unit_test(context_goes_before_the_text),
        cmocka_unit_test(the_old_text_may_be_part_of_the_new),
        cmocka_unit_test(long_texts_are_cut_not_lost),
        cmocka_unit_test(threads_have_their_own_text),
        cmocka_unit_test(every_code_has_a_text),
        cmocka_unit_test(try_returns_only_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
