/* The processor as a device: choice of the instruction set, memory, and running kernels. */
#include "base/size.h"
#include "device/kernel_test.h"

struct machine {
    zn_ledger ledger;
    zn_clock clock;
    zn_device *device;
};

static int setup(void **state)
{
    static struct machine m;
    unsetenv("ZINC_ISA");
    zn_ledger_init(&m.ledger);
    zn_clock_init_real(&m.clock);
    assert_int_equal(zn_device_create_cpu(&m.ledger, &m.clock, 2, NULL, &m.device), ZN_OK);
    *state = &m;
    return 0;
}

static int teardown(void **state)
{
    struct machine *m = *state;
    zn_device_destroy(m->device);
    unsetenv("ZINC_ISA");
    return 0;
}

static void the_best_instruction_set_is_taken(void **state)
{
    struct machine *m = *state;
    const char *best = zn_cpu_has_isa("avx512") ? "avx512" : zn_cpu_has_isa("avx2") ? "avx2" : "plain";
    const char *isa = NULL;
    assert_int_equal(zn_cpu_isa_choose(NULL, &isa), ZN_OK);
    assert_string_equal(isa, best);
    assert_int_equal(zn_cpu_isa_choose("", &isa), ZN_OK);
    assert_string_equal(isa, best);
    assert_string_equal(((struct zn_cpu *)m->device)->isa, best);
#if defined(__x86_64__)
    /* The compiler's own view of the machine. */
    assert_int_equal(zn_cpu_has_isa("avx2"), __builtin_cpu_supports("avx2") &&
                                                 __builtin_cpu_supports("fma"));
    assert_int_equal(zn_cpu_has_isa("avx512"), __builtin_cpu_supports("avx512f") &&
                                                   __builtin_cpu_supports("avx512bw") &&
                                                   __builtin_cpu_supports("avx512dq") &&
                                                   __builtin_cpu_supports("avx512vl"));
#endif
    assert_true(zn_cpu_has_isa("plain"));
    assert_false(zn_cpu_has_isa("mmx"));
}

static void an_instruction_set_can_be_forced(void **state)
{
    (void)state;
    const char *isa = NULL;
    assert_int_equal(zn_cpu_isa_choose("plain", &isa), ZN_OK);
    assert_string_equal(isa, "plain");
    isa = NULL;
    setenv("ZINC_ISA", "plain", 1);
    assert_int_equal(zn_cpu_isa_choose(NULL, &isa), ZN_OK);
    assert_string_equal(isa, "plain");
}

static void the_argument_wins_over_the_environment(void **state)
{
    (void)state;
    const char *isa = NULL;
    setenv("ZINC_ISA", "nonsense", 1);
    assert_int_equal(zn_cpu_isa_choose("plain", &isa), ZN_OK);
    assert_string_equal(isa, "plain");
}

static void a_wrong_instruction_set_is_an_error_that_names_what_there_is(void **state)
{
    struct machine *m = *state;
    zn_device *none = NULL;
    const char *isa = NULL;
    assert_int_equal(zn_device_create_cpu(&m->ledger, &m->clock, 1, "mmx", &none), ZN_ERR_USAGE);
    assert_null(none);
    assert_non_null(strstr(zn_error_message(), "mmx"));
    assert_non_null(strstr(zn_error_message(), "plain"));
    setenv("ZINC_ISA", "sse9", 1);
    assert_int_equal(zn_cpu_isa_choose(NULL, &isa), ZN_ERR_USAGE);
    assert_non_null(strstr(zn_error_message(), "ZINC_ISA"));
    assert_null(isa);
    static const char *const known[] = {"avx2", "avx512"};
    for (size_t i = 0; i < COUNT(known); i++) {
        if (zn_cpu_has_isa(known[i]))
            continue;
        assert_int_equal(zn_cpu_isa_choose(known[i], &isa), ZN_ERR_UNSUPPORTED);
        assert_non_null(strstr(zn_error_message(), known[i]));
        assert_non_null(strstr(zn_error_message(), "it has plain"));
    }
}

static void no_threads_are_refused(void **state)
{
    struct machine *m = *state;
    zn_device *none = NULL;
    assert_int_equal(zn_device_create_cpu(&m->ledger, &m->clock, 0, NULL, &none), ZN_ERR_USAGE);
    assert_null(none);
}

