/* An OpenCL device beside its kernels: memory, order, and failures that reach whoever waits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "device/opencl/opencl.h"

static zn_opencl *opencl;

struct on_device {
    zn_ledger ledger;
    zn_clock clock;
    zn_device *device;
};

static void open_on(struct on_device *d)
{
    zn_ledger_init(&d->ledger);
    zn_clock_init_real(&d->clock);
    assert_int_equal(zn_device_create_opencl(opencl, &d->ledger, &d->clock, &d->device), ZN_OK);
}

static void devices_are_listed(void **state)
{
    (void)state;
    struct zn_opencl_info infos[ZN_OPENCL_MAX_DEVICES];
    zn_opencl *other;
    int n = 0;
    assert_int_equal(zn_opencl_list(infos, &n), ZN_OK);
    assert_in_range(n, 1, ZN_OPENCL_MAX_DEVICES);
    assert_true(infos[0].name[0] && infos[0].platform[0] && infos[0].memory_bytes > 0);
    assert_string_equal(infos[0].name, zn_opencl_info(opencl)->name);
    assert_int_equal(zn_opencl_open(n, &other), ZN_ERR_USAGE);
    assert_non_null(strstr(zn_error_message(), "counted from 0"));
}

static void memory_is_zeroed_and_apart(void **state)
{
    (void)state;
    struct on_device d;
    enum { N = 5000 };
    static unsigned char bytes[N], back[N];
    zn_addr a, b;
    open_on(&d);
    assert_true(zn_device_is_discrete(d.device) && d.device->space == ZN_SPACE_DEVICE);
    assert_int_equal(zn_device_alloc(d.device, ZN_TIER_DEVICE, ZN_KIND_BUFFERS, N, &a), ZN_OK);
    assert_int_equal(zn_device_alloc(d.device, ZN_TIER_DEVICE, ZN_KIND_BUFFERS, N, &b), ZN_OK);
    assert_true(a % 4096 == 0 && b % 4096 == 0);
    assert_int_equal(zn_device_read(d.device, back, a, N), ZN_OK);
    assert_memory_equal(back, bytes, N);
    for (int i = 0; i < N; i++)
        bytes[i] = (unsigned char)(i * 31);
    assert_int_equal(zn_device_write(d.device, a, bytes, N), ZN_OK);
    assert_int_equal(zn_run_copy(d.device, &(struct zn_copy_args){.dst = b, .src = a + 7, .n_bytes = N - 7}), ZN_OK);
    assert_int_equal(zn_device_read(d.device, back, b, N - 7), ZN_OK);
    assert_memory_equal(back, bytes + 7, N - 7);
    zn_device_free(d.device, ZN_TIER_DEVICE, ZN_KIND_BUFFERS, a, N);
    assert_int_equal(zn_device_read(d.device, back, a, 1), ZN_ERR_INTERNAL); /* what was freed */
    zn_device_free(d.device, ZN_TIER_DEVICE, ZN_KIND_BUFFERS, b, N);
    assert_int_equal(zn_ledger_tier(&d.ledger, ZN_TIER_DEVICE), 0);
    zn_device_destroy(d.device);
}

static void too_much_memory_is_refused_by_name(void **state)
{
    (void)state;
    struct on_device d;
    zn_addr a;
    open_on(&d);
    assert_int_equal(zn_device_alloc(d.device, ZN_TIER_DEVICE, ZN_KIND_BUFFERS, SIZE_MAX / 2, &a), ZN_ERR_MEMORY);
    assert_non_null(strstr(zn_error_message(), "in one piece"));
    zn_device_destroy(d.device);
}

/* Copies in and out meet on events alone, however the lanes run. */
static void lanes_keep_the_order_of_events(void **state)
{
    (void)state;
    struct on_device d;
    enum { N = 1 << 16, ROUNDS = 50 };
    static float in[N], out[N];
    zn_addr a;
    zn_event arrived, computed, left;
    open_on(&d);
    zn_event_init(&arrived);
    zn_event_init(&computed);
    zn_event_init(&left);
    assert_int_equal(zn_device_alloc(d.device, ZN_TIER_DEVICE, ZN_KIND_BUFFERS, sizeof in, &a), ZN_OK);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < N; i++)
            in[i] = (float)(i + round);
        assert_int_equal(zn_device_copy(d.device, ZN_LANE_IN, &(struct zn_transfer){.to = a, .from = (zn_addr)(uintptr_t)in,
                                                                                    .n_bytes = sizeof in, .done = &arrived}), ZN_OK);
        assert_int_equal(zn_device_wait(d.device, &arrived), ZN_OK);
        assert_int_equal(zn_run_add(d.device, &(struct zn_add_args){.y = a, .a = a, .b = a, .n_elements = N}), ZN_OK);
        assert_int_equal(zn_device_record(d.device, &computed), ZN_OK);
        assert_int_equal(zn_device_copy(d.device, ZN_LANE_OUT, &(struct zn_transfer){.to = (zn_addr)(uintptr_t)out, .from = a,
                                                                                     .n_bytes = sizeof out, .after = {&computed},
                                                                                     .done = &left}), ZN_OK);
        assert_int_equal(zn_event_wait(&left, &d.clock), ZN_OK);
        for (int i = 0; i < N; i++)
            assert_true(out[i] == 2 * in[i]);
    }
    zn_device_free(d.device, ZN_TIER_DEVICE, ZN_KIND_BUFFERS, a, sizeof in);
    zn_device_destroy(d.device);
    zn_event_fini(&arrived);
    zn_event_fini(&computed);
    zn_event_fini(&left);
}

/* A kernel that cannot be launched, or an event that failed, fails every end behind it. */
static void failures_reach_who_waits(void **state)
{
    (void)state;
    for (int by_event = 0; by_event < 2; by_event++) {
        struct on_device d;
        zn_event cause, done;
        open_on(&d);
        zn_event_init(&cause);
        zn_event_init(&done);
        if (by_event) {
            zn_event_set(&cause, ZN_ERR_IO, "the drive is gone", 0);
            assert_int_equal(zn_device_wait(d.device, &cause), ZN_OK);
        } else {
            assert_int_equal(zn_run_fill(d.device, &(struct zn_fill_args){.dst = 4096, .n_elements = 3, .value = 1}), ZN_OK);
        }
        assert_int_equal(zn_device_record(d.device, &done), ZN_OK);
        assert_int_equal(zn_event_wait(&done, &d.clock), by_event ? ZN_ERR_IO : ZN_ERR_INTERNAL);
        assert_non_null(strstr(zn_error_message(), by_event ? "the drive is gone" : "not of the device's memory"));
        assert_int_not_equal(d.device->ops->synchronize(d.device), ZN_OK);
        zn_device_destroy(d.device);
        zn_event_fini(&cause);
        zn_event_fini(&done);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_are_listed),
        cmocka_unit_test(memory_is_zeroed_and_apart),
        cmocka_unit_test(too_much_memory_is_refused_by_name),
        cmocka_unit_test(lanes_keep_the_order_of_events),
        cmocka_unit_test(failures_reach_who_waits),
    };
    if (zn_opencl_open(0, &opencl) != ZN_OK) {
        printf("no OpenCL device: %s\n", zn_error_message());
        return 77;
    }
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    zn_opencl_close(opencl);
    return failures;
}
