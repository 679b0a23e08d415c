/* Calls and their arguments in two arrays that grow. */
#include "device/recording.h"

#include <stdlib.h>
#include <string.h>

struct call {
    zn_kernel kernel;
    size_t args; /* where they begin */
    double seconds;
};

struct recording {
    zn_device device;
    zn_device *inner;
    bool is_on;
    struct call *calls;
    size_t n_calls, max_calls;
    unsigned char *args;
    size_t n_bytes, max_bytes;
};

static const size_t args_bytes[ZN_N_KERNELS] = {
#define SIZE(name) [ZN_KERNEL_##name] = sizeof(struct zn_##name##_args),
    ZN_KERNELS(SIZE)
#undef SIZE
};

/* Makes room for one element more; NULL where there is no memory. */
static void *grown(void *array, size_t n, size_t *max, size_t more, size_t size)
{
    if (n + more <= *max)
        return array;
    size_t wanted = 2 * (*max + more);
    void *larger = realloc(array, wanted * size);
    if (larger)
        *max = wanted;
    return larger;
}

static zn_status note_call(struct recording *r, zn_kernel kernel, const void *args, double seconds)
{
    /* Arguments begin where any of them may. */
    size_t size = (args_bytes[kernel] + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
    struct call *calls = grown(r->calls, r->n_calls, &r->max_calls, 1, sizeof *calls);
    if (calls)
        r->calls = calls;
    unsigned char *bytes = grown(r->args, r->n_bytes, &r->max_bytes, size, 1);
    if (bytes)
        r->args = bytes;
    if (!calls || !bytes)
        return zn_fail(ZN_ERR_MEMORY, "no memory for a record of kernels");
    r->calls[r->n_calls++] = (struct call){.kernel = kernel, .args = r->n_bytes, .seconds = seconds};
    memcpy(r->args + r->n_bytes, args, args_bytes[kernel]);
    r->n_bytes += size;
    return ZN_OK;
}

static struct recording *of(zn_device *device)
{
    return (struct recording *)device;
}

static zn_status recording_run(zn_device *device, zn_kernel kernel, const void *args)
{
    struct recording *r = of(device);
    if (!r->is_on)
        return r->inner->ops->run(r->inner, kernel, args);
    double begin = zn_clock_now(device->clock);
    ZN_TRY(r->inner->ops->run(r->inner, kernel, args));
    return note_call(r, kernel, args, zn_clock_now(device->clock) - begin);
}

static void recording_destroy(zn_device *device)
{
    struct recording *r = of(device);
    free(r->calls);
    free(r->args);
    free(r);
}

static zn_status recording_alloc(zn_device *device, size_t n_bytes, zn_addr *address)
{
    return of(device)->inner->ops->alloc(of(device)->inner, n_bytes, address);
}

static void recording_free(zn_device *device, zn_addr address, size_t n_bytes)
{
    of(device)->inner->ops->free(of(device)->inner, address, n_bytes);
}

static zn_status recording_write(zn_device *device, zn_addr dst, const void *src, size_t n_bytes)
{
    return zn_device_write(of(device)->inner, dst, src, n_bytes);
}

static zn_status recording_read(zn_device *device, void *dst, zn_addr src, size_t n_bytes)
{
    return zn_device_read(of(device)->inner, dst, src, n_bytes);
}

static zn_status recording_synchronize(zn_device *device)
{
    return of(device)->inner->ops->synchronize(of(device)->inner);
}

static zn_status recording_record(zn_device *device, zn_event *done)
{
    return of(device)->inner->ops->record(of(device)->inner, done);
}

static zn_status recording_wait(zn_device *device, zn_event *event)
{
    return of(device)->inner->ops->wait(of(device)->inner, event);
}

static const struct zn_device_ops recording_ops = {
    .name = "recording",
    .destroy = recording_destroy,
    .alloc = recording_alloc,
    .free = recording_free,
    .write = recording_write,
    .read = recording_read,
    .run = recording_run,
    .synchronize = recording_synchronize,
    .record = recording_record,
    .wait = recording_wait,
};

zn_status zn_device_create_recording(zn_device *inner, zn_device **device)
{
    if (zn_device_is_discrete(inner))
        return zn_fail(ZN_ERR_UNSUPPORTED, "kernels of %s run beside the calls for them: they are not recorded", inner->ops->name);
    struct recording *r = calloc(1, sizeof *r);
    if (!r)
        return zn_fail(ZN_ERR_MEMORY, "no memory for a device");
    r->device = (zn_device){.ops = &recording_ops, .space = inner->space, .ledger = inner->ledger, .clock = inner->clock};
    r->inner = inner;
    *device = &r->device;
    return ZN_OK;
}

void zn_recording_begin(zn_device *device)
{
    of(device)->n_calls = of(device)->n_bytes = 0;
    of(device)->is_on = true;
}

void zn_recording_end(zn_device *device)
{
    of(device)->is_on = false;
}

struct zn_recorded zn_recording_sum(const zn_device *device, zn_kernel kernel)
{
    const struct recording *r = (const struct recording *)device;
    struct zn_recorded sum = {0};
    for (size_t i = 0; i < r->n_calls; i++) {
        if (r->calls[i].kernel != kernel)
            continue;
        sum.n_calls++;
        sum.seconds += r->calls[i].seconds;
        sum.flops += zn_kernel_cost(kernel, r->args + r->calls[i].args).flops;
    }
    return sum;
}

zn_status zn_recording_repeat(zn_device *device, zn_kernel kernel)
{
    struct recording *r = of(device);
    for (size_t i = 0; i < r->n_calls; i++)
        if (r->calls[i].kernel == kernel)
            ZN_TRY(r->inner->ops->run(r->inner, kernel, r->args + r->calls[i].args));
    return ZN_OK;
}
