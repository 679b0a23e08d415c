/* Streams and events: order, failures and virtual time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/stream.h"

/* What tasks write down, in the order they ran. Guarded by the stream: one task at a time. */
struct journal {
    int n, entries[64];
};

struct note {
    struct journal *journal;
    int entry;
};

static zn_status write_note(void *arg)
{
    struct note *note = arg;
    note->journal->entries[note->journal->n++] = note->entry;
    return ZN_OK;
}

static zn_status write_note_late(void *arg)
{
    usleep(2000);
    return write_note(arg);
}

static zn_status fail_with_text(void *arg)
{
    return zn_fail(ZN_ERR_IO, "disk %s is gone", (const char *)arg);
}

static void check_order(zn_stream *stream)
{
    struct journal journal = {0};
    struct note notes[50];
    for (int i = 0; i < 50; i++) {
        notes[i] = (struct note){&journal, i};
        struct zn_task task = {.run = i == 0 ? write_note_late : write_note, .arg = &notes[i]};
        assert_int_equal(zn_stream_submit(stream, &task), ZN_OK);
    }
    assert_int_equal(zn_stream_synchronize(stream), ZN_OK);
    assert_int_equal(journal.n, 50);
    for (int i = 0; i < 50; i++)
        assert_int_equal(journal.entries[i], i);
    zn_stream_destroy(stream);
}

static void check_failure(zn_stream *stream, zn_clock *clock)
{
    struct journal journal = {0};
    struct note note = {&journal, 1};
    zn_event failed, after, independent;
    zn_event_init(&failed);
    zn_event_init(&after);
    zn_event_init(&independent);
    zn_stream_submit(stream, &(struct zn_task){.run = fail_with_text, .arg = "a", .done = &failed});
    zn_stream_submit(stream, &(struct zn_task){
                                 .run = write_note, .arg = &note, .after = {&failed}, .done = &after});
    assert_int_equal(journal.n, 0);
    zn_stream_submit(stream,
                     &(struct zn_task){.run = write_note, .arg = &note, .done = &independent});
    zn_fail(ZN_ERR_USAGE, "something else");
    assert_int_equal(zn_event_wait(&after, clock), ZN_ERR_IO);
    assert_string_equal(zn_error_message(), "disk a is gone");
    assert_int_equal(zn_event_wait(&independent, clock), ZN_OK);
    assert_int_equal(journal.n, 1);
    zn_fail(ZN_ERR_USAGE, "something else");
    assert_int_equal(zn_stream_synchronize(stream), ZN_ERR_IO);
    assert_string_equal(zn_error_message(), "disk a is gone");
    zn_stream_destroy(stream);
    zn_event_fini(&failed);
    zn_event_fini(&after);
    zn_event_fini(&independent);
}

static void inline_runs_in_order(void **state)
{
    (void)state;
    zn_clock clock;
    zn_stream *stream;
    zn_clock_init_real(&clock);
    assert_int_equal(zn_stream_create_inline(&clock, &stream), ZN_OK);
    check_order(stream);
}

static void thread_runs_in_order(void **state)
{
    (void)state;
    zn_clock clock;
    zn_stream *stream;
    zn_clock_init_real(&clock);
    assert_int_equal(zn_stream_create_thread(&clock, &stream), ZN_OK);
    check_order(stream);
}

static void inline_failed_dependency_fails_the_task(void **state)
{
    (void)state;
    zn_clock clock;
    zn_stream *stream;
    zn_clock_init_real(&clock);
    assert_int_equal(zn_stream_create_inline(&clock, &stream), ZN_OK);
    check_failure(stream, &clock);
}

static void thread_failed_dependency_fails_the_task(void **state)
{
    (void)state;
    zn_clock clock;
    zn_stream *stream, *other;
    zn_event never;
    struct journal journal = {0};
    struct note note = {&journal, 1};
    zn_clock_init_real(&clock);
    zn_event_init(&never);
    assert_int_equal(zn_stream_create_thread(&clock, &stream), ZN_OK);
    assert_int_equal(zn_stream_create_thread(&clock, &other), ZN_OK);
    /* The failure crosses from one worker to the other. */
    zn_stream_submit(other, &(struct zn_task){.run = write_note, .arg = &note, .after = {&never}});
    zn_stream_submit(stream, &(struct zn_task){.run = fail_with_text, .arg = "b", .done = &never});
    assert_int_equal(zn_stream_synchronize(other), ZN_ERR_IO);
    assert_string_equal(zn_error_message(), "disk b is gone");
    assert_int_equal(journal.n, 0);
    zn_stream_destroy(other);
    zn_stream_destroy(stream);
    zn_event_fini(&never);
}

