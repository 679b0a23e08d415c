/* The processor as a device with memory of its own, so that bits can be compared: copies run on lanes with threads of
 * their own. Kernels run at once, or on a thread that lags behind by chance, as do then the copies: such a device is
 * ordered by events alone, as real ones are. The seed decides the lags. */
#ifndef ZN_TESTS_ZERO_DISCRETE_DEVICE_H
#define ZN_TESTS_ZERO_DISCRETE_DEVICE_H

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/rng.h"
#include "device/device.h"

/* A stream, and how late its tasks are. */
struct lagging {
    zn_stream *stream;
    uint64_t key;     /* of the lags; 0: none */
    uint64_t n_tasks; /* so far; only the stream's thread has it */
};

struct discrete {
    zn_device device;
    zn_device *inner;
    struct lagging compute, lanes[ZN_N_LANES];
};

union kernel_args {
#define MEMBER(name) struct zn_##name##_args name;
    ZN_KERNELS(MEMBER)
#undef MEMBER
};

/* A kernel or a copy on its way. */
struct launch {
    struct lagging *on;
    zn_device *inner; /* NULL: a copy */
    zn_kernel kernel;
    union kernel_args args;
    struct zn_transfer copy;
};

/* Most tasks are in time, one in eight is late and one in 64 very late. */
static inline void lag(struct lagging *on)
{
    if (!on->key)
        return;
    uint64_t bits = zn_random_bits(on->key, on->n_tasks++);
    if (bits % 8 == 0)
        usleep((useconds_t)((bits >> 32) % (bits % 64 == 0 ? 3000 : 300)));
}

static inline zn_status discrete_launch(void *arg)
{
    struct launch *l = arg;
    zn_status status = ZN_OK;
    lag(l->on);
    if (l->inner)
        status = l->inner->ops->run(l->inner, l->kernel, &l->args);
    else if (l->copy.n_bytes)
        memcpy((void *)(uintptr_t)l->copy.to, (const void *)(uintptr_t)l->copy.from, l->copy.n_bytes);
    free(l);
    return status;
}

static inline zn_status discrete_run(zn_device *device, zn_kernel kernel, const void *args)
{
    static const size_t n_bytes[ZN_N_KERNELS] = {
#define SIZE(name) [ZN_KERNEL_##name] = sizeof(struct zn_##name##_args),
        ZN_KERNELS(SIZE)
#undef SIZE
    };
    struct discrete *d = (struct discrete *)device;
    struct launch *l = malloc(sizeof *l);
    assert_non_null(l);
    *l = (struct launch){.on = &d->compute, .inner = d->inner, .kernel = kernel};
    memcpy(&l->args, args, n_bytes[kernel]);
    return zn_stream_submit(d->compute.stream, &(struct zn_task){.run = discrete_launch, .arg = l});
}

static inline zn_status discrete_copy(zn_device *device, zn_lane lane, const struct zn_transfer *t)
{
    struct lagging *on = &((struct discrete *)device)->lanes[lane];
    struct launch *l = malloc(sizeof *l);
    assert_non_null(l);
    *l = (struct launch){.on = on, .copy = *t};
    return zn_stream_submit(on->stream, &(struct zn_task){.run = discrete_launch,
                                                          .arg = l,
                                                          .after = {t->after[0], t->after[1]},
                                                          .done = t->done});
}

static inline zn_status discrete_synchronize(zn_device *device)
{
    return zn_stream_synchronize(((struct discrete *)device)->compute.stream);
}

static inline zn_status discrete_record(zn_device *device, zn_event *done)
{
    return zn_stream_submit(((struct discrete *)device)->compute.stream, &(struct zn_task){.done = done});
}

static inline zn_status discrete_wait(zn_device *device, zn_event *event)
{
    return zn_stream_submit(((struct discrete *)device)->compute.stream, &(struct zn_task){.after = {event}});
}

static inline zn_status discrete_write(zn_device *device, zn_addr dst, const void *src, size_t n_bytes)
{
    ZN_TRY(discrete_synchronize(device));
    return zn_device_write(((struct discrete *)device)->inner, dst, src, n_bytes);
}

static inline zn_status discrete_read(zn_device *device, void *dst, zn_addr src, size_t n_bytes)
{
    ZN_TRY(discrete_synchronize(device));
    return zn_device_read(((struct discrete *)device)->inner, dst, src, n_bytes);
}

static inline zn_status discrete_alloc(zn_device *device, size_t n_bytes, zn_addr *address)
{
    zn_device *inner = ((struct discrete *)device)->inner;
    return inner->ops->alloc(inner, n_bytes, address);
}

static inline void discrete_free(zn_device *device, zn_addr address, size_t n_bytes)
{
    zn_device *inner = ((struct discrete *)device)->inner;
    inner->ops->free(inner, address, n_bytes);
}

static inline void discrete_destroy(zn_device *device)
{
    struct discrete *d = (struct discrete *)device;
    zn_stream_destroy(d->compute.stream);
    for (int lane = 0; lane < ZN_N_LANES; lane++)
        zn_stream_destroy(d->lanes[lane].stream);
    zn_device_destroy(d->inner);
    free(d);
}

/* `seed` 0: kernels run at once and nothing lags. */
static inline zn_device *discrete_create(zn_ledger *ledger, zn_clock *clock, uint64_t seed)
{
    static const struct zn_device_ops ops = {.name = "discrete",
                                             .destroy = discrete_destroy,
                                             .alloc = discrete_alloc,
                                             .free = discrete_free,
                                             .write = discrete_write,
                                             .read = discrete_read,
                                             .run = discrete_run,
                                             .synchronize = discrete_synchronize,
                                             .record = discrete_record,
                                             .wait = discrete_wait,
                                             .copy = discrete_copy};
    struct discrete *d = calloc(1, sizeof *d);
    assert_non_null(d);
    d->device = (zn_device){.ops = &ops, .space = ZN_SPACE_HOST, .ledger = ledger, .clock = clock};
    assert_int_equal(zn_device_create_cpu(ledger, clock, 1, NULL, &d->inner), ZN_OK);
    if (seed)
        assert_int_equal(zn_stream_create_thread(clock, &d->compute.stream), ZN_OK);
    else
        assert_int_equal(zn_stream_create_inline(clock, &d->compute.stream), ZN_OK);
    d->compute.key = seed ? zn_random_key(seed, "compute") : 0;
    for (int lane = 0; lane < ZN_N_LANES; lane++) {
        assert_int_equal(zn_stream_create_thread(clock, &d->lanes[lane].stream), ZN_OK);
        d->lanes[lane].key = seed ? zn_random_bits(zn_random_key(seed, "lanes"), (uint64_t)lane) : 0;
    }
    return &d->device;
}

#endif
