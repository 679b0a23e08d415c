/* Planted faults of a CUDA device, each in a process of its own: every one is found, or ends what waits with its cause; none hangs. The
 * stand-in (standin/standin.h) makes them. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "device/cuda/cuda.h"
#include "device/on_cuda.h"

enum { N = 1 << 14, PATIENCE = 30, SANITIZER_EXIT = 66, WRONG_ORDER = -1 };

struct on_device {
    zn_cuda *cuda;
    zn_ledger ledger;
    zn_clock clock;
    zn_device *device;
    zn_addr memory;
    zn_event arrived, done;
};
static _Alignas(4096) float in[N], out[N];

/* Of a child process: says why it ends, and ends. */
static void expect(bool is_so, const char *what)
{
    if (is_so)
        return;
    fprintf(stderr, "not so: %s (%s)\n", what, zn_error_message());
    _exit(1);
}

static bool says(const char *words)
{
    return strstr(zn_error_message(), words) != NULL;
}

static struct on_device open_on(void)
{
    static struct on_device d;
    zn_ledger_init(&d.ledger);
    zn_clock_init_real(&d.clock);
    zn_event_init(&d.arrived);
    zn_event_init(&d.done);
    expect(zn_cuda_open(0, &d.cuda) == ZN_OK, "opened");
    expect(zn_device_create_cuda(d.cuda, &d.ledger, &d.clock, &d.device) == ZN_OK, "created");
    zn_device_pin(d.device, zn_extent_of(in, sizeof in));
    zn_device_pin(d.device, zn_extent_of(out, sizeof out));
    return d;
}

static zn_status alloc(struct on_device *d)
{
    return zn_device_alloc(d->device, ZN_TIER_DEVICE, ZN_KIND_BUFFERS, sizeof in, &d->memory);
}

static void close_on(struct on_device *d)
{
    zn_device_destroy(d->device);
    zn_cuda_close(d->cuda);
}

/* In, doubled, and out by the lanes; the status of the last event. */
static zn_status double_all(struct on_device *d)
{
    zn_event computed;
    zn_event_init(&computed);
    for (int i = 0; i < N; i++)
        in[i] = (float)(i + 1);
    zn_device_copy(d->device, ZN_LANE_IN,
                   &(struct zn_transfer){.to = d->memory, .from = (zn_addr)(uintptr_t)in, .n_bytes = sizeof in, .done = &d->arrived});
    usleep(5000); /* the copy is on its stream */
    zn_device_wait(d->device, &d->arrived);
    zn_run_add(d->device, &(struct zn_add_args){.y = d->memory, .a = d->memory, .b = d->memory, .n_elements = N});
    zn_device_record(d->device, &computed);
    zn_device_copy(d->device, ZN_LANE_OUT,
                   &(struct zn_transfer){.to = (zn_addr)(uintptr_t)out, .from = d->memory, .n_bytes = sizeof out, .after = {&computed},
                                         .done = &d->done});
    return zn_event_wait(&d->done, &d->clock);
}

static bool is_doubled(void)
{
    for (int i = 0; i < N; i++)
        if (out[i] != 2 * in[i])
            return false;
    return true;
}

/* Runs `body` in a process with the fault. It ends well, or by the signal; where the order is wrong, the thread sanitizer may end it. */
static void in_child(const char *fault, void (*body)(void), int by_signal)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL); /* cmocka would go on */
        alarm(PATIENCE);
        if (fault)
            setenv("ZINC_STANDIN_FAULT", fault, 1);
        body();
        _exit(0);
    }
    int state = 0;
    assert_int_equal(waitpid(child, &state, 0), child);
    if (by_signal == WRONG_ORDER)
        assert_true(WIFEXITED(state) && (WEXITSTATUS(state) == 0 || WEXITSTATUS(state) == SANITIZER_EXIT));
    else if (by_signal)
        assert_true((WIFSIGNALED(state) && WTERMSIG(state) == by_signal) || (WIFEXITED(state) && WEXITSTATUS(state) != 0));
    else
        assert_true(WIFEXITED(state) && WEXITSTATUS(state) == 0);
}

static void run_without_fault(void)
{
    struct on_device d = open_on();
    expect(alloc(&d) == ZN_OK && double_all(&d) == ZN_OK && is_doubled(), "right without a fault");
    close_on(&d);
}

static void run_wrong_order(void)
{
    struct on_device d = open_on();
    expect(alloc(&d) == ZN_OK && double_all(&d) == ZN_OK, "nothing but the order is wrong");
    expect(!is_doubled(), "a result tells of it");
    close_on(&d);
}

static void run_freed(void)
{
    struct on_device d = open_on();
    expect(alloc(&d) == ZN_OK, "memory");
    zn_device_free(d.device, ZN_TIER_DEVICE, ZN_KIND_BUFFERS, d.memory, sizeof in);
    zn_run_fill(d.device, &(struct zn_fill_args){.dst = d.memory, .n_elements = N, .value = 1});
    zn_device_record(d.device, &d.done);
    expect(zn_event_wait(&d.done, &d.clock) == ZN_ERR_IO && says("ILLEGAL_ADDRESS"), "freed memory is illegal");
    expect(zn_device_read(d.device, out, d.memory, 4) != ZN_OK && says("ILLEGAL_ADDRESS"), "the first cause stays");
    close_on(&d);
}

