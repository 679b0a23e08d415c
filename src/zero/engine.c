/* Making an engine, ending it, and taking its plan. */
#include "zero/engine.h"

#include <stdlib.h>

#include "zero/engine_private.h"

void zn_engine_plan_fini(zn_engine_plan *plan)
{
    zn_manifest_fini(&plan->manifest);
    zn_lifetimes_destroy(plan->train);
    zn_lifetimes_destroy(plan->evaluate);
    zn_lifetimes_destroy(plan->slots);
    zn_trace_fini(&plan->train_trace);
    zn_trace_fini(&plan->evaluate_trace);
    free(plan->episodes);
    *plan = (zn_engine_plan){0};
}

/* ---- Life ---- */

static zn_status prepare_recording(zn_engine *e)
{
    if (e->plan)
        return ZN_OK;
    if (e->options.trains) {
        ZN_TRY(zn_lifetimes_create(&e->train));
        ZN_TRY(zn_lifetimes_create(&e->slot_lifetimes));
        ZN_TRY(zn_lifetimes_create(&e->repeat_slots));
    }
    if (e->options.evaluates || !e->options.trains)
        ZN_TRY(zn_lifetimes_create(&e->evaluate));
    return ZN_OK;
}

static zn_status alloc_lists(zn_engine *e)
{
    size_t n_parts = (size_t)e->units.n_parts, n_units = (size_t)e->units.n_units;
    e->gradient_state = calloc(n_parts, 2);
    e->again_at = calloc(n_units, sizeof *e->again_at);
    e->add_address = calloc(n_parts, sizeof *e->add_address);
    e->constants = calloc((size_t)e->module->n_constants + 1, sizeof *e->constants);
    e->persistent_at = calloc(n_units, sizeof *e->persistent_at);
    e->unit_state = calloc(n_units, sizeof *e->unit_state);
    e->flying = calloc(2 * n_units, sizeof *e->flying);
    if (!e->gradient_state || !e->again_at || !e->add_address || !e->constants || !e->persistent_at || !e->unit_state || !e->flying)
        return zn_fail(ZN_ERR_MEMORY, "no memory for an engine");
    for (size_t u = 0; u < n_units; u++) {
        e->unit_state[u].engine = e;
        zn_event_init(&e->unit_state[u].done);
        zn_event_init(&e->unit_state[u].prior_read);
        zn_event_init(&e->unit_state[u].written);
        zn_event_init(&e->unit_state[u].published);
        zn_event_init(&e->unit_state[u].stored);
        zn_event_init(&e->unit_state[u].taken);
        zn_event_init(&e->unit_state[u].updated);
        zn_event_set(&e->unit_state[u].updated, ZN_OK, NULL, 0);
    }
    return ZN_OK;
}

static zn_status build(zn_engine *e)
{
    if (e->plan) {
        e->add_bytes = e->plan->add_bytes;
        e->episodes = e->plan->episodes;
        e->n_episodes = e->plan->n_episodes;
        e->saved_elements = e->plan->saved_elements;
        e->n_saved = e->plan->n_saved;
    }
    ZN_TRY(check_device(e));
    if (e->options.trains)
        ZN_TRY(zn_optimizer_check(e->options.optimizer));
    ZN_TRY(zn_units_init(&e->units, e->module,
                         &(struct zn_units_options){.type = e->options.type,
                                                    .n_ranks = e->n_ranks,
                                                    .tile_bytes = e->options.tile_bytes}));
    ZN_TRY(alloc_lists(e));
    ZN_TRY(zn_tape_create(e->device, &zn_engine_hooks, e, e->options.type, &e->tape));
    if (!e->options.trains)
        zn_tape_keep_fp32(e->tape);
    e->next_publish = e->n_issued = e->units.n_units;
    if (needs_updater(e))
        ZN_TRY(zn_stream_create_thread(e->device->clock, &e->updater));
    ZN_TRY(prepare_recording(e));
    ZN_TRY(gathers_init(e));
    ZN_TRY(alloc_states(e));
    ZN_TRY(alloc_constants(e));
    return alloc_buffers(e);
}

