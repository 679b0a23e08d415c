/* Making an engine: what each stage keeps, as regions from the manifest. */
#include "zero/engine.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/size.h"
#include "zero/engine_private.h"

enum { STAGING_ELEMENTS = 1 << 18 }; /* a rank's piece when parameters are streamed out */

void zn_engine_plan_fini(zn_engine_plan *plan)
{
    zn_manifest_fini(&plan->manifest);
    zn_lifetimes_destroy(plan->train);
    zn_lifetimes_destroy(plan->evaluate);
    zn_lifetimes_destroy(plan->slots);
    zn_trace_fini(&plan->train_trace);
    zn_trace_fini(&plan->evaluate_trace);
    *plan = (zn_engine_plan){0};
}

bool keeps_parameters(const zn_engine *e)
{
    return e->options.stage < 3 || e->n_ranks == 1;
}

bool keeps_gradients(const zn_engine *e)
{
    return e->options.stage < 2 || e->n_ranks == 1;
}

bool keeps_optimizer(const zn_engine *e)
{
    return e->options.stage < 1 || e->n_ranks == 1;
}

bool is_frozen(const zn_engine *e, const zn_param *p)
{
    return e->options.frozen && e->options.frozen[p->index];
}

size_t width_of_params(const zn_engine *e)
{
    return zn_dtype_bytes(e->options.type);
}

zn_addr whole_at(const zn_engine *e, const struct region *region, size_t width, const zn_param *p,
                 int64_t first)
{
    return region->address + (zn_addr)(e->units.place_of[p->index] + first) * width;
}

zn_addr owned_at(const zn_engine *e, const struct region *region, size_t width, const zn_param *p,
                 int64_t first)
{
    return region->address + (zn_addr)zn_units_owned_place(&e->units, p, first, e->rank) * width;
}

zn_addr partition_at(const zn_engine *e, const struct region *region, size_t width, bool whole, int unit)
{
    const struct zn_unit *u = &e->units.units[unit];
    int64_t place = whole ? u->first + e->rank * u->partition : u->first / e->n_ranks;
    return region->address + (zn_addr)place * width;
}

struct zn_range updated_range(const zn_engine *e, const zn_param *p)
{
    return keeps_optimizer(e) ? (struct zn_range){0, p->n_elements}
                              : zn_units_owned(&e->units, p, e->rank);
}

static zn_status alloc_shared(zn_engine *e, struct region *region, size_t n_bytes)
{
    ZN_TRY(zn_comm_alloc(e->comm, n_bytes, &region->shared));
    region->address = (zn_addr)(uintptr_t)region->shared.address;
    region->is_shared = true;
    zn_ledger_charge(e->device->ledger, ZN_TIER_DEVICE, region->kind, n_bytes);
    return ZN_OK;
}

zn_status region_alloc(zn_engine *e, struct region *region, const char *name, zn_kind kind, size_t n_bytes,
                       bool is_shared)
{
    size_t rounded = zn_round_up(n_bytes, 4096);
    if (rounded == 0)
        return ZN_OK;
    if (e->plan)
        ZN_TRY(zn_manifest_check(&e->plan->manifest, name, ZN_TIER_DEVICE, kind, rounded));
    else
        ZN_TRY(zn_manifest_add(&e->manifest, name, ZN_TIER_DEVICE, kind, rounded));
    struct region r = {.kind = kind, .n_bytes = rounded};
    zn_status status;
    if (is_shared && e->plan) {
        status = alloc_shared(e, &r, rounded);
    } else {
        status = zn_device_alloc(e->device, ZN_TIER_DEVICE, kind, rounded, &r.address);
    }
    if (status != ZN_OK)
        return zn_context(status, "%s", name);
    *region = r;
    return ZN_OK;
}

static void region_free(zn_engine *e, struct region *region)
{
    if (!region->address)
        return;
    if (region->is_shared) {
        zn_comm_free(e->comm, &region->shared);
        zn_ledger_release(e->device->ledger, ZN_TIER_DEVICE, region->kind, region->n_bytes);
    } else {
        zn_device_free(e->device, ZN_TIER_DEVICE, region->kind, region->address, region->n_bytes);
    }
    *region = (struct region){0};
}

/* Elements of all units, or of the own partitions. */
static size_t elements(const zn_engine *e, bool whole)
{
    return (size_t)(whole ? e->units.n_elements : e->units.n_elements / e->n_ranks);
}