static void run_out_of_bounds(void)
{
    struct on_device d = open_on();
    expect(alloc(&d) == ZN_OK, "memory");
    zn_run_fill(d.device, &(struct zn_fill_args){.dst = d.memory, .n_elements = N + 4096, .value = 1});
    expect(d.device->ops->synchronize(d.device) == ZN_ERR_IO && says("ILLEGAL_ADDRESS"), "what lies behind is illegal");
    close_on(&d);
}

static void run_host_address(void)
{
    struct on_device d = open_on();
    zn_run_fill(d.device, &(struct zn_fill_args){.dst = (zn_addr)(uintptr_t)in, .n_elements = 4, .value = 1});
    expect(d.device->ops->synchronize(d.device) == ZN_ERR_IO && says("ILLEGAL_ADDRESS"), "the host's memory is not the device's");
    close_on(&d);
}

static void run_dereference(void)
{
    struct on_device d = open_on();
    expect(alloc(&d) == ZN_OK, "memory");
    out[0] = *(volatile float *)(uintptr_t)d.memory; /* ends the process */
}

static void run_no_memory(void)
{
    struct on_device d = open_on();
    expect(alloc(&d) == ZN_ERR_MEMORY && says("stand-in 0 has no memory for") && says("are free"), "no memory, and how much there is");
    expect(alloc(&d) == ZN_OK && double_all(&d) == ZN_OK && is_doubled(), "later there is some");
    close_on(&d);
}

static void run_refused_launch(void)
{
    struct on_device d = open_on();
    expect(alloc(&d) == ZN_OK, "memory");
    expect(double_all(&d) == ZN_ERR_IO && says("k_add") && says("LAUNCH_OUT_OF_RESOURCES"), "the launch is named");
    close_on(&d);
}

static void run_failed_copy(void)
{
    struct on_device d = open_on();
    expect(alloc(&d) == ZN_OK, "memory");
    expect(double_all(&d) == ZN_ERR_IO && says("ECC_UNCORRECTABLE"), "the cause of the copy");
    close_on(&d);
}

static void run_without_pins(void)
{
    struct on_device d = open_on();
    expect(alloc(&d) == ZN_OK && double_all(&d) == ZN_OK && is_doubled(), "right through staging");
    expect(strstr(zn_cuda_staging_cause(d.cuda), "NOT_SUPPORTED") != NULL, "why it is staged can be said");
    close_on(&d);
}

static void run_bad_ptx(void)
{
    zn_cuda *cuda;
    expect(zn_cuda_open(0, &cuda) == ZN_ERR_IO && says("INVALID_PTX") && says("a planted fault"), "the compiler's words");
}

static void run_no_start(void)
{
    zn_cuda *cuda;
    expect(zn_cuda_open(0, &cuda) == ZN_ERR_IO && says("cuInit gave 803"), "why the driver does not start");
}

static void run_no_device(void)
{
    zn_cuda *cuda;
    expect(zn_cuda_open(0, &cuda) == ZN_ERR_UNSUPPORTED && says("has no device"), "there is no device");
}

#define FAULT_TEST(test, fault, body, by_signal)                                                                                     \
    static void test(void **state)                                                                                                \
    {                                                                                                                             \
        (void)state;                                                                                                              \
        in_child(fault, body, by_signal);                                                                                            \
    }
FAULT_TEST(nothing_is_wrong, NULL, run_without_fault, 0)
FAULT_TEST(a_missing_event_wait_is_found, "skip_wait", run_wrong_order, WRONG_ORDER)
FAULT_TEST(a_wrong_stream_is_found, "wrong_stream", run_wrong_order, WRONG_ORDER)
FAULT_TEST(a_freed_buffer_is_named, NULL, run_freed, 0)
FAULT_TEST(an_access_out_of_bounds_is_named, NULL, run_out_of_bounds, 0)
FAULT_TEST(a_host_address_is_named, NULL, run_host_address, 0)
FAULT_TEST(a_host_dereference_ends_the_process, NULL, run_dereference, SIGSEGV)
FAULT_TEST(no_memory_is_named, "alloc", run_no_memory, 0)
FAULT_TEST(a_refused_launch_is_named, "launch", run_refused_launch, 0)
FAULT_TEST(a_failed_copy_is_named, "copy", run_failed_copy, 0)
FAULT_TEST(memory_that_cannot_be_pinned_is_staged, "pin", run_without_pins, 0)
FAULT_TEST(refused_ptx_is_named, "ptx", run_bad_ptx, 0)
FAULT_TEST(a_driver_that_does_not_start_is_named, "init", run_no_start, 0)
FAULT_TEST(no_device_is_named, "no_device", run_no_device, 0)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_wrong),
        cmocka_unit_test(a_missing_event_wait_is_found),
        cmocka_unit_test(a_wrong_stream_is_found),
        cmocka_unit_test(a_freed_buffer_is_named),
        cmocka_unit_test(an_access_out_of_bounds_is_named),
        cmocka_unit_test(a_host_address_is_named),
        cmocka_unit_test(a_host_dereference_ends_the_process),
        cmocka_unit_test(no_memory_is_named),
        cmocka_unit_test(a_refused_launch_is_named),
        cmocka_unit_test(a_failed_copy_is_named),
        cmocka_unit_test(memory_that_cannot_be_pinned_is_staged),
        cmocka_unit_test(refused_ptx_is_named),
        cmocka_unit_test(a_driver_that_does_not_start_is_named),
        cmocka_unit_test(no_device_is_named),
    };
    on_cuda_skip_without_ptx();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