static void destroy_runs_what_is_queued(void **state)
{
    (void)state;
    zn_clock clock;
    zn_stream *stream;
    struct journal journal = {0};
    struct note notes[3] = {{&journal, 0}, {&journal, 1}, {&journal, 2}};
    zn_clock_init_real(&clock);
    assert_int_equal(zn_stream_create_thread(&clock, &stream), ZN_OK);
    for (int i = 0; i < 3; i++)
        zn_stream_submit(stream, &(struct zn_task){.run = write_note_late, .arg = &notes[i]});
    zn_stream_destroy(stream);
    assert_int_equal(journal.n, 3);
    zn_stream_destroy(NULL);
}

static zn_status set_event(void *arg)
{
    usleep(2000);
    zn_event_set(arg, ZN_OK, NULL, 0);
    return ZN_OK;
}

static void polling_sees_an_event_or_gives_up(void **state)
{
    (void)state;
    zn_clock clock;
    zn_stream *stream;
    zn_event event;
    zn_clock_init_real(&clock);
    zn_event_init(&event);
    assert_false(zn_event_poll(&event, 0));
    double start = zn_clock_now(&clock);
    assert_false(zn_event_poll(&event, 0.01));
    assert_true(zn_clock_now(&clock) - start >= 0.01);
    assert_int_equal(zn_stream_create_thread(&clock, &stream), ZN_OK);
    assert_int_equal(zn_stream_submit(stream, &(struct zn_task){.run = set_event, .arg = &event}), ZN_OK);
    assert_true(zn_event_poll(&event, 1e6));
    assert_true(zn_event_poll(&event, 0));
    zn_stream_destroy(stream);
    zn_event_fini(&event);
}

static void an_event_can_be_used_again(void **state)
{
    (void)state;
    zn_clock clock;
    zn_event event;
    zn_clock_init_virtual(&clock);
    zn_event_init(&event);
    zn_event_set(&event, ZN_OK, NULL, 2);
    assert_int_equal(zn_event_wait(&event, &clock), ZN_OK);
    assert_true(zn_clock_now(&clock) == 2);
    zn_event_reset(&event);
    zn_event_set(&event, ZN_ERR_NUMERIC, "not finite", 1);
    assert_int_equal(zn_event_wait(&event, &clock), ZN_ERR_NUMERIC);
    assert_string_equal(zn_error_message(), "not finite");
    assert_true(zn_clock_now(&clock) == 2); /* time does not go back */
    zn_event_fini(&event);
}

struct world {
    zn_clock clock;
    zn_stream *compute, *copy;
    zn_event computed, copied;
};

static int begin_world(void **state)
{
    static struct world w;
    zn_clock_init_virtual(&w.clock);
    assert_int_equal(zn_stream_create_virtual(&w.clock, &w.compute), ZN_OK);
    assert_int_equal(zn_stream_create_virtual(&w.clock, &w.copy), ZN_OK);
    zn_event_init(&w.computed);
    zn_event_init(&w.copied);
    *state = &w;
    return 0;
}

static int end_world(void **state)
{
    struct world *w = *state;
    zn_stream_destroy(w->compute);
    zn_stream_destroy(w->copy);
    zn_event_fini(&w->computed);
    zn_event_fini(&w->copied);
    return 0;
}

static void virtual_tasks_are_not_run(void **state)
{
    struct world *w = *state;
    struct zn_task task = {.run = fail_with_text, .arg = "c", .seconds = 1};
    assert_int_equal(zn_stream_submit(w->compute, &task), ZN_OK);
    assert_int_equal(zn_stream_synchronize(w->compute), ZN_OK);
}

static void virtual_time_adds_up_on_one_stream(void **state)
{
    struct world *w = *state;
    for (int i = 0; i < 4; i++)
        zn_stream_submit(w->compute, &(struct zn_task){.seconds = 0.5});
    assert_true(zn_clock_now(&w->clock) == 0);
    assert_int_equal(zn_stream_synchronize(w->compute), ZN_OK);
    assert_true(zn_clock_now(&w->clock) == 2);
}

static void overlap_of_two_virtual_streams_takes_the_longer(void **state)
{
    struct world *w = *state;
    zn_stream_submit(w->compute, &(struct zn_task){.seconds = 3, .done = &w->computed});
    zn_stream_submit(w->copy, &(struct zn_task){.seconds = 2, .done = &w->copied});
    assert_int_equal(zn_event_wait(&w->copied, &w->clock), ZN_OK);
    assert_true(zn_clock_now(&w->clock) == 2);
    assert_int_equal(zn_event_wait(&w->computed, &w->clock), ZN_OK);
    assert_true(zn_clock_now(&w->clock) == 3);
}

