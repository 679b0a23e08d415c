/* The engine with its plan on the sim device, communicator and storage. */
#include "plan/simulate.h"

#include <stdlib.h>
#include <string.h>

/* Between the first and the last, all micro-batches are alike: of many, so many are run. */
enum { FEW_BATCHES = 4 };

struct sim {
    zn_clock clock;
    zn_ledger ledger;
    struct zn_world world;
    zn_comm *groups[ZN_N_AXES]; /* where parameters are sliced, else NULL */
    zn_timeline *timeline;
};

static void sim_fini(struct sim *s)
{
    zn_storage_destroy(s->world.storage);
    zn_comm_destroy_groups(s->groups);
    zn_comm_destroy(s->world.comm);
    zn_device_destroy(s->world.host);
    zn_device_destroy(s->world.device);
    zn_timeline_destroy(s->timeline);
}

static void trace_all(struct sim *s)
{
    zn_device_trace(s->world.device, s->timeline, ZN_TRACK_COMPUTE);
    if (s->world.host)
        zn_device_trace(s->world.host, s->timeline, ZN_TRACK_HOST);
    zn_comm_trace(s->world.comm, s->timeline);
    if (s->world.tensor) {
        zn_comm_trace(s->world.replica, s->timeline);
        zn_comm_trace(s->world.tensor, s->timeline);
    }
    if (s->world.storage)
        zn_storage_trace(s->world.storage, s->timeline);
}

/* A device apart has the host for updates; a processor makes those beside other work with one of its cores. */
static zn_status create_host(struct sim *s, const struct zn_sim_machine *m, const struct zn_engine_options *o)
{
    struct zn_sim_rates one_core = m->device;
    if (!zn_placement_wants_host(o))
        return ZN_OK;
    if (o->is_discrete || m->cores == 0)
        return zn_device_create_sim(&s->ledger, &s->clock, &m->host, &s->world.host);
    double part = m->cores > 1 ? 1 / m->cores : 1;
    one_core.n_cores = 1;
    one_core.memory_bytes *= part;
    one_core.link_bytes = 0;
    for (int k = 0; k < ZN_N_KERNELS; k++)
        one_core.kernel[k] *= part;
    one_core.cores = s->world.device;
    one_core.cores_part = part;
    return zn_device_create_sim(&s->ledger, &s->clock, &one_core, &s->world.host);
}

/* On a processor one core copies and adds for the others; a single rank does it itself, where the others wait. */
static zn_status create_comm(struct sim *s, const struct zn_sim_machine *m, int n_slices)
{
    struct zn_sim_links links = m->links;
    if (m->cores > 0) {
        links.cores = zn_device_sim_stream(s->world.device);
        links.cores_part = links.n_ranks > 1 && m->cores > 1 ? 1 / m->cores : 1;
    }
    ZN_TRY(zn_comm_create_sim(&s->clock, &links, &s->world.comm));
    if (n_slices < 2)
        return ZN_OK;
    ZN_TRY(zn_comm_split(s->world.comm, &(struct zn_mesh){links.n_ranks / n_slices, 1, n_slices}, s->groups));
    s->world.replica = s->groups[ZN_REPLICA];
    s->world.tensor = s->groups[ZN_TENSOR];
    return ZN_OK;
}

static zn_status sim_init(struct sim *s, const struct zn_sim_machine *machine, const struct zn_engine_options *o,
                          uint64_t swap_bytes, bool keeps_spans)
{
    *s = (struct sim){0};
    struct zn_sim_rates device = machine->device;
    if (!o->is_discrete)
        device.link_bytes = 0;
    zn_clock_init_virtual(&s->clock);
    zn_ledger_init(&s->ledger);
    const struct zn_sim_storage drive = {
        .n_bytes = swap_bytes, .read_bytes = machine->nvme_bytes, .write_bytes = machine->nvme_bytes};
    zn_status status = zn_timeline_create(keeps_spans, &s->timeline);
    if (status == ZN_OK)
        status = zn_device_create_sim(&s->ledger, &s->clock, &device, &s->world.device);
    if (status == ZN_OK)
        status = create_host(s, machine, o);
    if (status == ZN_OK)
        status = create_comm(s, machine, o->n_slices);
    if (status == ZN_OK && swap_bytes > 0)
        status = zn_storage_create_sim(&s->clock, &drive, &s->world.storage);
    if (status == ZN_OK)
        trace_all(s);
    else
        sim_fini(s);
    return status;
}

/* Counted and timed since the start. */
static struct zn_sim_step so_far(const struct sim *s, const zn_engine *engine)
{
    const zn_comm *comm = s->world.replica ? s->world.replica : s->world.comm;
    struct zn_sim_step sum = {
        .gather = zn_comm_sent(comm, ZN_COMM_GATHER_PARAM) + zn_comm_sent(comm, ZN_COMM_GATHER_GRAD),
        .reduce = zn_comm_sent(comm, ZN_COMM_REDUCE_GRAD),
        .slices = s->world.tensor ? zn_comm_sent(s->world.tensor, ZN_COMM_ACTIVATIONS) : 0,
        .host_bytes = s->world.device->bytes_out + s->world.device->bytes_in,
        .flops = zn_device_sim_flops(s->world.device),
        .seconds = zn_clock_now(&s->clock)};
    sum.nvme_read = zn_engine_moved(engine).read;
    sum.nvme_write = zn_engine_moved(engine).written;
    return sum;
}

