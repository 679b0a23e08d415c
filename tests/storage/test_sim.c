/* The simulated storage: virtual time by rate and latency, one device for all requests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "storage/storage.h"

/* 4 GiB/s and 2 GiB/s, so that all times below are exact in binary. */
static const struct zn_sim_storage device = {
    .n_bytes = (uint64_t)1 << 50, .read_bytes = 4294967296.0, .write_bytes = 2147483648.0, .latency = 0x1p-10};
static const size_t gib = (size_t)1 << 30;

struct world {
    zn_clock clock;
    zn_storage *storage;
    zn_event done[4], after;
};

static void begin(struct world *w)
{
    zn_clock_init_virtual(&w->clock);
    assert_int_equal(zn_storage_create_sim(&w->clock, &device, &w->storage), ZN_OK);
    for (int i = 0; i < 4; i++)
        zn_event_init(&w->done[i]);
    zn_event_init(&w->after);
}

static void end(struct world *w)
{
    for (int i = 0; i < 4; i++)
        zn_event_fini(&w->done[i]);
    zn_event_fini(&w->after);
    zn_storage_destroy(w->storage);
}

/* When the request is done, the latency not counted. */
static double moved_at(struct world *w, int i)
{
    zn_clock still = w->clock;
    assert_int_equal(zn_event_wait(&w->done[i], &still), ZN_OK);
    return w->done[i].time - device.latency;
}

static void requests_share_the_device(void **state)
{
    (void)state;
    struct world w;
    begin(&w);
    assert_int_equal(zn_storage_read(w.storage, 0, zn_extent_of(NULL, 2 * gib), 2 * gib, NULL, &w.done[0]), ZN_OK);
    assert_int_equal(zn_storage_write(w.storage, gib, zn_extent_of(NULL, gib), gib, NULL, &w.done[1]), ZN_OK);
    assert_true(zn_clock_now(&w.clock) == 0); /* asking does not wait */
    assert_true(moved_at(&w, 0) == 0.5);
    assert_true(moved_at(&w, 1) == 1.0);
    assert_int_equal(zn_event_wait(&w.done[1], &w.clock), ZN_OK);
    assert_true(zn_clock_now(&w.clock) == 1.0 + device.latency);
    assert_int_equal(zn_storage_read(w.storage, 0, zn_extent_of(NULL, 2 * gib), 2 * gib, NULL, &w.done[2]), ZN_OK);
    assert_true(moved_at(&w, 2) == 1.5 + device.latency); /* the device was idle meanwhile */
    assert_int_equal(zn_storage_bytes_read(w.storage), 4 * gib);
    assert_int_equal(zn_storage_bytes_written(w.storage), gib);
    assert_int_equal(zn_storage_buffer_bytes(w.storage), 0);
    end(&w);
}

static void a_late_request_does_not_hold_up_others(void **state)
{
    (void)state;
    struct world w;
    begin(&w);
    zn_event_set(&w.after, ZN_OK, NULL, 2);
    assert_int_equal(zn_storage_write(w.storage, 0, zn_extent_of(NULL, 2 * gib), 2 * gib, &w.after, &w.done[0]), ZN_OK);
    assert_true(moved_at(&w, 0) == 3);
    assert_int_equal(zn_storage_read(w.storage, 0, zn_extent_of(NULL, 4 * gib), 4 * gib, NULL, &w.done[1]), ZN_OK);
    assert_true(moved_at(&w, 1) == 1); /* before it */
    assert_int_equal(zn_storage_read(w.storage, 0, zn_extent_of(NULL, 4 * gib), 4 * gib, NULL, &w.done[2]), ZN_OK);
    assert_true(moved_at(&w, 2) == 2); /* what is just left before it */
    assert_int_equal(zn_storage_read(w.storage, 0, zn_extent_of(NULL, 4 * gib), 4 * gib, NULL, &w.done[3]), ZN_OK);
    assert_true(moved_at(&w, 3) == 4); /* after it */
    end(&w);
}

static void a_request_is_cut_around_what_is_taken(void **state)
{
    (void)state;
    struct world w;
    begin(&w);
    zn_event_set(&w.after, ZN_OK, NULL, 1);
    assert_int_equal(zn_storage_read(w.storage, 0, zn_extent_of(NULL, 4 * gib), 4 * gib, &w.after, &w.done[0]), ZN_OK); /* 1 to 2 */
    assert_int_equal(zn_storage_read(w.storage, 0, zn_extent_of(NULL, 6 * gib), 6 * gib, NULL, &w.done[1]), ZN_OK); /* 0 to 1, 2 to 2.5 */
    assert_true(moved_at(&w, 1) == 2.5);
    zn_event_set(&w.after, ZN_OK, NULL, 1.25);
    assert_int_equal(zn_storage_read(w.storage, 0, zn_extent_of(NULL, 2 * gib), 2 * gib, &w.after, &w.done[2]), ZN_OK);
    assert_true(moved_at(&w, 2) == 3);
    zn_event_set(&w.after, ZN_OK, NULL, 8);
    assert_int_equal(zn_storage_read(w.storage, 0, zn_extent_of(NULL, 2 * gib), 2 * gib, &w.after, &w.done[3]), ZN_OK);
    assert_true(moved_at(&w, 3) == 8.5);
    end(&w);
}

static void a_failed_event_takes_no_time(void **state)
{
    (void)state;
    struct world w;
    begin(&w);
    zn_event_set(&w.after, ZN_ERR_NUMERIC, "not finite", 3);
    assert_int_equal(zn_storage_write(w.storage, 0, zn_extent_of(NULL, gib), gib, &w.after, &w.done[0]), ZN_OK);
    assert_int_equal(zn_event_wait(&w.done[0], &w.clock), ZN_ERR_NUMERIC);
    assert_string_equal(zn_error_message(), "not finite");
    assert_true(zn_clock_now(&w.clock) == 3);
    assert_int_equal(zn_storage_write(w.storage, 0, zn_extent_of(NULL, 2 * gib), 2 * gib, NULL, &w.done[1]), ZN_OK);
    assert_true(moved_at(&w, 1) == 4);
    end(&w);
}

static void a_device_without_rates_is_refused(void **state)
{
    (void)state;
    zn_clock clock;
    zn_storage *storage;
    zn_clock_init_virtual(&clock);
    struct zn_sim_storage wrong = device;
    wrong.write_bytes = 0;
    assert_int_equal(zn_storage_create_sim(&clock, &wrong, &storage), ZN_ERR_USAGE);
    wrong = device;
    wrong.latency = -1;
    assert_int_equal(zn_storage_create_sim(&clock, &wrong, &storage), ZN_ERR_USAGE);
    zn_clock_init_real(&clock);
    assert_int_equal(zn_storage_create_sim(&clock, &device, &storage), ZN_ERR_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_share_the_device),
        cmocka_unit_test(a_late_request_does_not_hold_up_others),
        cmocka_unit_test(a_request_is_cut_around_what_is_taken),
        cmocka_unit_test(a_failed_event_takes_no_time),
        cmocka_unit_test(a_device_without_rates_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
