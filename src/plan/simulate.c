/* The engine with its plan on the sim device, communicator and storage. */
#include "plan/simulate.h"

#include <stdlib.h>

/* Between the first and the last, all micro-batches are alike: of many, so many are run. */
enum { FEW_BATCHES = 4 };

struct sim {
    zn_clock clock;
    zn_ledger ledger;
    struct zn_world world;
};

static void sim_fini(struct sim *s)
{
    zn_storage_destroy(s->world.storage);
    zn_comm_destroy(s->world.comm);
    zn_device_destroy(s->world.host);
    zn_device_destroy(s->world.device);
}

static zn_status sim_init(struct sim *s, const struct zn_sim_machine *machine, const struct zn_engine_options *options,
                          uint64_t swap_bytes)
{
    *s = (struct sim){0};
    struct zn_sim_rates device = machine->device;
    if (!options->is_apart)
        device.link_bytes = 0;
    zn_clock_init_virtual(&s->clock);
    zn_ledger_init(&s->ledger);
    const struct zn_sim_storage drive = {
        .n_bytes = swap_bytes, .read_bytes = machine->nvme_bytes, .write_bytes = machine->nvme_bytes};
    zn_status status = zn_device_create_sim(&s->ledger, &s->clock, &device, &s->world.device);
    if (status == ZN_OK && zn_engine_wants_host(options))
        status = zn_device_create_sim(&s->ledger, &s->clock, &machine->host, &s->world.host);
    if (status == ZN_OK)
        status = zn_comm_create_sim(&s->clock, &machine->links, &s->world.comm);
    if (status == ZN_OK && swap_bytes > 0)
        status = zn_storage_create_sim(&s->clock, &drive, &s->world.storage);
    if (status != ZN_OK)
        sim_fini(s);
    return status;
}

/* Counted and timed since the start. */
static struct zn_sim_step so_far(const struct sim *s, const zn_engine *engine)
{
    const zn_comm *comm = s->world.comm;
    struct zn_sim_step sum = {
        .gather = zn_comm_sent(comm, ZN_COMM_GATHER_PARAM) + zn_comm_sent(comm, ZN_COMM_GATHER_GRAD),
        .reduce = zn_comm_sent(comm, ZN_COMM_REDUCE_GRAD),
        .host_bytes = s->world.device->bytes_out + s->world.device->bytes_in,
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
    a.nvme_read += n * (b.nvme_read - c.nvme_read);
    a.nvme_write += n * (b.nvme_write - c.nvme_write);
    a.host_bytes += n * (b.host_bytes - c.host_bytes);
    a.seconds += (double)n * (b.seconds - c.seconds);
    return a;
}

/* What comes from before the step is there from the second on; where updates run beside other work, from the third. */
static int n_steps(const struct sim *s)
{
    return s->world.host ? 3 : 2;
}

static zn_status run_steps(struct sim *s, zn_engine *engine, const int32_t *const *tokens, struct zn_sim_step *step)
{
    struct zn_sim_step before = {0};
    for (int i = 0; i < n_steps(s); i++) {
        struct zn_verdict verdict;
        before = so_far(s, engine);
        ZN_TRY(zn_engine_step(engine, &(struct zn_step){.ids = tokens, .targets = tokens, .scale = 1, .loss_scale = 1},
                              &verdict));
        ZN_TRY(s->world.device->ops->synchronize(s->world.device));
    }
    *step = extended((struct zn_sim_step){0}, 1, so_far(s, engine), before);
    return ZN_OK;
}

static zn_status run_engine(const zn_module *module, const struct zn_engine_options *options, const zn_engine_plan *plan,
                            const struct zn_sim_machine *machine, struct zn_sim_step *step)
{
    struct sim s;
    zn_engine *engine = NULL;
    size_t n_tokens = (size_t)(options->micro_batch * options->time);
    int32_t *batch = calloc(n_tokens, sizeof *batch);
    const int32_t **tokens = calloc((size_t)options->accumulate, sizeof *tokens);
    zn_status status = ZN_OK;
    if (!batch || !tokens)
        status = zn_fail(ZN_ERR_MEMORY, "no memory for %lld batches of %zu tokens", (long long)options->accumulate,
                         n_tokens);
    for (int64_t a = 0; tokens && a < options->accumulate; a++)
        tokens[a] = batch;
    if (status == ZN_OK)
        status = sim_init(&s, machine, options, plan->swap_bytes);
    if (status == ZN_OK) {
        status = zn_engine_create(&s.world, module, options, plan, &engine);
        if (status == ZN_OK)
            status = run_steps(&s, engine, tokens, step);
        zn_engine_destroy(engine);
        sim_fini(&s);
    }
    free(tokens);
    free(batch);
    return status;
}

zn_status zn_simulate_step(const zn_module *module, const struct zn_engine_options *options,
                           const zn_engine_plan *plan, const struct zn_sim_machine *machine,
                           struct zn_sim_step *step)
{
    struct zn_engine_options o = *options;
    struct zn_sim_step few, fewer;
    int64_t more = 0;
    if (o.delay_after > 0) /* as in all steps after so many */
        o.delay_after = 0;
    if (!o.vertical && o.accumulate > FEW_BATCHES) {
        more = o.accumulate - FEW_BATCHES;
        o.accumulate = FEW_BATCHES - 1;
        ZN_TRY(run_engine(module, &o, plan, machine, &fewer));
        o.accumulate = FEW_BATCHES;
    }
    ZN_TRY(run_engine(module, &o, plan, machine, &few));
    *step = more ? extended(few, (uint64_t)more, few, fewer) : few;
    return ZN_OK;
}
