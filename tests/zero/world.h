/* Steps of the real engine in a simulated world: virtual time, ledger and traffic. */
#ifndef ZN_TESTS_ZERO_WORLD_H
#define ZN_TESTS_ZERO_WORLD_H

#include <stdlib.h>

#include "models/model.h"
#include "plan/dry_run.h"
#include "zero/recorder.h"

struct world_rates {
    struct zn_sim_rates device, host;
    struct zn_sim_links links;
    double read_bytes, write_bytes;
};

struct world_result {
    double first, second; /* seconds of two steps */
    uint64_t read, written, sent;
    uint64_t bytes_out, bytes_in; /* between a device apart and the host */
    uint64_t own_elements;        /* whose states the rank has */
    zn_ledger ledger;
    size_t planned[ZN_N_TIERS];
};

#define WORLD_OK(call) assert_int_equal(call, ZN_OK)

/* Two steps of a model given by its config.json. */
static inline struct world_result simulate(const char *config, const struct zn_engine_options *options,
                                           const struct world_rates *rates)
{
    struct world_result r = {0};
    zn_json *json;
    zn_model *model;
    zn_engine_plan plan;
    zn_clock clock;
    struct zn_world world = {0};
    zn_engine *engine;
    struct zn_verdict verdict;
    WORLD_OK(zn_json_load_buffer(config, strlen(config), "config", &json));
    WORLD_OK(zn_model_create(json, options->seq_len, &model));
    WORLD_OK(zn_dry_run(model->module, options, rates->links.n_ranks, &plan));
    for (int tier = 0; tier < ZN_N_TIERS; tier++)
        r.planned[tier] = zn_manifest_bytes(&plan.manifest, (zn_tier)tier, ZN_N_KINDS);
    zn_ledger_init(&r.ledger);
    zn_clock_init_virtual(&clock);
    WORLD_OK(zn_device_create_sim(&r.ledger, &clock, &rates->device, &world.device));
    WORLD_OK(zn_device_create_sim(&r.ledger, &clock, &rates->host, &world.host));
    WORLD_OK(zn_comm_create_sim(&clock, &rates->links, &world.comm));
    struct zn_sim_storage storage = {
        .n_bytes = plan.swap_bytes + 4096, .read_bytes = rates->read_bytes, .write_bytes = rates->write_bytes};
    WORLD_OK(zn_storage_create_sim(&clock, &storage, &world.storage));
    WORLD_OK(zn_zero_create(&world, model->module, options, &plan, &engine));
    WORLD_OK(zn_engine_publish(engine));
    int32_t *tokens = calloc((size_t)(options->micro_batch * options->seq_len), sizeof *tokens);
    struct zn_micro_batch batches[16];
    for (int i = 0; i < 16; i++)
        batches[i] = (struct zn_micro_batch){.ids = tokens, .targets = tokens};
    struct zn_step step = {.batches = batches, .scale = 1, .lr = 1e-3, .loss_scale = 1};
    for (int i = 0; i < 2; i++) {
        double start = zn_clock_now(&clock);
        WORLD_OK(zn_zero_step(engine, &step, &verdict));
        WORLD_OK(world.device->ops->synchronize(world.device));
        *(i ? &r.second : &r.first) = zn_clock_now(&clock) - start;
    }
    WORLD_OK(zn_zero_finish(engine)); /* what is left of the update counts */
    r.bytes_out = world.device->bytes_out;
    r.bytes_in = world.device->bytes_in;
    zn_units units;
    struct zn_params params = zn_module_params(model->module);
    WORLD_OK(zn_units_init(&units, &params,
                           &(struct zn_units_options){
                               .type = options->type, .n_ranks = rates->links.n_ranks, .tile_bytes = options->tile_bytes}));
    r.own_elements = (uint64_t)(units.n_elements / rates->links.n_ranks);
    zn_units_fini(&units);
    r.read = zn_storage_bytes_read(world.storage);
    r.written = zn_storage_bytes_written(world.storage);
    for (int kind = 0; kind < ZN_N_COMM_KINDS; kind++)
        r.sent += zn_comm_sent(world.comm, (zn_comm_kind)kind);
    zn_zero_destroy(engine);
    zn_storage_destroy(world.storage);
    zn_comm_destroy(world.comm);
    zn_device_destroy(world.host);
    zn_device_destroy(world.device);
    zn_engine_plan_fini(&plan);
    zn_model_destroy(model);
    zn_json_destroy(json);
    free(tokens);
    return r;
}

#endif