/* At stage 3 small units stay gathered; their bytes are buffers, as a rank owns only its part. */
static zn_status alloc_persistent(zn_engine *e)
{
    int64_t at = 0;
    for (int u = 0; u < e->units.n_units; u++) {
        const struct zn_unit *unit = &e->units.units[u];
        bool stays = !keeps_parameters(e) &&
                     (size_t)unit->n_elements * width_of_params(e) <= e->options.persist_bytes;
        e->persistent_at[u] = stays ? at : -1;
        at += stays ? unit->n_elements : 0;
    }
    return region_alloc(e, &e->persistent, "persistent units", ZN_KIND_BUFFERS,
                        (size_t)at * width_of_params(e), false);
}

static zn_status alloc_states(zn_engine *e)
{
    const struct zn_engine_options *o = &e->options;
    ZN_TRY(region_alloc(e, &e->parameters, "parameters", ZN_KIND_PARAMETERS,
                        elements(e, keeps_parameters(e)) * width_of_params(e), true));
    ZN_TRY(alloc_persistent(e));
    if (!o->trains)
        return ZN_OK;
    ZN_TRY(region_alloc(e, &e->gradients, "gradients", ZN_KIND_GRADIENTS,
                        elements(e, keeps_gradients(e)) * sizeof(float), keeps_gradients(e)));
    size_t n = elements(e, keeps_optimizer(e)) * sizeof(float);
    if (o->type != ZN_F32)
        ZN_TRY(region_alloc(e, &e->master, "master", ZN_KIND_OPTIMIZER, n, false));
    if (o->optimizer != ZN_SGD) {
        ZN_TRY(region_alloc(e, &e->exp_avg, "exp_avg", ZN_KIND_OPTIMIZER, n, false));
        return region_alloc(e, &e->exp_avg_sq, "exp_avg_sq", ZN_KIND_OPTIMIZER, n, false);
    }
    if (o->momentum != 0)
        ZN_TRY(region_alloc(e, &e->exp_avg, "momentum", ZN_KIND_OPTIMIZER, n, false));
    return ZN_OK;
}

static zn_status alloc_constants(zn_engine *e)
{
    for (int i = 0; i < e->module->n_constants; i++) {
        const zn_constant *c = &e->module->constants[i];
        size_t n_bytes = (size_t)c->n_elements * sizeof(float);
        ZN_TRY(region_alloc(e, &e->constants[i], c->name, ZN_KIND_BUFFERS, n_bytes, false));
        ZN_TRY(zn_device_write(e->device, e->constants[i].address, c->values, n_bytes));
    }
    return ZN_OK;
}

/* What the recording measured. */
static zn_status alloc_planned(zn_engine *e, size_t arena, size_t add, size_t slots, size_t gathered)
{
    ZN_TRY(region_alloc(e, &e->add, "gradients to add", ZN_KIND_BUFFERS, add, false));
    ZN_TRY(region_alloc(e, &e->slots, "gradient slots", ZN_KIND_BUFFERS, slots, true));
    ZN_TRY(region_alloc(e, &e->gathered, "gathered units", ZN_KIND_BUFFERS, gathered, false));
    return region_alloc(e, &e->arena, "arena", ZN_KIND_ACTIVATIONS, arena, false);
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static zn_status alloc_buffers(zn_engine *e)
{
    const struct zn_engine_options *o = &e->options;
    const zn_engine_plan *p = e->plan;
    size_t n_tokens = (size_t)(o->micro_batch * o->time) * sizeof(int32_t);
    size_t n_partial = elements(e, true) / ZN_SUM_ELEMENTS + 1;
    ZN_TRY(region_alloc(e, &e->ids, "ids", ZN_KIND_BUFFERS, n_tokens, false));
    ZN_TRY(region_alloc(e, &e->targets, "targets", ZN_KIND_BUFFERS, n_tokens, false));
    ZN_TRY(region_alloc(e, &e->sums, "sums", ZN_KIND_BUFFERS, N_SUMS * sizeof(double), false));
    if (o->trains) {
        ZN_TRY(region_alloc(e, &e->partial, "partial sums", ZN_KIND_BUFFERS, n_partial * sizeof(double),
                            false));
        ZN_TRY(region_alloc(e, &e->staging, "staging", ZN_KIND_BUFFERS,
                            (size_t)(e->n_ranks > 1 ? e->n_ranks + 1 : 1) * STAGING_ELEMENTS * sizeof(float), true));
    }
    if (!p)
        return ZN_OK;
    return alloc_planned(e, p->arena_bytes, p->add_bytes, p->slots ? zn_lifetimes_peak(p->slots) : 0,
                         larger(p->train_trace.region_bytes, p->evaluate_trace.region_bytes));
}

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
    size_t n_params = (size_t)e->module->n_params, n_units = (size_t)e->units.n_units;
    e->gradient_state = calloc(n_params, 1);
    e->add_address = calloc(n_params, sizeof *e->add_address);
    e->constants = calloc((size_t)e->module->n_constants + 1, sizeof *e->constants);
    e->persistent_at = calloc(n_units, sizeof *e->persistent_at);
    e->unit_state = calloc(n_units, sizeof *e->unit_state);
    if (!e->gradient_state || !e->add_address || !e->constants || !e->persistent_at || !e->unit_state)
        return zn_fail(ZN_ERR_MEMORY, "no memory for an engine");
    for (size_t u = 0; u < n_units; u++) {
        zn_event_init(&e->unit_state[u].done);
        zn_event_init(&e->unit_state[u].published);
    }
    return ZN_OK;
}

