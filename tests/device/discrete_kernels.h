/* Tests of a backend's kernels: every one gives the processor's bits, and a wrong bit is found (device/check/check.h). */
#ifndef ZN_TESTS_DEVICE_DISCRETE_KERNELS_H
#define ZN_TESTS_DEVICE_DISCRETE_KERNELS_H

#include "device/both_devices.h"
#include "device/check/check.h"

static struct {
    const struct tested_backend *backend;
    void *library;
    zn_ledger ledger;
    zn_clock clock;
    zn_device *processor, *device;
} tested;

static int n_rounds(void)
{
    const char *text = getenv("ZINC_TEST_ROUNDS");
    return text ? atoi(text) : 4;
}

typedef zn_status check_function(zn_device *, zn_device *, int, uint64_t, struct zn_check *);

static void assert_same(check_function *function, int rounds)
{
    struct zn_check check;
    OK(function(tested.processor, tested.device, rounds, 1, &check));
    if (check.difference[0])
        fail_msg("%s", check.difference);
    assert_true(check.n_checked > 4 * rounds);
}

static void every_kernel_has_the_processors_bits(void **state)
{
    (void)state;
    assert_same(zn_check_kernels, n_rounds());
}

static void products_have_the_same_bits_however_they_are_computed(void **state)
{
    (void)state;
    assert_same(zn_check_products, 4 * n_rounds());
}

/* A device that computes something else, in one kernel and one bit. */
static zn_status (*run_as_it_is)(zn_device *device, zn_kernel kernel, const void *args);
static zn_kernel wrong_kernel;

static zn_status run_wrong(zn_device *device, zn_kernel kernel, const void *args)
{
    uint32_t word;
    zn_addr first = *(const zn_addr *)args;
    if (kernel == ZN_KERNEL_gemm)
        first = ((const struct zn_gemm_args *)args)->c;
    ZN_TRY(run_as_it_is(device, kernel, args));
    if (kernel != wrong_kernel)
        return ZN_OK;
    ZN_TRY(zn_device_read(device, &word, first, sizeof word));
    word ^= 1;
    return zn_device_write(device, first, &word, sizeof word);
}

static void one_wrong_bit_is_found(void **state)
{
    static const zn_kernel kernels[] = {ZN_KERNEL_adam, ZN_KERNEL_rmsnorm_backward, ZN_KERNEL_attention_forward, ZN_KERNEL_gemm};
    struct zn_device_ops ops = *tested.device->ops;
    const struct zn_device_ops *kept = tested.device->ops;
    (void)state;
    run_as_it_is = ops.run;
    ops.run = run_wrong;
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++) {
        struct zn_check check;
        wrong_kernel = kernels[i];
        tested.device->ops = &ops;
        zn_status status = (wrong_kernel == ZN_KERNEL_gemm ? zn_check_products : zn_check_kernels)(tested.processor, tested.device, 1, 1,
                                                                                                   &check);
        tested.device->ops = kept;
        assert_int_equal(status, ZN_OK);
        if (!strstr(check.difference, zn_kernel_name(wrong_kernel)))
            fail_msg("a wrong bit of %s: '%s'", zn_kernel_name(wrong_kernel), check.difference);
    }
}

static int set_up(void **state)
{
    (void)state;
    zn_ledger_init(&tested.ledger);
    zn_clock_init_real(&tested.clock);
    if (tested.backend->open(&tested.library) != ZN_OK) {
        printf("no %s device: %s\n", tested.backend->name, zn_error_message());
        exit(77);
    }
    OK(zn_device_create_cpu(&tested.ledger, &tested.clock, 2, NULL, &tested.processor));
    OK(tested.backend->create(tested.library, &tested.ledger, &tested.clock, &tested.device));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    zn_device_destroy(tested.device);
    zn_device_destroy(tested.processor);
    tested.backend->close(tested.library);
    return 0;
}

/* The tests as a program. */
static int run_kernel_tests(const struct tested_backend *backend)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kernel_has_the_processors_bits),
        cmocka_unit_test(products_have_the_same_bits_however_they_are_computed),
        cmocka_unit_test(one_wrong_bit_is_found),
    };
    tested.backend = backend;
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

#endif
