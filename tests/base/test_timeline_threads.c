/* Time lines: what streams and threads note, what is measured, and the file that Perfetto opens. */
#include "base/stream.h"
#include "trace_file.h"

#include <math.h>
#include <pthread.h>

static zn_timeline *started(bool keeps_spans)
{
    zn_timeline *t;
    OK(zn_timeline_create(keeps_spans, &t));
    zn_timeline_start(t, 0);
    return t;
}

static void note(zn_timeline *t, zn_track track, const char *label, double begin, double end)
{
    zn_timeline_note(&(struct zn_mark){.timeline = t, .track = track, .label = label, .unit = -1}, begin, end);
}

static double measure(zn_timeline *t, unsigned working, unsigned idle)
{
    return zn_timeline_measure(t, working, idle, 0, 100);
}

static const unsigned compute = ZN_TRACK_BIT(ZN_TRACK_COMPUTE), comm = ZN_TRACK_BIT(ZN_TRACK_COMM),
                      nvme = ZN_TRACK_BIT(ZN_TRACK_NVME);

/* In any order, touching and overlapping, against a count of small steps. */
static void times_are_measured_whatever_their_order(void **state)
{
    (void)state;
    enum { N = 1000, PARTS = 4 };
    bool works[3][N * PARTS] = {0};
    const zn_track tracks[] = {ZN_TRACK_COMPUTE, ZN_TRACK_COMM, ZN_TRACK_NVME};
    zn_timeline *t = started(false);
    unsigned seed = 1;
    for (int i = 0; i < 300; i++) {
        seed = seed * 1103515245u + 12345u;
        int which = (int)(seed >> 16) % 3, begin = (int)(seed >> 8) % (N * PARTS - 40), length = 1 + (int)(seed >> 20) % 39;
        for (int k = begin; k < begin + length; k++)
            works[which][k] = true;
        note(t, tracks[which], "x", (double)begin / PARTS, (double)(begin + length) / PARTS);
    }
    double busy = 0, exposed = 0, either = 0;
    for (int k = 0; k < 100 * PARTS; k++) {
        busy += works[1][k] ? 1.0 / PARTS : 0;
        exposed += works[1][k] && !works[0][k] ? 1.0 / PARTS : 0;
        either += works[1][k] || works[2][k] ? 1.0 / PARTS : 0;
    }
    assert_true(busy > exposed && exposed > 0);
    assert_true(fabs(measure(t, comm, 0) - busy) < 1e-9);
    assert_true(fabs(measure(t, comm, compute) - exposed) < 1e-9);
    assert_true(fabs(measure(t, comm | nvme, 0) - either) < 1e-9);
    zn_timeline_destroy(t);
}

static void what_is_over_is_forgotten(void **state)
{
    (void)state;
    zn_timeline *t;
    OK(zn_timeline_create(true, &t));
    note(t, ZN_TRACK_COMM, "before it was started", 0, 1);
    assert_true(measure(t, comm, 0) == 0);
    zn_timeline_start(t, 0);
    note(t, ZN_TRACK_COMM, "a", 1, 3);
    note(t, ZN_TRACK_COMM, "b", 4, 6);
    note(t, ZN_TRACK_COMM, "nothing", 7, 7);
    zn_timeline_start(t, 5);
    assert_true(measure(t, comm, 0) == 2); /* b reaches into the next step */
    zn_timeline_stop(t);
    note(t, ZN_TRACK_COMM, "c", 8, 9);
    assert_true(measure(t, comm, 0) == 2);
    note(NULL, ZN_TRACK_COMM, "d", 8, 9);
    zn_timeline_destroy(t);
    zn_timeline_destroy(NULL);
}

