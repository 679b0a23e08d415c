/* Runs a recording engine on sim. */
#include "plan/dry_run.h"

#include <stdlib.h>

static zn_status run_step(zn_engine *engine, int64_t n_batches, const struct zn_micro_batch *batch)
{
    struct zn_verdict verdict;
    struct zn_micro_batch *all = calloc((size_t)n_batches, sizeof *all);
    if (!all)
        return zn_fail(ZN_ERR_MEMORY, "no memory for %lld micro-batches", (long long)n_batches);
    for (int64_t a = 0; a < n_batches; a++)
        all[a] = *batch;
    zn_status status =
        zn_engine_step(engine, &(struct zn_step){.batches = all, .scale = 1, .loss_scale = 1}, &verdict);
    free(all);
    return status;
}

/* A step, then an evaluation. */
static zn_status run_passes(zn_engine *engine, const struct zn_engine_options *options,
                            const int32_t *tokens)
{
    double loss;
    const struct zn_micro_batch batch = {
        .ids = tokens, .targets = tokens, .position_ids = options->has_examples ? tokens : NULL};
    if (options->extends)
        return zn_engine_extend(engine, tokens, options->time, NULL);
    if (options->trains)
        ZN_TRY(run_step(engine, options->accumulate, &batch));
    if (options->evaluates || !options->trains)
        ZN_TRY(zn_engine_evaluate(engine, &batch, &loss));
    return ZN_OK;
}

zn_status zn_dry_run(const zn_module *module, const struct zn_engine_options *options, int n_ranks,
                     zn_engine_plan *plan)
{
    zn_ledger ledger;
    zn_clock clock;
    zn_device *device = NULL, *host = NULL;
    zn_comm *comm = NULL;
    zn_engine *engine = NULL;
    const struct zn_sim_rates host_rates = {.flops = 1e12, .memory_bytes = 1e11};
    struct zn_sim_rates rates = host_rates;
    rates.link_bytes = options->is_apart ? 1e10 : 0;
    const struct zn_sim_links links = {
        .n_ranks = n_ranks, .ranks_per_node = n_ranks, .node_bytes = 1e11, .network_bytes = 1e11};
    zn_ledger_init(&ledger);
    zn_clock_init_virtual(&clock);
    int32_t *tokens = calloc((size_t)(options->micro_batch * options->time), sizeof *tokens);
    if (!tokens)
        return zn_fail(ZN_ERR_MEMORY, "no memory for a batch of %lld × %lld tokens",
                       (long long)options->micro_batch, (long long)options->time);
    zn_status status = zn_device_create_sim(&ledger, &clock, &rates, &device);
    if (status == ZN_OK)
        status = zn_device_create_sim(&ledger, &clock, &host_rates, &host);
    if (status == ZN_OK)
        status = zn_comm_create_sim(&clock, &links, &comm);
    if (status == ZN_OK)
        status = zn_engine_create(&(struct zn_world){.device = device, .host = host, .comm = comm}, module, options, NULL, &engine);
    if (status == ZN_OK)
        status = run_passes(engine, options, tokens);
    if (status == ZN_OK)
        status = zn_engine_take_plan(engine, plan);
    zn_engine_destroy(engine);
    zn_comm_destroy(comm);
    zn_device_destroy(host);
    zn_device_destroy(device);
    free(tokens);
    return status;
}