static void memory_is_zeroed_aligned_and_charged(void **state)
{
    static const size_t sizes[] = {0, 1, 4097, 2 * ZN_MIB - 1, 2 * ZN_MIB, 5 * ZN_MIB + 3};
    struct machine *m = *state;
    for (size_t s = 0; s < COUNT(sizes); s++) {
        size_t n = sizes[s];
        zn_addr address = 0;
        assert_int_equal(
            zn_device_alloc(m->device, ZN_TIER_HOST, ZN_KIND_OPTIMIZER, n, &address), ZN_OK);
        assert_true(address != 0 && address % 4096 == 0);
        assert_true(n < 2 * ZN_MIB || address % (2 * ZN_MIB) == 0);
        assert_int_equal(m->ledger.current[ZN_TIER_HOST][ZN_KIND_OPTIMIZER], n);
        unsigned char *bytes = zn_pointer(address);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(bytes[i], 0);
        memset(bytes, 1, n);
        zn_device_free(m->device, ZN_TIER_HOST, ZN_KIND_OPTIMIZER, address, n);
        assert_int_equal(zn_ledger_tier(&m->ledger, ZN_TIER_HOST), 0);
    }
    assert_int_equal(m->ledger.tier_peak[ZN_TIER_HOST], 5 * ZN_MIB + 3);
}

static void too_much_memory_is_an_error_that_names_the_size(void **state)
{
    struct machine *m = *state;
    zn_addr address = 5;
    size_t too_much = (size_t)1 << 60;
    assert_int_equal(
        zn_device_alloc(m->device, ZN_TIER_DEVICE, ZN_KIND_BUFFERS, too_much, &address),
        ZN_ERR_MEMORY);
    assert_non_null(strstr(zn_error_message(), "1.00 EiB"));
    assert_int_equal(
        zn_device_alloc(m->device, ZN_TIER_DEVICE, ZN_KIND_BUFFERS, SIZE_MAX, &address),
        ZN_ERR_MEMORY);
    assert_int_equal(address, 5);
    assert_int_equal(zn_ledger_tier(&m->ledger, ZN_TIER_DEVICE), 0);
}

static void nothing_can_be_freed_and_destroyed(void **state)
{
    struct machine *m = *state;
    zn_device_free(m->device, ZN_TIER_DEVICE, ZN_KIND_BUFFERS, 0, 100);
    zn_device_destroy(NULL);
}

static void kernels_run_between_write_and_read(void **state)
{
    struct machine *m = *state;
    static const float a[3] = {1, 2, 3};
    float y[3] = {0};
    zn_addr address;
    assert_int_equal(
        zn_device_alloc(m->device, ZN_TIER_DEVICE, ZN_KIND_BUFFERS, sizeof a, &address), ZN_OK);
    assert_int_equal(zn_device_write(m->device, address, a, sizeof a), ZN_OK);
    struct zn_mul_args mul = {address, address, address, 3};
    assert_int_equal(zn_run_mul(m->device, &mul), ZN_OK);
    assert_int_equal(m->device->ops->synchronize(m->device), ZN_OK);
    assert_int_equal(zn_device_read(m->device, y, address, sizeof y), ZN_OK);
    assert_true(y[0] == 1 && y[1] == 4 && y[2] == 9);
    zn_device_free(m->device, ZN_TIER_DEVICE, ZN_KIND_BUFFERS, address, sizeof a);
}

static void every_kernel_has_a_name_and_a_function(void **state)
{
    struct machine *m = *state;
    assert_string_equal(zn_kernel_name(ZN_KERNEL_gemm), "gemm");
    assert_string_equal(zn_kernel_name(ZN_KERNEL_sgd), "sgd");
    for (int k = 0; k < ZN_N_KERNELS; k++) {
        assert_non_null(zn_kernel_name((zn_kernel)k));
        assert_true(((struct zn_cpu *)m->device)->kernels->run[k] != NULL);
    }
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(the_best_instruction_set_is_taken),
        CASE(an_instruction_set_can_be_forced),
        CASE(the_argument_wins_over_the_environment),
        CASE(a_wrong_instruction_set_is_an_error_that_names_what_there_is),
        CASE(no_threads_are_refused),
        CASE(memory_is_zeroed_aligned_and_charged),
        CASE(too_much_memory_is_an_error_that_names_the_size),
        CASE(nothing_can_be_freed_and_destroyed),
        CASE(kernels_run_between_write_and_read),
        CASE(every_kernel_has_a_name_and_a_function),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
