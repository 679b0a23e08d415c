/* A device without memory: addresses name nothing, a kernel takes virtual time by its cost. */
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "device/device.h"

#define FIRST_ADDRESS (UINT64_C(1) << 40)
enum { PAGE = 4096 };

struct sim {
    zn_device device;
    struct zn_sim_rates rates;
    zn_stream *compute, *out, *in; /* the last two NULL where memory is the host's */
    zn_addr next; /* never handed out before */
    double flops; /* asked for so far */
};

static void sim_destroy(zn_device *device)
{
    struct sim *sim = (struct sim *)device;
    zn_stream_destroy(sim->compute);
    zn_stream_destroy(sim->out);
    zn_stream_destroy(sim->in);
    free(sim);
}

static zn_status sim_alloc(zn_device *device, size_t n_bytes, zn_addr *address)
{
    struct sim *sim = (struct sim *)device;
    char text[ZN_SIZE_TEXT];
    if (n_bytes > UINT64_MAX - PAGE - sim->next)
        return zn_fail(ZN_ERR_MEMORY, "no addresses left for %s on the sim device",
                       zn_size_text(n_bytes, text));
    *address = sim->next;
    sim->next += zn_round_up(n_bytes ? n_bytes : 1, PAGE);
    return ZN_OK;
}

static void sim_free(zn_device *device, zn_addr address, size_t n_bytes)
{
    (void)device, (void)address, (void)n_bytes;
}

static zn_status sim_synchronize(zn_device *device)
{
    return zn_stream_synchronize(((struct sim *)device)->compute);
}

static zn_status sim_write(zn_device *device, zn_addr dst, const void *src, size_t n_bytes)
{
    (void)dst, (void)src, (void)n_bytes;
    return sim_synchronize(device);
}

static zn_status sim_read(zn_device *device, void *dst, zn_addr src, size_t n_bytes)
{
    (void)src;
    ZN_TRY(sim_synchronize(device));
    if (n_bytes)
        memset(dst, 0, n_bytes);
    return ZN_OK;
}

/* What a product takes beside its flops: B is widened and packed however few rows there are, and gradients of weights come
 * from memory. */
static double product_overhead(const struct zn_sim_rates *rates, const struct zn_gemm_args *g)
{
    double weights = rates->weights[g->b_type], sums = g->transpose_a ? rates->token_sums[g->adds] : 0;
    return (weights > 0 ? (double)g->k * (double)g->n / weights : 0) + (sums > 0 ? (double)g->m * (double)g->n / sums : 0);
}

/* At a rate that was measured for the kernel, or the longer of computing and moving. */
static double kernel_seconds(const struct zn_sim_rates *rates, zn_kernel kernel, const void *args)
{
    struct zn_kernel_cost cost = zn_kernel_cost(kernel, args);
    const struct zn_gemm_args *product = kernel == ZN_KERNEL_gemm ? args : NULL;
    double rate = product ? rates->gemm[product->b_type] : rates->kernel[kernel];
    double computing = cost.flops / rates->flops, moving = cost.n_bytes / rates->memory_bytes;
    if (rates->n_cores > 0 && rate > 0)
        return zn_kernel_work(kernel, args, rates->n_cores) / rate + (product ? product_overhead(rates, product) : 0);
    return computing > moving ? computing : moving;
}

static zn_status sim_run(zn_device *device, zn_kernel kernel, const void *args)
{
    struct sim *sim = (struct sim *)device;
    sim->flops += zn_kernel_cost(kernel, args).flops;
    struct zn_task task = {
        .seconds = sim->rates.launch + kernel_seconds(&sim->rates, kernel, args),
        .mark = {.timeline = device->timeline, .track = device->track, .label = zn_kernel_name(kernel)},
    };
    return zn_stream_submit(sim->compute, &task);
}

static zn_status sim_record(zn_device *device, zn_event *done)
{
    return zn_stream_submit(((struct sim *)device)->compute, &(struct zn_task){.done = done});
}

static zn_status sim_wait(zn_device *device, zn_event *event)
{
    return zn_stream_submit(((struct sim *)device)->compute, &(struct zn_task){.after = {event}});
}

/* The link has one speed each way, however many lanes share it. */
static zn_status sim_copy(zn_device *device, zn_lane lane, const struct zn_transfer *t)
{
    struct sim *sim = (struct sim *)device;
    bool out = zn_lane_is_out(lane);
    struct zn_task task = {.seconds = (double)t->n_bytes / sim->rates.link_bytes,
                           .after = {t->after[0], t->after[1]},
                           .done = t->done,
                           .mark = {.timeline = sim->device.timeline,
                                    .track = out ? ZN_TRACK_COPY_OUT : ZN_TRACK_COPY_IN,
                                    .label = "copy",
                                    .n_bytes = t->n_bytes}};
    return zn_stream_submit(out ? sim->out : sim->in, &task);
}

#define SIM_OPS                                                                                    \
    .name = "sim", .destroy = sim_destroy, .alloc = sim_alloc, .free = sim_free, .write = sim_write,             \
    .read = sim_read, .run = sim_run, .synchronize = sim_synchronize, .record = sim_record, .wait = sim_wait

static const struct zn_device_ops sim_ops = {SIM_OPS};
static const struct zn_device_ops sim_apart_ops = {SIM_OPS, .copy = sim_copy};

zn_stream *zn_device_sim_stream(zn_device *device)
{
    return ((struct sim *)device)->compute;
}

double zn_device_sim_flops(const zn_device *device)
{
    return ((const struct sim *)device)->flops;
}

zn_status zn_device_create_sim(zn_ledger *ledger, zn_clock *clock, const struct zn_sim_rates *rates,
                               zn_device **device)
{
    if (!clock->is_virtual)
        return zn_fail(ZN_ERR_USAGE, "the sim device needs a virtual clock");
    if (!(rates->flops > 0) || !(rates->memory_bytes > 0) || !(rates->launch >= 0) ||
        !(rates->link_bytes >= 0))
        return zn_fail(ZN_ERR_USAGE, "the sim device needs positive rates, not %g flop/s and %g B/s",
                       rates->flops, rates->memory_bytes);
    struct sim *sim = calloc(1, sizeof *sim);
    if (!sim)
        return zn_fail(ZN_ERR_MEMORY, "no memory for a device");
    sim->device = (zn_device){.ops = rates->link_bytes > 0 ? &sim_apart_ops : &sim_ops, .ledger = ledger, .clock = clock};
    sim->rates = *rates;
    sim->next = FIRST_ADDRESS;
    zn_status status = zn_stream_create_virtual(clock, &sim->compute);
    if (status == ZN_OK && rates->link_bytes > 0)
        status = zn_stream_create_virtual(clock, &sim->out);
    if (status == ZN_OK && rates->link_bytes > 0)
        status = zn_stream_create_virtual(clock, &sim->in);
    if (status != ZN_OK) {
        sim_destroy(&sim->device);
        return status;
    }
    if (rates->cores)
        zn_stream_share(sim->compute, zn_device_sim_stream(rates->cores), rates->cores_part);
    *device = &sim->device;
    return ZN_OK;
}