static zn_status build(zn_engine *e)
{
    e->add_bytes = e->plan ? e->plan->add_bytes : 0;
    ZN_TRY(zn_units_init(&e->units, e->module, e->options.type, e->n_ranks));
    ZN_TRY(alloc_lists(e));
    ZN_TRY(zn_tape_create(e->device, &zn_engine_hooks, e, e->options.type, &e->tape));
    ZN_TRY(prepare_recording(e));
    ZN_TRY(gathers_init(e));
    ZN_TRY(alloc_states(e));
    ZN_TRY(alloc_constants(e));
    return alloc_buffers(e);
}

zn_status zn_engine_create(zn_device *device, zn_comm *comm, const zn_module *module,
                           const struct zn_engine_options *options, const zn_engine_plan *plan,
                           zn_engine **engine)
{
    zn_engine *e = calloc(1, sizeof *e);
    if (!e)
        return zn_fail(ZN_ERR_MEMORY, "no memory for an engine");
    e->device = device;
    e->comm = comm;
    e->rank = zn_comm_rank(comm);
    e->n_ranks = zn_comm_n_ranks(comm);
    e->module = module;
    e->options = *options;
    e->plan = plan;
    zn_manifest_init(&e->manifest);
    zn_trace_init(&e->train_trace);
    zn_trace_init(&e->evaluate_trace);
    zn_status status = build(e);
    if (status != ZN_OK) {
        zn_engine_destroy(e);
        return status;
    }
    *engine = e;
    return ZN_OK;
}

void zn_engine_destroy(zn_engine *e)
{
    if (!e)
        return;
    for (int u = 0; e->unit_state && u < e->units.n_units; u++) {
        unit_wait(e, u);
        if (e->unit_state[u].publishing)
            zn_event_wait(&e->unit_state[u].published, e->device->clock);
        zn_event_fini(&e->unit_state[u].done);
        zn_event_fini(&e->unit_state[u].published);
    }
    gathers_fini(e);
    struct region *regions[] = {&e->parameters, &e->persistent, &e->gradients, &e->master,
                                &e->exp_avg,    &e->exp_avg_sq, &e->ids,       &e->targets,
                                &e->sums,       &e->partial,    &e->arena,     &e->add,
                                &e->slots,      &e->gathered,   &e->staging};
    for (size_t i = 0; i < sizeof regions / sizeof regions[0]; i++)
        region_free(e, regions[i]);
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
    free(e->unit_state);
    free(e->persistent_at);
    free(e->gradient_state);
    free(e->add_address);
    free(e);
}

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
    struct zn_trace_options options = {e->options.prefetch_bytes, e->options.reuse_bytes};
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
        ZN_TRY(zn_lifetimes_pack(passes[i]));
        peak[i] = zn_lifetimes_peak(passes[i]);
    }
    ZN_TRY(plan_gathers(e));
    size_t arena = larger(peak[0], peak[1]);
    ZN_TRY(alloc_planned(e, arena, e->add_bytes, peak[2],
                         larger(e->train_trace.region_bytes, e->evaluate_trace.region_bytes)));
    *plan = (zn_engine_plan){.manifest = e->manifest,
                             .train = e->train,
                             .evaluate = e->evaluate,
                             .slots = e->slot_lifetimes,
                             .train_trace = e->train_trace,
                             .evaluate_trace = e->evaluate_trace,
                             .arena_bytes = arena,
                             .add_bytes = e->add_bytes};
    zn_manifest_init(&e->manifest);
    zn_trace_init(&e->train_trace);
    zn_trace_init(&e->evaluate_trace);
    e->train = e->evaluate = e->slot_lifetimes = NULL;
    return ZN_OK;
}
