/* A device that records: it computes as the one below, keeps what it was asked while it is told to, and does it again. */
#include "device/recording.h"

#include "kernel_test.h"

static zn_ledger ledger;
static zn_clock real_clock;
static zn_device *cpu, *recording;
static zn_addr values;

static int set_up(void **state)
{
    (void)state;
    zn_ledger_init(&ledger);
    zn_clock_init_real(&real_clock);
    assert_int_equal(zn_device_create_cpu(&ledger, &real_clock, 1, NULL, &cpu), ZN_OK);
    assert_int_equal(zn_device_create_recording(cpu, &recording), ZN_OK);
    assert_int_equal(zn_device_alloc(recording, ZN_TIER_DEVICE, ZN_KIND_BUFFERS, 4096, &values), ZN_OK);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    zn_device_free(recording, ZN_TIER_DEVICE, ZN_KIND_BUFFERS, values, 4096);
    zn_device_destroy(recording);
    zn_device_destroy(cpu);
    return 0;
}

static float value(void)
{
    float x;
    assert_int_equal(zn_device_read(recording, &x, values, sizeof x), ZN_OK);
    return x;
}

static void fill(float x)
{
    assert_int_equal(zn_run_fill(recording, &(struct zn_fill_args){.dst = values, .n_elements = 16, .value = x}), ZN_OK);
}

static void double_it(void)
{
    assert_int_equal(zn_run_add(recording, &(struct zn_add_args){.y = values, .a = values, .b = values, .n_elements = 16}), ZN_OK);
}

static void what_is_recorded_runs_again(void **state)
{
    (void)state;
    fill(3);
    zn_recording_begin(recording);
    double_it();
    double_it();
    fill(1);
    zn_recording_end(recording);
    double_it();
    assert_true(value() == 2);
    assert_int_equal(zn_recording_sum(recording, ZN_KERNEL_add).n_calls, 2);
    assert_int_equal(zn_recording_sum(recording, ZN_KERNEL_fill).n_calls, 1);
    assert_int_equal(zn_recording_repeat(recording, ZN_KERNEL_add), ZN_OK);
    assert_true(value() == 8);
}

static void a_new_record_forgets(void **state)
{
    (void)state;
    fill(1);
    for (int i = 0; i < 2; i++) {
        zn_recording_begin(recording);
        for (int k = 0; k < 1000; k++) /* the arrays grow */
            fill(5);
        zn_recording_end(recording);
    }
    assert_int_equal(zn_recording_sum(recording, ZN_KERNEL_fill).n_calls, 1000);
    assert_true(zn_recording_sum(recording, ZN_KERNEL_fill).seconds > 0);
}

static void products_count_their_flops(void **state)
{
    (void)state;
    fill(2);
    zn_recording_begin(recording);
    assert_int_equal(zn_run_gemm(recording, &(struct zn_gemm_args){.a = values, .b = values + 64, .c = values + 128, .m = 2,
                                                                   .n = 4, .k = 2, .a_stride = 2, .b_stride = 4, .c_stride = 4}),
                     ZN_OK);
    zn_recording_end(recording);
    assert_true(zn_recording_sum(recording, ZN_KERNEL_gemm).flops == 2.0 * 2 * 4 * 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_recorded_runs_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_new_record_forgets, set_up, tear_down),
        cmocka_unit_test_setup_teardown(products_count_their_flops, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
