/* Tickets: a use of an event means the same before and after the event is used again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/stream.h"

enum { PATIENCE = 60 /* seconds: who waits for ever ends the program */ };

static zn_event event;
static zn_clock now;

static int begin(void **state)
{
    (void)state;
    alarm(PATIENCE);
    zn_clock_init_real(&now);
    zn_event_init(&event);
    return 0;
}

static int end(void **state)
{
    (void)state;
    zn_event_fini(&event);
    alarm(0);
    return 0;
}

static void a_use_that_has_ended_stays_so(void **state)
{
    (void)state;
    struct zn_ticket first = zn_event_ticket(&event);
    assert_false(zn_ticket_poll(first, 0));
    zn_event_set(&event, ZN_OK, NULL, 0);
    zn_event_reset(&event);
    assert_true(zn_ticket_poll(first, 0));
    assert_int_equal(zn_ticket_wait(first, &now), ZN_OK);
    assert_false(zn_event_poll(&event, 0));
}

static void who_ends_a_use_does_not_end_the_next(void **state)
{
    (void)state;
    struct zn_ticket first = zn_event_ticket(&event);
    zn_event_reset(&event);
    struct zn_ticket second = zn_event_ticket(&event);
    zn_ticket_set(first, ZN_OK, NULL, 0);
    assert_true(zn_ticket_poll(first, 0));
    assert_false(zn_ticket_poll(second, 0));
    assert_false(zn_event_poll(&event, 0));
    zn_ticket_set(second, ZN_OK, NULL, 0);
    assert_true(zn_event_poll(&event, 0));
}

/* Some prepare an event for what is issued later, which begins a use of its own. */
static void a_use_that_nobody_ends_ends_with_the_next(void **state)
{
    (void)state;
    struct zn_ticket first = zn_event_ticket(&event);
    zn_event_reset(&event);
    zn_event_set(&event, ZN_OK, NULL, 0);
    assert_int_equal(zn_ticket_wait(first, &now), ZN_OK);
}

static void a_failure_stays_with_its_use(void **state)
{
    (void)state;
    struct zn_ticket first = zn_event_ticket(&event);
    zn_event_set(&event, ZN_ERR_IO, "disk e is gone", 0);
    zn_event_reset(&event);
    zn_event_set(&event, ZN_OK, NULL, 0);
    assert_int_equal(zn_event_wait(&event, &now), ZN_OK);
    zn_fail(ZN_ERR_USAGE, "something else");
    assert_int_equal(zn_ticket_wait(first, &now), ZN_ERR_IO);
    assert_string_equal(zn_error_message(), "disk e is gone");
}

/* The second use was not submitted and fails at once; the first is still under way. */
static void a_use_that_ends_late_hides_no_failure(void **state)
{
    (void)state;
    struct zn_ticket first = zn_event_ticket(&event);
    zn_event_reset(&event);
    zn_event_fail(&event, zn_fail(ZN_ERR_MEMORY, "no memory for a request"));
    zn_ticket_set(first, ZN_OK, NULL, 0);
    zn_fail(ZN_ERR_USAGE, "something else");
    assert_int_equal(zn_event_wait(&event, &now), ZN_ERR_MEMORY);
    assert_string_equal(zn_error_message(), "no memory for a request");
}

static void no_event_is_done(void **state)
{
    (void)state;
    struct zn_ticket none = zn_event_ticket(NULL);
    assert_true(zn_ticket_poll(none, 1e6));
    assert_int_equal(zn_ticket_wait(none, &now), ZN_OK);
    zn_ticket_set(none, ZN_ERR_IO, "nobody hears of it", 0);
}

/* A stream that stands still until the gate is set. */
static zn_stream *stand_still(zn_event *gate)
{
    zn_stream *stream;
    zn_event_init(gate);
    assert_int_equal(zn_stream_create_thread(&now, &stream), ZN_OK);
    assert_int_equal(zn_stream_submit(stream, &(struct zn_task){.after = {gate}}), ZN_OK);
    return stream;
}

