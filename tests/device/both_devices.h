/* The same memory on the processor and on a device of another backend, for kernels whose results must have the same bits. A kernel's
 * addresses are given as places in it. */
#ifndef ZN_TESTS_DEVICE_BOTH_DEVICES_H
#define ZN_TESTS_DEVICE_BOTH_DEVICES_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "device/discrete/launch.h"
#include "device/tested_backend.h"

#define OK(call)                                                                                                                  \
    do {                                                                                                                          \
        if ((call) != ZN_OK)                                                                                                      \
            fail_msg("%s: %s", #call, zn_error_message());                                                                        \
    } while (0)

enum { BOTH_BYTES = 8 << 20, MAX_SCRATCH = 4 };

struct both {
    zn_ledger ledger;
    zn_clock clock;
    const struct tested_backend *backend;
    void *opened;
    zn_device *device[2]; /* the processor, the other */
    zn_addr base[2];
    unsigned char *image, *result[2];
    size_t used;
    uint64_t key, counter;
    struct {
        zn_addr place;
        size_t n_bytes;
    } scratch[MAX_SCRATCH]; /* differs: what a kernel leaves there is its own */
    int n_scratch;
};

static inline int n_addresses(zn_kernel kernel)
{
    int n[ZN_N_KERNELS] = {0};
    n[ZN_KERNEL_zero] = 1;
    n[ZN_KERNEL_copy] = 2;
#define COUNT(name, args, addresses, items) n[ZN_KERNEL_##args] = addresses;
    ZN_LAUNCHES(COUNT)
#undef COUNT
    return n[kernel];
}

static inline void both_open(struct both *b, const struct tested_backend *backend, uint64_t seed)
{
    memset(b, 0, sizeof *b);
    zn_ledger_init(&b->ledger);
    zn_clock_init_real(&b->clock);
    b->key = zn_random_key(seed, "both");
    b->backend = backend;
    if (backend->open(&b->opened) != ZN_OK) {
        printf("no %s device: %s\n", backend->name, zn_error_message());
        exit(77);
    }
    OK(zn_device_create_cpu(&b->ledger, &b->clock, 2, NULL, &b->device[0]));
    OK(backend->create(b->opened, &b->ledger, &b->clock, &b->device[1]));
    b->image = malloc(BOTH_BYTES);
    assert_non_null(b->image);
    for (int i = 0; i < 2; i++) {
        OK(zn_device_alloc(b->device[i], ZN_TIER_DEVICE, ZN_KIND_BUFFERS, BOTH_BYTES, &b->base[i]));
        b->result[i] = malloc(BOTH_BYTES);
        assert_non_null(b->result[i]);
    }
}

static inline void both_close(struct both *b)
{
    for (int i = 0; i < 2; i++) {
        zn_device_free(b->device[i], ZN_TIER_DEVICE, ZN_KIND_BUFFERS, b->base[i], BOTH_BYTES);
        zn_device_destroy(b->device[i]);
        free(b->result[i]);
    }
    b->backend->close(b->opened);
    free(b->image);
}

/* From `low` to `high`, both possible. */
static inline int64_t draw(struct both *b, int64_t low, int64_t high)
{
    return low + (int64_t)zn_random_below(b->key, b->counter++, (uint64_t)(high - low + 1));
}

static inline void begin(struct both *b)
{
    b->used = 64;
    b->n_scratch = 0;
}

static inline zn_addr place_bytes(struct both *b, int64_t n_bytes)
{
    zn_addr at = b->used;
    b->used += ((size_t)n_bytes + 7) / 8 * 8 + 8 * (size_t)draw(b, 0, 3);
    assert_true(b->used <= BOTH_BYTES);
    return at;
}

/* n values of about `size`. */
static inline zn_addr place_floats(struct both *b, int64_t n, float size)
{
    zn_addr at = place_bytes(b, 4 * n);
    float *x = (float *)(void *)(b->image + at);
    for (int64_t i = 0; i < n; i++)
        x[i] = size * (float)zn_random_normal(b->key, b->counter++);
    return at;
}

static inline zn_addr place_bits(struct both *b, int64_t n_bytes)
{
    zn_addr at = place_bytes(b, n_bytes);
    for (int64_t i = 0; i < n_bytes; i++)
        b->image[at + (zn_addr)i] = (unsigned char)zn_random_bits(b->key, b->counter++);
    return at;
}

/* n parameters in a type. */
static inline zn_addr place_params(struct both *b, int64_t n, zn_dtype type)
{
    if (type == ZN_F32)
        return place_floats(b, n, 1);
    zn_addr at = place_bits(b, 2 * n);
    uint16_t *x = (uint16_t *)(void *)(b->image + at);
    for (int64_t i = 0; i < n; i++) /* between 2^-7 and 2, of both signs */
        x[i] = type == ZN_BF16 ? (uint16_t)((x[i] & 0x83ff) | 0x3c00) : (uint16_t)((x[i] & 0x9fff) | 0x2000);
    return at;
}

/* n integers from low to high. */
static inline zn_addr place_ids(struct both *b, int64_t n, int low, int high)
{
    zn_addr at = place_bytes(b, 4 * n);
    for (int64_t i = 0; i < n; i++)
        ((int32_t *)(void *)(b->image + at))[i] = (int32_t)draw(b, low, high);
    return at;
}

/* Positions of examples one after another, for `rows` rows of sequences of seq_len. */
static inline zn_addr place_examples(struct both *b, int64_t rows, int64_t seq_len)
{
    zn_addr at = place_bytes(b, 4 * rows);
    int32_t *x = (int32_t *)(void *)(b->image + at);
    for (int64_t i = 0; i < rows; i++)
        x[i] = i % seq_len == 0 || draw(b, 0, 20) == 0 ? 0 : x[i - 1] + 1;
    return at;
}

static inline zn_addr place_scratch(struct both *b, int64_t n_bytes)
{
    zn_addr at = place_bits(b, n_bytes);
    assert_true(b->n_scratch < MAX_SCRATCH);
    b->scratch[b->n_scratch].place = at;
    b->scratch[b->n_scratch++].n_bytes = (size_t)n_bytes;
    return at;
}

/* Runs a kernel on one of the devices and takes the memory after it. */
static inline void run_on(struct both *b, int which, zn_kernel kernel, const void *args, size_t n_bytes)
{
    uint64_t moved[64];
    assert_true(n_bytes <= sizeof moved && n_addresses(kernel) > 0);
    memcpy(moved, args, n_bytes);
    for (int i = 0; i < n_addresses(kernel); i++)
        moved[i] += moved[i] ? b->base[which] : 0;
    OK(zn_device_write(b->device[which], b->base[which], b->image, b->used));
    OK(b->device[which]->ops->run(b->device[which], kernel, moved));
    OK(zn_device_read(b->device[which], b->result[which], b->base[which], b->used));
    for (int i = 0; i < b->n_scratch; i++)
        memset(b->result[which] + b->scratch[i].place, 0, b->scratch[i].n_bytes);
}

/* Holds both results to each other. */
static inline void compare(struct both *b, zn_kernel kernel, const char *what)
{
    const uint32_t *x = (const void *)b->result[0], *y = (const void *)b->result[1];
    size_t n_other = 0, first = 0;
    for (size_t i = 0; i < b->used / 4; i++)
        if (x[i] != y[i]) {
            first = n_other ? first : i;
            n_other++;
        }
    if (n_other)
        fail_msg("%s (%s): %zu of %zu words differ, the first at byte %zu: 0x%08x, on %s 0x%08x", zn_kernel_name(kernel), what,
                 n_other, b->used / 4, 4 * first, x[first], b->backend->name, y[first]);
}

#define CHECK_BOTH(b, name, args, what)                                                                                           \
    do {                                                                                                                          \
        const void *args_ = args;                                                                                                 \
        for (int which_ = 0; which_ < 2; which_++)                                                                                \
            run_on(b, which_, ZN_KERNEL_##name, args_, sizeof *(args));                                                           \
        compare(b, ZN_KERNEL_##name, what);                                                                                       \
    } while (0)

#endif