zn_status zn_engine_create(const struct zn_world *world, const zn_module *module,
                           const struct zn_engine_options *options, const zn_engine_plan *plan,
                           zn_engine **engine)
{
    zn_engine *e = calloc(1, sizeof *e);
    if (!e)
        return zn_fail(ZN_ERR_MEMORY, "no memory for an engine");
    e->device = world->device;
    e->host = world->host ? world->host : world->device;
    e->comm = world->comm;
    e->storage = plan ? world->storage : NULL;
    e->rank = zn_comm_rank(e->comm);
    e->n_ranks = zn_comm_n_ranks(e->comm);
    e->module = module;
    e->options = *options;
    e->plan = plan;
    e->loading[0] = e->loading[1] = -1;
    for (int i = 0; i < 2; i++) {
        zn_event_init(&e->save_done[i]);
        zn_event_init(&e->load_done[i]);
        zn_event_init(&e->save_ready[i]);
        zn_event_init(&e->save_left[i]);
        zn_event_init(&e->load_left[i]);
        e->leaving[i] = -1;
        zn_event_init(&e->load_free[i]);
    }
    zn_event_init(&e->before_sweep);
    zn_event_init(&e->swept);
    zn_manifest_init(&e->manifest);
    zn_trace_init(&e->train_trace);
    zn_trace_init(&e->evaluate_trace);
    zn_status status = build(e);
    if (status != ZN_OK) {
        zn_comm_abort(e->comm, status); /* the others may be sharing memory that is not to be freed together */
        zn_engine_destroy(e);
        return status;
    }
    *engine = e;
    return ZN_OK;
}

/* Nothing may be under way into memory that is freed next, and no event may be waited for. */
static void quiesce(zn_engine *e)
{
    activations_end_pass(e);
    zn_stream_destroy(e->updater);
    e->device->ops->synchronize(e->device);
    for (int u = 0; e->unit_state && u < e->units.n_units; u++) {
        struct unit_state *us = &e->unit_state[u];
        if (us->flight != FLIGHT_NONE && e->plan)
            zn_event_wait(&us->done, e->device->clock);
        if (us->publishing)
            zn_event_wait(&us->published, e->device->clock);
        if (us->storing)
            zn_event_wait(&us->stored, e->device->clock);
        if (us->marked)
            zn_event_wait(&us->updated, e->device->clock);
        zn_event_fini(&us->done);
        zn_event_fini(&us->prior_read);
        zn_event_fini(&us->written);
        zn_event_fini(&us->published);
        zn_event_fini(&us->stored);
        zn_event_fini(&us->taken);
        zn_event_fini(&us->updated);
    }
    zn_event_fini(&e->before_sweep);
    zn_event_fini(&e->swept);
    gathers_fini(e);
    pipeline_fini(e);
    for (int i = 0; i < 2; i++) {
        zn_event_fini(&e->save_done[i]);
        zn_event_fini(&e->load_done[i]);
        zn_event_fini(&e->save_ready[i]);
        zn_event_fini(&e->save_left[i]);
        zn_event_fini(&e->load_left[i]);
        zn_event_fini(&e->load_free[i]);
    }
}

void zn_engine_destroy(zn_engine *e)
{
    if (!e)
        return;
    quiesce(e);
    struct region *regions[] = {&e->next, &e->parameters, &e->persistent,   &e->gradients, &e->pending, &e->again, &e->master,
                                &e->pipeline,  &e->ids,     &e->targets,
                                &e->position_ids, &e->logits,     &e->keys_and_values,
                                &e->sums,       &e->squares,      &e->partial,   &e->arena,   &e->add,
                                &e->slots,      &e->gathered,     &e->fetched,   &e->staging, &e->saved,
                                &e->save_staging, &e->save_landing, &e->landed,  &e->pack,    &e->unpack,
                                &e->widened,    &e->earlier};
    for (size_t i = 0; i < sizeof regions / sizeof regions[0]; i++)
        region_free(e, regions[i]);
    for (int i = 0; i < ZN_MAX_OPTIMIZER_STATES; i++)
        region_free(e, &e->states[i]);
    struct extent *extents[] = {&e->swap_parameters, &e->swap_next, &e->swap_gradients, &e->swap_pending, &e->swap_states,
                                &e->swap_activations};
    for (size_t i = 0; i < sizeof extents / sizeof extents[0]; i++)
        extent_free(e, extents[i]);
    for (int i = 0; e->constants && i < e->module->n_constants; i++)
        region_free(e, &e->constants[i]);
    free(e->constants);
    zn_lifetimes_destroy(e->train);
    zn_lifetimes_destroy(e->evaluate);
    zn_lifetimes_destroy(e->slot_lifetimes);
    zn_lifetimes_destroy(e->repeat);
    zn_lifetimes_destroy(e->repeat_slots);
    zn_trace_fini(&e->train_trace);
    zn_trace_fini(&e->evaluate_trace);
    zn_manifest_fini(&e->manifest);
    zn_tape_destroy(e->tape);
    zn_units_fini(&e->units);
    if (!e->plan)
        free(e->episodes);
    free(e->unit_state);
    free(e->flying);
    free(e->persistent_at);
    free(e->again_at);
    free(e->gradient_state);
    free(e->add_address);
    free(e);
}

