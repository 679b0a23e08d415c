/* A CUDA device beside its kernels: memory, pinned and staged copies, order between streams, and failures that reach whoever waits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/cuda/cuda.h"
#include "device/on_cuda.h"

static zn_cuda *cuda;

struct on_device {
    zn_ledger ledger;
    zn_clock clock;
    zn_device *device;
};

static void open_on(struct on_device *d)
{
    zn_ledger_init(&d->ledger);
    zn_clock_init_real(&d->clock);
    assert_int_equal(zn_device_create_cuda(cuda, &d->ledger, &d->clock, &d->device), ZN_OK);
}

static void devices_are_listed(void **state)
{
    (void)state;
    struct zn_cuda_info infos[ZN_CUDA_MAX_DEVICES];
    zn_cuda *other;
    int n = 0;
    assert_int_equal(zn_cuda_list(infos, &n), ZN_OK);
    assert_in_range(n, 1, ZN_CUDA_MAX_DEVICES);
    assert_true(infos[0].name[0] && infos[0].version[0] && infos[0].memory_bytes > 0 && !infos[0].missing[0]);
    assert_string_equal(infos[0].name, zn_cuda_info(cuda)->name);
    assert_true(zn_cuda_info(cuda)->free_bytes > 0);
    assert_int_equal(zn_cuda_open(n, &other), ZN_ERR_USAGE);
    assert_non_null(strstr(zn_error_message(), "counted from 0"));
}

static void memory_is_zeroed_and_aligned(void **state)
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
    assert_int_not_equal(zn_device_read(d.device, back, a, 1), ZN_OK); /* what was freed */
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
    assert_non_null(strstr(zn_error_message(), "has no memory for"));
    assert_int_equal(zn_device_alloc(d.device, ZN_TIER_DEVICE, ZN_KIND_BUFFERS, SIZE_MAX, &a), ZN_ERR_MEMORY);
    zn_device_destroy(d.device);
}

/* Memory that is not pinned goes through pieces of staging, however many it takes. */
static void any_memory_is_copied(void **state)
{
    (void)state;
    struct on_device d;
    const size_t most = 5 * 1024 * 1024 + 13;
    unsigned char *in = aligned_alloc(4096, 6 << 20), *out = aligned_alloc(4096, 6 << 20);
    zn_addr a;
    assert_true(in && out);
    for (size_t i = 0; i < most; i++)
        in[i] = (unsigned char)(i * 7 + i / 4096);
    open_on(&d);
    assert_int_equal(zn_device_alloc(d.device, ZN_TIER_DEVICE, ZN_KIND_BUFFERS, most, &a), ZN_OK);
    for (int way = 0; way < 4; way++) {
        const struct zn_extent pinned_in = zn_extent_of(in, 6 << 20), pinned_out = zn_extent_of(out, 6 << 20);
        if (way & 1)
            zn_device_pin(d.device, pinned_in);
        if (way & 2)
            zn_device_pin(d.device, pinned_out);
        for (size_t n = 1; n <= most; n = n < most && 7 * n > most ? most : 7 * n) {
            memset(out, 0, most);
            assert_int_equal(zn_device_write(d.device, a, in + most - n, n), ZN_OK);
            assert_int_equal(zn_device_read(d.device, out, a, n), ZN_OK);
            assert_memory_equal(out, in + most - n, n);
        }
        if (way & 1)
            zn_device_unpin(d.device, pinned_in);
        if (way & 2)
            zn_device_unpin(d.device, pinned_out);
    }
    assert_string_equal(zn_cuda_staging_cause(cuda), "");
    zn_device_free(d.device, ZN_TIER_DEVICE, ZN_KIND_BUFFERS, a, most);
    zn_device_destroy(d.device);
    free(in);
    free(out);
}

/* Copies in and out meet on events alone, however the lanes run. */
static void lanes_keep_the_order_of_events(void **state)
{
    (void)state;
    struct on_device d;
    enum { N = 1 << 16, ROUNDS = 50 };
    static _Alignas(4096) float in[N], out[N];
    zn_addr a;
    zn_event arrived, computed, left;
    open_on(&d);
    zn_event_init(&arrived);
    zn_event_init(&computed);
    zn_event_init(&left);
    zn_device_pin(d.device, zn_extent_of(in, sizeof in));
    zn_device_pin(d.device, zn_extent_of(out, sizeof out));
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
    zn_device_unpin(d.device, zn_extent_of(in, sizeof in));
    zn_device_unpin(d.device, zn_extent_of(out, sizeof out));
    zn_device_free(d.device, ZN_TIER_DEVICE, ZN_KIND_BUFFERS, a, sizeof in);
    zn_device_destroy(d.device);
    zn_event_fini(&arrived);
    zn_event_fini(&computed);
    zn_event_fini(&left);
}

/* An event of somebody else that failed fails every end behind it. */
static void failures_reach_who_waits(void **state)
{
    (void)state;
    struct on_device d;
    zn_event cause, done;
    open_on(&d);
    zn_event_init(&cause);
    zn_event_init(&done);
    zn_event_set(&cause, ZN_ERR_IO, "the drive is gone", 0);
    assert_int_equal(zn_device_wait(d.device, &cause), ZN_OK);
    assert_int_equal(zn_device_record(d.device, &done), ZN_OK);
    assert_int_equal(zn_event_wait(&done, &d.clock), ZN_ERR_IO);
    assert_non_null(strstr(zn_error_message(), "the drive is gone"));
    assert_int_not_equal(d.device->ops->synchronize(d.device), ZN_OK);
    zn_device_destroy(d.device);
    zn_event_fini(&cause);
    zn_event_fini(&done);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_are_listed),
        cmocka_unit_test(memory_is_zeroed_and_aligned),
        cmocka_unit_test(too_much_memory_is_refused_by_name),
        cmocka_unit_test(any_memory_is_copied),
        cmocka_unit_test(lanes_keep_the_order_of_events),
        cmocka_unit_test(failures_reach_who_waits),
    };
    on_cuda_skip_without_ptx();
    setenv("ZINC_STANDIN_LAG", "3", 0);
    if (zn_cuda_open(0, &cuda) != ZN_OK) {
        fprintf(stderr, "%s\n", zn_error_message());
        return 1; /* the stand-in is always there */
    }
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    zn_cuda_close(cuda);
    return failures;
}