static void a_dependency_puts_virtual_tasks_in_a_row(void **state)
{
    struct world *w = *state;
    zn_stream_submit(w->copy, &(struct zn_task){.seconds = 2, .done = &w->copied});
    zn_stream_submit(w->compute, &(struct zn_task){
                                     .seconds = 3, .after = {&w->copied}, .done = &w->computed});
    assert_true(zn_clock_now(&w->clock) == 0); /* submitting does not wait */
    assert_int_equal(zn_event_wait(&w->computed, &w->clock), ZN_OK);
    assert_true(zn_clock_now(&w->clock) == 5);
}

static void a_virtual_task_begins_when_it_is_submitted(void **state)
{
    struct world *w = *state;
    zn_clock_advance(&w->clock, 10);
    zn_stream_submit(w->compute, &(struct zn_task){.seconds = 1});
    assert_int_equal(zn_stream_synchronize(w->compute), ZN_OK);
    assert_true(zn_clock_now(&w->clock) == 11);
}

static void virtual_failed_dependency_fails_the_task_in_no_time(void **state)
{
    struct world *w = *state;
    zn_event_set(&w->copied, ZN_ERR_IO, "disk d is gone", 4);
    struct zn_task task = {.seconds = 3, .after = {&w->copied}, .done = &w->computed};
    assert_int_equal(zn_stream_submit(w->compute, &task), ZN_ERR_IO);
    assert_int_equal(zn_event_wait(&w->computed, &w->clock), ZN_ERR_IO);
    assert_string_equal(zn_error_message(), "disk d is gone");
    assert_true(zn_clock_now(&w->clock) < 3);
    assert_int_equal(zn_stream_synchronize(w->compute), ZN_ERR_IO);
}

/* Work of both is the time of both: beside each other they take as long as one after the other. Who waits for the other
 * waits no longer than it works. */
static void virtual_streams_that_share_cores_take_turns(void **state)
{
    struct world *w = *state;
    zn_stream_share(w->copy, w->compute, 0.5);
    assert_int_equal(zn_stream_submit(w->compute, &(struct zn_task){.seconds = 3, .done = &w->computed}), ZN_OK);
    assert_int_equal(zn_stream_submit(w->copy, &(struct zn_task){.seconds = 4, .done = &w->copied}), ZN_OK);
    assert_int_equal(zn_stream_submit(w->compute, &(struct zn_task){.seconds = 1}), ZN_OK);
    assert_int_equal(zn_stream_synchronize(w->compute), ZN_OK);
    assert_true(zn_clock_now(&w->clock) == 3 + 0.5 * 4 + 1);
    assert_int_equal(zn_event_wait(&w->copied, &w->clock), ZN_OK);
    assert_true(zn_clock_now(&w->clock) == 6);
    /* The other comes after compute, and compute waits for it: its time is there once. */
    zn_event_reset(&w->computed);
    zn_event_reset(&w->copied);
    zn_stream_share(w->copy, w->compute, 1);
    assert_int_equal(zn_stream_submit(w->compute, &(struct zn_task){.seconds = 1, .done = &w->computed}), ZN_OK);
    assert_int_equal(zn_stream_submit(w->copy, &(struct zn_task){.seconds = 2, .after = {&w->computed}, .done = &w->copied}), ZN_OK);
    assert_int_equal(zn_stream_submit(w->compute, &(struct zn_task){.after = {&w->copied}}), ZN_OK);
    assert_int_equal(zn_stream_synchronize(w->compute), ZN_OK);
    assert_true(zn_clock_now(&w->clock) == 9);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, begin_world, end_world)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inline_runs_in_order),
        cmocka_unit_test(thread_runs_in_order),
        cmocka_unit_test(inline_failed_dependency_fails_the_task),
        cmocka_unit_test(thread_failed_dependency_fails_the_task),
        cmocka_unit_test(destroy_runs_what_is_queued),
        cmocka_unit_test(polling_sees_an_event_or_gives_up),
        cmocka_unit_test(an_event_can_be_used_again),
        CASE(virtual_tasks_are_not_run),
        CASE(virtual_time_adds_up_on_one_stream),
        CASE(overlap_of_two_virtual_streams_takes_the_longer),
        CASE(a_dependency_puts_virtual_tasks_in_a_row),
        CASE(a_virtual_task_begins_when_it_is_submitted),
        CASE(virtual_failed_dependency_fails_the_task_in_no_time),
        CASE(virtual_streams_that_share_cores_take_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