/* ---- The plan ---- */

/* Gathers of stage 3 are planned from the traces; units that are always there need none. */
static zn_status plan_gathers(zn_engine *e)
{
    size_t *n_bytes = calloc((size_t)e->units.n_units, sizeof *n_bytes);
    if (!n_bytes)
        return zn_fail(ZN_ERR_MEMORY, "no memory for the plan of gathers");
    for (int u = 0; u < e->units.n_units; u++) {
        bool gathered = !keeps_parameters(e) && e->persistent_at[u] < 0;
        n_bytes[u] = gathered ? (size_t)e->units.units[u].n_elements * width_of_params(e) : 0;
    }
    bool fetches = fetches_parameters(e);
    struct zn_trace_options options = {.prefetch_bytes = e->options.prefetch_bytes,
                                       .reuse_bytes = e->options.reuse_bytes,
                                       .fetch_ranks = fetches ? e->n_ranks : 0};
    zn_status status = zn_trace_plan(&e->train_trace, n_bytes, &options);
    if (status == ZN_OK)
        status = zn_trace_plan(&e->evaluate_trace, n_bytes, &options);
    free(n_bytes);
    return status;
}

zn_status zn_engine_take_plan(zn_engine *e, zn_engine_plan *plan)
{
    zn_lifetimes *passes[] = {e->train, e->evaluate, e->slot_lifetimes};
    size_t peak[3] = {0};
    for (int i = 0; i < 3; i++) {
        if (!passes[i])
            continue;
        if (e->options.has_examples || e->options.extends) /* passes of fewer tokens follow the longest */
            zn_lifetimes_allow_smaller(passes[i]);
        ZN_TRY(zn_lifetimes_pack(passes[i]));
        peak[i] = zn_lifetimes_peak(passes[i]);
    }
    ZN_TRY(plan_gathers(e));
    size_t arena = larger(peak[0], peak[1]);
    ZN_TRY(alloc_planned(e, &(struct measured){
                                .arena = arena,
                                .add = e->add_bytes,
                                .cache = e->cache.n_bytes,
                                .slots = peak[2],
                                .gathered = larger(e->train_trace.region_bytes, e->evaluate_trace.region_bytes),
                                .fetched = larger(e->train_trace.fetch_bytes, e->evaluate_trace.fetch_bytes)}));
    *plan = (zn_engine_plan){.manifest = e->manifest,
                             .train = e->train,
                             .evaluate = e->evaluate,
                             .slots = e->slot_lifetimes,
                             .train_trace = e->train_trace,
                             .evaluate_trace = e->evaluate_trace,
                             .arena_bytes = arena,
                             .add_bytes = e->add_bytes,
                             .cache_bytes = e->cache.n_bytes,
                             .episodes = e->episodes,
                             .n_episodes = e->n_episodes,
                             .saved_elements = e->saved_elements,
                             .n_saved = e->n_saved,
                             .swap_bytes = e->swap_bytes};
    zn_manifest_init(&e->manifest);
    zn_trace_init(&e->train_trace);
    zn_trace_init(&e->evaluate_trace);
    e->train = e->evaluate = e->slot_lifetimes = NULL;
    e->episodes = NULL;
    e->n_episodes = 0;
    return ZN_OK;
}