static void a_task_waits_for_the_use_it_was_submitted_with(void **state)
{
    (void)state;
    zn_event gate;
    zn_stream *stream = stand_still(&gate);
    zn_event_set(&event, ZN_OK, NULL, 0);
    assert_int_equal(zn_stream_submit(stream, &(struct zn_task){.after = {&event}}), ZN_OK);
    zn_event_reset(&event); /* nobody will set it again */
    zn_event_set(&gate, ZN_OK, NULL, 0);
    assert_int_equal(zn_stream_synchronize(stream), ZN_OK);
    zn_stream_destroy(stream);
    zn_event_fini(&gate);
}

static void a_task_ends_the_use_it_was_submitted_with(void **state)
{
    (void)state;
    zn_event gate;
    zn_stream *stream = stand_still(&gate);
    assert_int_equal(zn_stream_submit(stream, &(struct zn_task){.done = &event}), ZN_OK);
    struct zn_ticket submitted = zn_event_ticket(&event);
    zn_event_reset(&event);
    zn_event_set(&gate, ZN_OK, NULL, 0);
    assert_int_equal(zn_stream_synchronize(stream), ZN_OK);
    assert_true(zn_ticket_poll(submitted, 0));
    assert_false(zn_event_poll(&event, 0));
    zn_stream_destroy(stream);
    zn_event_fini(&gate);
}

enum { ROUNDS = 2000 };

static int written, n_behind;

static zn_status write_next(void *arg)
{
    (void)arg;
    if (written % 64 == 0)
        usleep(100);
    written++;
    return ZN_OK;
}

static zn_status read_round(void *arg)
{
    n_behind += written != *(const int *)arg;
    return ZN_OK;
}

/* The engine's pattern: both streams are ordered by two events, which are used again before either stream has come to them. */
static void two_streams_go_on_with_events_that_are_used_again(void **state)
{
    (void)state;
    static int round[ROUNDS];
    zn_event taken;
    zn_stream *writer, *reader;
    zn_event_init(&taken);
    zn_event_set(&taken, ZN_OK, NULL, 0);
    assert_int_equal(zn_stream_create_thread(&now, &writer), ZN_OK);
    assert_int_equal(zn_stream_create_thread(&now, &reader), ZN_OK);
    for (int i = 0; i < ROUNDS; i++) {
        round[i] = i + 1;
        zn_event_reset(&event);
        assert_int_equal(zn_stream_submit(writer, &(struct zn_task){.run = write_next, .after = {&taken}, .done = &event}),
                         ZN_OK);
        zn_event_reset(&taken);
        assert_int_equal(zn_stream_submit(reader, &(struct zn_task){.run = read_round,
                                                                    .arg = &round[i],
                                                                    .after = {&event},
                                                                    .done = &taken}),
                         ZN_OK);
    }
    assert_int_equal(zn_stream_synchronize(reader), ZN_OK);
    assert_int_equal(zn_stream_synchronize(writer), ZN_OK);
    assert_int_equal(written, ROUNDS);
    assert_int_equal(n_behind, 0);
    zn_stream_destroy(writer);
    zn_stream_destroy(reader);
    zn_event_fini(&taken);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, begin, end)
    const struct CMUnitTest tests[] = {
        CASE(a_use_that_has_ended_stays_so),
        CASE(who_ends_a_use_does_not_end_the_next),
        CASE(a_use_that_nobody_ends_ends_with_the_next),
        CASE(a_failure_stays_with_its_use),
        CASE(a_use_that_ends_late_hides_no_failure),
        CASE(no_event_is_done),
        CASE(a_task_waits_for_the_use_it_was_submitted_with),
        CASE(a_task_ends_the_use_it_was_submitted_with),
        CASE(two_streams_go_on_with_events_that_are_used_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
