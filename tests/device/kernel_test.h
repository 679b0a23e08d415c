/* Help for tests of kernels: run one on every instruction set of this machine with 1, 2 and 3
 * threads, hold all of them to the same bits, and compare values with stated bounds. */
#ifndef ZN_TESTS_DEVICE_KERNEL_TEST_H
#define ZN_TESTS_DEVICE_KERNEL_TEST_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "device/cpu/cpu.h"

#define ADDRESS(pointer) ((zn_addr)(uintptr_t)(pointer))
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* What a kernel writes; `data` holds the start values and, in the end, the result. */
struct output {
    void *data;
    size_t n_bytes;
};

static inline void *new_bytes(size_t n_bytes)
{
    void *data = calloc(1, n_bytes ? n_bytes : 1);
    assert_non_null(data);
    return data;
}

static inline float *new_floats(int64_t n)
{
    return new_bytes((size_t)n * sizeof(float));
}

/* n values of the normal distribution, a constant for each key. */
static inline float *new_normal(int64_t n, uint64_t key)
{
    float *x = new_floats(n);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)zn_random_normal(key, (uint64_t)i);
    return x;
}

static inline zn_status run_on(const char *isa, int n_threads, zn_kernel kernel, const void *args)
{
    zn_ledger ledger;
    zn_clock clock;
    zn_device *device;
    zn_ledger_init(&ledger);
    zn_clock_init_real(&clock);
    assert_int_equal(zn_device_create_cpu(&ledger, &clock, n_threads, isa, &device), ZN_OK);
    zn_status status = device->ops->run(device, kernel, args);
    zn_device_destroy(device);
    return status;
}

static inline void assert_same_bits(const void *got, const void *want, size_t n_bytes,
                                    const char *kernel, const char *isa, int n_threads)
{
    const unsigned char *g = got, *w = want;
    for (size_t i = 0; i < n_bytes; i++)
        if (g[i] != w[i])
            fail_msg("%s: byte %zu of %zu differs on %s with %d threads", kernel, i, n_bytes, isa,
                     n_threads);
}

/* Runs the kernel everywhere from the same start values; every output must have the bits of the
 * plain kernel with one thread. */
static inline void run_everywhere(zn_kernel kernel, const void *args, const struct output *outputs,
                                  size_t n_outputs)
{
    static const char *const isas[] = {"plain", "avx2", "avx512"};
    void *start[8], *want[8];
    assert_true(n_outputs <= 8);
    for (size_t o = 0; o < n_outputs; o++) {
        start[o] = new_bytes(outputs[o].n_bytes);
        want[o] = new_bytes(outputs[o].n_bytes);
        memcpy(start[o], outputs[o].data, outputs[o].n_bytes);
    }
    for (size_t i = 0; i < COUNT(isas); i++) {
        if (!zn_cpu_has_isa(isas[i]))
            continue;
        for (int n_threads = 1; n_threads <= 3; n_threads++) {
            for (size_t o = 0; o < n_outputs; o++)
                memcpy(outputs[o].data, start[o], outputs[o].n_bytes);
            assert_int_equal(run_on(isas[i], n_threads, kernel, args), ZN_OK);
            for (size_t o = 0; o < n_outputs; o++) {
                if (i == 0 && n_threads == 1)
                    memcpy(want[o], outputs[o].data, outputs[o].n_bytes);
                assert_same_bits(outputs[o].data, want[o], outputs[o].n_bytes,
                                 zn_kernel_name(kernel), isas[i], n_threads);
            }
        }
    }
    for (size_t o = 0; o < n_outputs; o++) {
        free(start[o]);
        free(want[o]);
    }
}

/* |got - want| <= bound × (1 + |want|) */
static inline void assert_near(double got, double want, double bound, const char *what, int64_t i)
{
    if (!(fabs(got - want) <= bound * (1.0 + fabs(want))))
        fail_msg("%s[%lld] is %.9g, not %.9g within %g", what, (long long)i, got, want, bound);
}

#endif