/* a + n × (b - c) */
static struct zn_sim_step extended(struct zn_sim_step a, uint64_t n, struct zn_sim_step b, struct zn_sim_step c)
{
    a.gather += n * (b.gather - c.gather);
    a.reduce += n * (b.reduce - c.reduce);
    a.slices += n * (b.slices - c.slices);
    a.nvme_read += n * (b.nvme_read - c.nvme_read);
    a.nvme_write += n * (b.nvme_write - c.nvme_write);
    a.host_bytes += n * (b.host_bytes - c.host_bytes);
    a.flops += (double)n * (b.flops - c.flops);
    a.seconds += (double)n * (b.seconds - c.seconds);
    for (int i = 0; i < ZN_N_RESOURCES; i++) {
        a.resource[i].busy += (double)n * (b.resource[i].busy - c.resource[i].busy);
        a.resource[i].exposed += (double)n * (b.resource[i].exposed - c.resource[i].exposed);
    }
    return a;
}

/* Of the step that began at `begin` and has ended now. */
static void take_account(struct sim *s, double begin, struct zn_sim_step *step)
{
    static const unsigned tracks[ZN_N_RESOURCES] = {
        [ZN_COMPUTE] = ZN_TRACK_BIT(ZN_TRACK_COMPUTE),
        [ZN_UPDATES] = ZN_TRACK_BIT(ZN_TRACK_HOST),
        [ZN_COMMUNICATION] = ZN_TRACK_BIT(ZN_TRACK_COMM),
        [ZN_HOST_LINK] = ZN_TRACK_BIT(ZN_TRACK_COPY_OUT) | ZN_TRACK_BIT(ZN_TRACK_COPY_IN),
        [ZN_NVME] = ZN_TRACK_BIT(ZN_TRACK_NVME),
    };
    double end = zn_clock_now(&s->clock);
    for (int i = 0; i < ZN_N_RESOURCES; i++) {
        step->resource[i].busy = zn_timeline_measure(s->timeline, tracks[i], 0, begin, end);
        step->resource[i].exposed = zn_timeline_measure(s->timeline, tracks[i], tracks[ZN_COMPUTE], begin, end);
    }
    memcpy(step->tier_peak, s->ledger.tier_peak, sizeof step->tier_peak);
    memcpy(step->kind_peak, s->ledger.kind_peak, sizeof step->kind_peak);
}

/* What comes from before the step is there from the second on; where updates run beside other work, from the third. */
static int n_steps(const struct sim *s)
{
    return s->world.host ? 3 : 2;
}

static zn_status run_steps(struct sim *s, zn_engine *engine, const struct zn_micro_batch *batches,
                           const struct zn_sim_trace *trace, struct zn_sim_step *step)
{
    struct zn_sim_step before = {0};
    for (int i = 0; i < n_steps(s); i++) {
        struct zn_verdict verdict;
        before = so_far(s, engine);
        zn_timeline_start(s->timeline, before.seconds);
        ZN_TRY(zn_zero_step(engine, &(struct zn_step){.batches = batches, .scale = 1, .loss_scale = 1}, &verdict));
        ZN_TRY(s->world.device->ops->synchronize(s->world.device));
    }
    *step = extended((struct zn_sim_step){0}, 1, so_far(s, engine), before);
    take_account(s, before.seconds, step);
    if (trace)
        return zn_timeline_write(s->timeline, trace->path, trace->process, before.seconds, zn_clock_now(&s->clock));
    return zn_timeline_status(s->timeline);
}

static zn_status run_engine(const zn_module *module, const struct zn_engine_options *options, const zn_engine_plan *plan,
                            const struct zn_sim_machine *machine, const struct zn_sim_trace *trace, struct zn_sim_step *step)
{
    struct sim s;
    zn_engine *engine = NULL;
    size_t n_tokens = (size_t)(options->micro_batch * options->seq_len);
    int32_t *tokens = calloc(n_tokens, sizeof *tokens);
    struct zn_micro_batch *batches = calloc((size_t)options->accumulate, sizeof *batches);
    zn_status status = ZN_OK;
    if (!batches || !tokens)
        status = zn_fail(ZN_ERR_MEMORY, "no memory for %lld batches of %zu tokens", (long long)options->accumulate,
                         n_tokens);
    for (int64_t a = 0; batches && a < options->accumulate; a++)
        batches[a] = (struct zn_micro_batch){.ids = tokens, .targets = tokens, .sequences = options->has_pairs ? tokens : NULL};
    if (status == ZN_OK)
        status = sim_init(&s, machine, options, plan->swap_bytes, trace != NULL);
    if (status == ZN_OK) {
        status = zn_zero_create(&s.world, module, options, plan, &engine);
        if (status == ZN_OK)
            status = run_steps(&s, engine, batches, trace, step);
        zn_zero_destroy(engine);
        sim_fini(&s);
    }
    free(batches);
    free(tokens);
    return status;
}

zn_status zn_simulate_step(const zn_module *module, const struct zn_engine_options *options,
                           const zn_engine_plan *plan, const struct zn_sim_machine *machine,
                           const struct zn_sim_trace *trace, struct zn_sim_step *step)
{
    struct zn_engine_options o = *options;
    struct zn_sim_step few, fewer;
    int64_t more = 0;
    if (o.delay_after > 0) /* as in all steps after so many */
        o.delay_after = 0;
    if (!trace && !o.vertical && o.accumulate > FEW_BATCHES) {
        more = o.accumulate - FEW_BATCHES;
        o.accumulate = FEW_BATCHES - 1;
        ZN_TRY(run_engine(module, &o, plan, machine, NULL, &fewer));
        o.accumulate = FEW_BATCHES;
    }
    ZN_TRY(run_engine(module, &o, plan, machine, trace, &few));
    *step = more ? extended(few, (uint64_t)more, few, fewer) : few;
    return ZN_OK;
}