static void a_virtual_stream_notes_when_its_tasks_work(void **state)
{
    (void)state;
    zn_clock clock;
    zn_stream *stream;
    zn_event after;
    zn_timeline *t = started(false);
    struct zn_mark mark = {.timeline = t, .track = ZN_TRACK_NVME, .label = "task"};
    zn_clock_init_virtual(&clock);
    zn_event_init(&after);
    zn_event_set(&after, ZN_OK, NULL, 5);
    OK(zn_stream_create_virtual(&clock, &stream));
    OK(zn_stream_submit(stream, &(struct zn_task){.seconds = 2, .mark = mark}));
    OK(zn_stream_submit(stream, &(struct zn_task){.seconds = 3, .after = {&after}, .mark = mark}));
    OK(zn_stream_submit(stream, &(struct zn_task){.seconds = 1})); /* without a mark */
    assert_true(zn_timeline_measure(t, nvme, 0, 0, 2) == 2);
    assert_true(zn_timeline_measure(t, nvme, 0, 2, 5) == 0); /* it waits */
    assert_true(zn_timeline_measure(t, nvme, 0, 5, 9) == 3);
    zn_stream_destroy(stream);
    zn_event_fini(&after);
    zn_timeline_destroy(t);
}

static zn_status rest(void *arg)
{
    usleep(*(unsigned *)arg);
    return ZN_OK;
}

/* Two workers beside each other, and a third thread that only notes. */
static void threads_note_side_by_side(void **state)
{
    (void)state;
    enum { N = 20 };
    zn_clock clock;
    zn_stream *streams[2];
    unsigned wait = 500;
    zn_timeline *t = started(true);
    const char *path = in_folder("trace.json");
    zn_clock_init_real(&clock);
    double begin = zn_clock_now(&clock);
    for (int k = 0; k < 2; k++)
        OK(zn_stream_create_thread(&clock, &streams[k]));
    for (int i = 0; i < N; i++)
        for (int k = 0; k < 2; k++)
            OK(zn_stream_submit(streams[k], &(struct zn_task){.run = rest,
                                                              .arg = &wait,
                                                              .mark = {t, ZN_TRACK_NVME, k ? "write" : "read", -1, 4096}}));
    for (int k = 0; k < 2; k++) {
        OK(zn_stream_synchronize(streams[k]));
        zn_stream_destroy(streams[k]);
    }
    double end = zn_clock_now(&clock);
    OK(zn_timeline_write(t, path, "threads", begin, end));
    assert_int_equal(trace_count(path, end - begin, "nvme", "read, 4.00 KiB"), N);
    assert_int_equal(trace_count(path, end - begin, "nvme", "write"), N);
    zn_timeline_destroy(t);
}

/* Work from before and after is cut at the ends of the step; strange names do no harm. */
static void the_file_holds_the_step_alone(void **state)
{
    (void)state;
    zn_timeline *t = started(true);
    const char *path = in_folder("trace.json");
    note(t, ZN_TRACK_COMPUTE, "gemm", 0, 1);
    note(t, ZN_TRACK_COMPUTE, "adam", 1, 3);
    note(t, ZN_TRACK_COMPUTE, "gemm", 3, 5);
    zn_timeline_note(&(struct zn_mark){t, ZN_TRACK_COMM, "gather parameters", 17, 2048}, 1.5, 9);
    note(t, ZN_TRACK_COMPUTE, "gemm", 6, 7);
    OK(zn_timeline_write(t, path, "a \"quoted\"\nname", 2, 4));
    assert_int_equal(trace_count(path, 2, NULL, NULL), 3);
    assert_int_equal(trace_count(path, 2, "compute", "gemm"), 1);
    assert_int_equal(trace_count(path, 2, "communication", "gather parameters, unit 17, 2.00 KiB"), 1);
    zn_timeline_destroy(t);
}

static void a_file_that_cannot_be_written_is_one_line(void **state)
{
    (void)state;
    zn_timeline *t = started(true);
    FAILS(zn_timeline_write(t, "/nowhere/trace.json", "x", 0, 1), ZN_ERR_IO, "/nowhere/trace.json", "cannot write");
    for (int i = 0; i < 100000; i++)
        note(t, ZN_TRACK_COMPUTE, "gemm", i, i + 1);
    FAILS(zn_timeline_write(t, "/dev/full", "x", 0, 1e6), ZN_ERR_IO, "/dev/full", "No space left");
    assert_int_equal(access("/dev/full", F_OK), 0);
    zn_timeline_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_are_measured_whatever_their_order),
        cmocka_unit_test(what_is_over_is_forgotten),
        cmocka_unit_test(a_virtual_stream_notes_when_its_tasks_work),
        cmocka_unit_test(threads_note_side_by_side),
        cmocka_unit_test(the_file_holds_the_step_alone),
        cmocka_unit_test(a_file_that_cannot_be_written_is_one_line),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
