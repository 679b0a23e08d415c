/* The log of requests: one file a rank, lines whole and numbered by thread, none where nobody asks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"
#include "base/request_log.h"

enum { N_LINES = 500 };

static char folder[] = "/tmp/zinc-requests-XXXXXX";
static char prefix[64];

static int set_up(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(prefix, sizeof prefix, "%s/log", folder);
    return setenv("ZINC_REQUEST_LOG", prefix, 1);
}

static int tear_down(void **state)
{
    (void)state;
    unsetenv("ZINC_REQUEST_LOG");
    return rmdir(folder);
}

/* The file of a rank, which is removed; the caller frees it. */
static char *text_of(int rank)
{
    char path[80], *text;
    size_t n_bytes;
    snprintf(path, sizeof path, "%s.%d", prefix, rank);
    assert_int_equal(zn_file_read(path, 1 << 20, &text, &n_bytes), ZN_OK);
    assert_int_equal(unlink(path), 0);
    return text;
}

static void lines_are_there_at_once(void **state)
{
    (void)state;
    zn_request_log *log;
    assert_int_equal(zn_request_log_create(3, &log), ZN_OK);
    assert_int_equal(zn_request_log_add(log, "read at %d: %d", 4096, 8192), ZN_OK);
    assert_int_equal(zn_request_log_add(log, "exchange: %d", 8), ZN_OK);
    char *text = text_of(3);
    assert_string_equal(text, "0 read at 4096: 8192\n0 exchange: 8\n");
    free(text);
    zn_request_log_destroy(log);
}

static void *add_lines(void *arg)
{
    for (int i = 0; i < N_LINES; i++)
        if (zn_request_log_add(arg, "line %d", i) != ZN_OK)
            return arg;
    return NULL;
}

/* Each thread's lines come whole and in their order under its number. */
static void threads_are_told_apart(void **state)
{
    (void)state;
    zn_request_log *log;
    pthread_t thread;
    void *failed;
    assert_int_equal(zn_request_log_create(0, &log), ZN_OK);
    assert_int_equal(pthread_create(&thread, NULL, add_lines, log), 0);
    assert_null(add_lines(log));
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_null(failed);
    zn_request_log_destroy(log);
    char *text = text_of(0), *at = text;
    int next[2] = {0};
    for (int number, line, n; sscanf(at, "%d line %d\n%n", &number, &line, &n) == 2; at += n) {
        assert_in_range(number, 0, 1);
        assert_int_equal(line, next[number]++);
    }
    assert_int_equal(*at, 0);
    assert_int_equal(next[0], N_LINES);
    assert_int_equal(next[1], N_LINES);
    free(text);
}

static void nobody_asks(void **state)
{
    (void)state;
    zn_request_log *log;
    unsetenv("ZINC_REQUEST_LOG");
    assert_int_equal(zn_request_log_create(0, &log), ZN_OK);
    assert_null(log);
    assert_int_equal(zn_request_log_add(log, "exchange: %d", 8), ZN_OK);
    zn_request_log_destroy(log);
}

static void a_file_that_cannot_be_written_fails(void **state)
{
    (void)state;
    zn_request_log *log;
    setenv("ZINC_REQUEST_LOG", "/nowhere/log", 1);
    assert_int_equal(zn_request_log_create(1, &log), ZN_ERR_IO);
    assert_null(log);
    assert_string_equal(zn_error_message(), "/nowhere/log.1: cannot write the log of requests: No such file or directory");
}

/* A disk that is full fails the request whose line does not come to it. */
static void a_line_that_cannot_be_written_fails(void **state)
{
    (void)state;
    zn_request_log *log;
    char path[80];
    snprintf(path, sizeof path, "%s.2", prefix);
    setenv("ZINC_REQUEST_LOG", prefix, 1);
    assert_int_equal(symlink("/dev/full", path), 0);
    assert_int_equal(zn_request_log_create(2, &log), ZN_OK);
    assert_int_equal(zn_request_log_add(log, "exchange: %d", 8), ZN_ERR_IO);
    zn_request_log_destroy(log);
    assert_int_equal(unlink(path), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_there_at_once),
        cmocka_unit_test(threads_are_told_apart),
        cmocka_unit_test(nobody_asks),
        cmocka_unit_test(a_file_that_cannot_be_written_fails),
        cmocka_unit_test(a_line_that_cannot_be_written_fails),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
