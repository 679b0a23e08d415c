/* Making an engine: what each stage keeps in which tier, as regions and extents from the manifest. */
#include "zero/engine.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/size.h"
#include "zero/engine_private.h"

enum { STAGING_ELEMENTS = 1 << 18 }; /* a rank's piece when states are streamed out */

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

bool is_on_nvme(zn_tier tier)
{
    return tier == ZN_TIER_NVME;
}

static bool is_apart(const zn_engine *e)
{
    return zn_device_is_apart(e->device);
}

bool parameters_come(const zn_engine *e)
{
    return is_apart(e) && e->options.offload.parameters != ZN_TIER_DEVICE;
}

bool parameters_return(const zn_engine *e)
{
    return is_apart(e) && e->options.offload.optimizer != ZN_TIER_DEVICE && !parameters_come(e);
}

bool gradients_leave(const zn_engine *e)
{
    return is_apart(e) && e->options.offload.gradients != ZN_TIER_DEVICE;
}

bool keeps_parameters(const zn_engine *e)
{
    bool whole = e->options.stage < 3 || e->n_ranks == 1;
    return whole && !is_on_nvme(e->options.offload.parameters) && !parameters_come(e);
}

bool keeps_gradients(const zn_engine *e)
{
    return (e->options.stage < 2 || e->n_ranks == 1) && !is_on_nvme(e->options.offload.gradients) && !gradients_leave(e);
}

bool has_master(const zn_engine *e)
{
    return e->options.type != ZN_F32 || parameters_return(e) || e->options.delay_after >= 0;
}

zn_device *states_device(const zn_engine *e)
{
    return parameters_return(e) || parameters_come(e) ? e->host : e->device;
}

zn_device *gradients_device(const zn_engine *e)
{
    return gradients_leave(e) ? e->host : e->device;
}

/* What a device apart has a path for: states are updated where they are, so what the update reads and writes is on one
 * side of the link. */
static zn_status check_device(const zn_engine *e)
{
    const struct zn_offload *off = &e->options.offload;
    if (is_apart(e) != e->options.is_apart || (e->options.is_apart && e->host == e->device))
        return zn_fail(ZN_ERR_INTERNAL, "the engine was not made for such a device");
    if (!e->options.is_apart || !e->options.trains)
        return ZN_OK;
    bool away = off->optimizer != ZN_TIER_DEVICE;
    if (away != (off->gradients != ZN_TIER_DEVICE))
        return zn_fail(ZN_ERR_UNSUPPORTED, "on a device with memory of its own the gradients go where the optimizer is: "
                                           "both on the device, or both away from it");
    if (off->parameters != ZN_TIER_DEVICE && !away)
        return zn_fail(ZN_ERR_UNSUPPORTED, "on a device with memory of its own parameters are offloaded only with the "
                                           "optimizer");
    if (away && e->options.stage < 2 && e->n_ranks > 1)
        return zn_fail(ZN_ERR_UNSUPPORTED, "on a device with memory of its own the optimizer leaves it only at stages 2 and 3");
    return ZN_OK;
}

bool keeps_optimizer(const zn_engine *e)
{
    return e->options.stage < 1 || e->n_ranks == 1;
}

bool is_frozen(const zn_engine *e, const struct zn_part *part)
{
    return e->options.frozen && e->options.frozen[part->param];
}

size_t width_of_params(const zn_engine *e)
{
    return zn_dtype_bytes(e->options.type);
}

void *pointer_of(zn_addr address)
{
    return (void *)(uintptr_t)address;
}

int64_t own_first(const zn_engine *e, int unit)
{
    return keeps_optimizer(e) ? e->units.units[unit].first : e->units.units[unit].first / e->n_ranks;
}

int64_t own_count(const zn_engine *e, int unit)
{
    return keeps_optimizer(e) ? e->units.units[unit].n_elements : e->units.units[unit].partition;
}

int64_t own_total(const zn_engine *e)
{
    return keeps_optimizer(e) ? e->units.n_elements : e->units.n_elements / e->n_ranks;
}

struct zn_range own_range(const zn_engine *e, const struct zn_part *part)
{
    return keeps_optimizer(e) ? (struct zn_range){0, part->n_elements} : zn_units_owned(&e->units, part, e->rank);
}

zn_addr own_at(const zn_engine *e, const struct region *region, size_t width, bool whole, int unit, int64_t at)
{
    const struct zn_unit *u = &e->units.units[unit];
    int64_t place = whole ? u->first + (keeps_optimizer(e) ? 0 : e->rank * u->partition) : u->first / e->n_ranks;
    return region->address + (zn_addr)(place + at) * width;
}

zn_addr whole_at(const zn_engine *e, const struct region *region, size_t width, const struct zn_part *part,
                 int64_t first)
{
    (void)e;
    return region->address + (zn_addr)(part->place + first) * width;
}

zn_addr partition_at(const zn_engine *e, const struct region *region, size_t width, bool whole, int unit)
{
    const struct zn_unit *u = &e->units.units[unit];
    int64_t place = whole ? u->first + e->rank * u->partition : u->first / e->n_ranks;
    return region->address + (zn_addr)place * width;
}

/* ---- Regions and extents ---- */

static zn_status plan_buffer(zn_engine *e, const char *name, zn_tier tier, zn_kind kind, size_t n_bytes)
{
    if (e->plan)
        return zn_manifest_check(&e->plan->manifest, name, tier, kind, n_bytes);
    return zn_manifest_add(&e->manifest, name, tier, kind, n_bytes);
}

static zn_status alloc_shared(zn_engine *e, struct region *region)
{
    ZN_TRY(zn_comm_alloc(e->comm, region->n_bytes, &region->shared));
    region->address = (zn_addr)(uintptr_t)region->shared.address;
    region->is_shared = true;
    if (!region->address) /* on sim nothing is shared, but addresses are not 0 */
        ZN_TRY(e->device->ops->alloc(e->device, region->n_bytes, &region->address));
    zn_ledger_charge(e->device->ledger, region->tier, region->kind, region->n_bytes);
    return ZN_OK;
}

zn_status region_alloc(zn_engine *e, struct region *region, const char *name, zn_tier tier, zn_kind kind,
                       size_t n_bytes, bool is_shared)
{
    struct region r = {.tier = tier, .kind = kind, .n_bytes = zn_round_up(n_bytes, 4096)};
    if (r.n_bytes == 0)
        return ZN_OK;
    ZN_TRY(plan_buffer(e, name, tier, kind, r.n_bytes));
    zn_device *device = tier == ZN_TIER_HOST ? e->host : e->device;
    zn_status status = is_shared && e->plan ? alloc_shared(e, &r) : zn_device_alloc(device, tier, kind, r.n_bytes, &r.address);
    if (status != ZN_OK)
        return zn_context(status, "%s", name);
    *region = r;
    return ZN_OK;
}

static void region_free(zn_engine *e, struct region *region)
{
    if (region->n_bytes == 0)
        return;
    if (region->is_shared) {
        zn_comm_free(e->comm, &region->shared);
        zn_ledger_release(e->device->ledger, region->tier, region->kind, region->n_bytes);
    } else {
        zn_device_free(region->tier == ZN_TIER_HOST ? e->host : e->device, region->tier, region->kind, region->address,
                       region->n_bytes);
    }
    *region = (struct region){0};
}

static zn_status extent_alloc(zn_engine *e, struct extent *extent, const char *name, zn_kind kind, size_t n_bytes)
{
    size_t rounded = zn_round_up(n_bytes, ZN_STORAGE_ALIGNMENT);
    if (rounded == 0)
        return ZN_OK;
    ZN_TRY(plan_buffer(e, name, ZN_TIER_NVME, kind, rounded));
    *extent = (struct extent){.offset = e->swap_bytes, .n_bytes = rounded, .kind = kind};
    e->swap_bytes += rounded;
    zn_ledger_charge(e->device->ledger, ZN_TIER_NVME, kind, rounded);
    return ZN_OK;
}

static void extent_free(zn_engine *e, struct extent *extent)
{
    zn_ledger_release(e->device->ledger, ZN_TIER_NVME, extent->kind, extent->n_bytes);
    *extent = (struct extent){0};
}

/* ---- Model states ---- */

/* Elements of all units, or of the own partitions. */
static size_t elements(const zn_engine *e, bool whole)
{
    return (size_t)(whole ? e->units.n_elements : e->units.n_elements / e->n_ranks);
}

/* At stage 3 small units stay gathered; their bytes are buffers, as a rank owns only its part. */
static zn_status alloc_persistent(zn_engine *e)
{
    int64_t at = 0;
    bool can = !keeps_parameters(e) && !is_on_nvme(e->options.offload.parameters) && !parameters_come(e);
    for (int u = 0; u < e->units.n_units; u++) {
        const struct zn_unit *unit = &e->units.units[u];
        bool stays = can && (size_t)unit->n_elements * width_of_params(e) <= e->options.persist_bytes;
        e->persistent_at[u] = stays ? at : -1;
        at += stays ? unit->n_elements : 0;
    }
    return region_alloc(e, &e->persistent, "persistent units", ZN_TIER_DEVICE, ZN_KIND_BUFFERS,
                        (size_t)at * width_of_params(e), false);
}

static zn_status alloc_parameters(zn_engine *e)
{
    zn_tier tier = e->options.offload.parameters;
    size_t n_bytes = elements(e, keeps_parameters(e)) * width_of_params(e);
    if (is_on_nvme(tier))
        return extent_alloc(e, &e->swap_parameters, "parameters", ZN_KIND_PARAMETERS,
                            elements(e, false) * width_of_params(e));
    return region_alloc(e, &e->parameters, "parameters", tier, ZN_KIND_PARAMETERS, n_bytes, !parameters_come(e));
}

/* Of delayed updates: the parameters that take the place of the present ones when the step ends. */
static zn_status alloc_next(zn_engine *e)
{
    zn_tier tier = states_device(e) == e->device ? e->options.offload.parameters : ZN_TIER_HOST;
    size_t n_bytes = (size_t)own_total(e) * width_of_params(e);
    if (e->options.delay_after < 0)
        return ZN_OK;
    if (is_on_nvme(e->options.offload.parameters))
        return extent_alloc(e, &e->swap_next, "next parameters", ZN_KIND_PARAMETERS, n_bytes);
    return region_alloc(e, &e->next, "next parameters", tier, ZN_KIND_PARAMETERS, n_bytes, false);
}

/* With delayed updates there are two sets: the present ones and those to be applied. */
static zn_status alloc_gradients(zn_engine *e)
{
    zn_tier tier = e->options.offload.gradients;
    size_t n_bytes = elements(e, keeps_gradients(e)) * sizeof(float);
    bool delayed = e->options.delay_after >= 0;
    if (is_on_nvme(tier)) {
        ZN_TRY(extent_alloc(e, &e->swap_gradients, "gradients", ZN_KIND_GRADIENTS, n_bytes));
        return delayed ? extent_alloc(e, &e->swap_pending, "pending gradients", ZN_KIND_GRADIENTS, n_bytes) : ZN_OK;
    }
    ZN_TRY(region_alloc(e, &e->gradients, "gradients", tier, ZN_KIND_GRADIENTS, n_bytes, keeps_gradients(e)));
    if (!delayed)
        return ZN_OK;
    return region_alloc(e, &e->pending, "pending gradients", tier, ZN_KIND_GRADIENTS, n_bytes, keeps_gradients(e));
}

static zn_status alloc_optimizer(zn_engine *e)
{
    const struct zn_engine_options *o = &e->options;
    zn_tier tier = is_on_nvme(o->offload.optimizer) ? ZN_TIER_HOST : o->offload.optimizer;
    size_t n = (size_t)e->cached * sizeof(float), swapped = (size_t)(own_total(e) - e->cached) * sizeof(float);
    ZN_TRY(extent_alloc(e, &e->swap_states, "optimizer states", ZN_KIND_OPTIMIZER, swapped * n_arrays(e)));
    if (has_master(e))
        ZN_TRY(region_alloc(e, &e->master, "master", tier, ZN_KIND_OPTIMIZER, n, false));
    if (o->optimizer != ZN_SGD) {
        ZN_TRY(region_alloc(e, &e->exp_avg, "exp_avg", tier, ZN_KIND_OPTIMIZER, n, false));
        return region_alloc(e, &e->exp_avg_sq, "exp_avg_sq", tier, ZN_KIND_OPTIMIZER, n, false);
    }
    if (o->momentum != 0)
        ZN_TRY(region_alloc(e, &e->exp_avg, "momentum", tier, ZN_KIND_OPTIMIZER, n, false));
    return ZN_OK;
}

static zn_status alloc_states(zn_engine *e)
{
    ZN_TRY(alloc_parameters(e));
    ZN_TRY(alloc_persistent(e));
    ZN_TRY(pipeline_init(e));
    if (!e->options.trains)
        return ZN_OK;
    ZN_TRY(alloc_gradients(e));
    ZN_TRY(alloc_next(e));
    return alloc_optimizer(e);
}

/* ---- Buffers ---- */

static zn_status alloc_buffer(zn_engine *e, struct region *region, const char *name, size_t n_bytes)
{
    return region_alloc(e, region, name, ZN_TIER_DEVICE, ZN_KIND_BUFFERS, n_bytes, false);
}

static zn_status alloc_constants(zn_engine *e)
{
    for (int i = 0; i < e->module->n_constants; i++) {
        const zn_constant *c = &e->module->constants[i];
        size_t n_bytes = (size_t)c->n_elements * sizeof(float);
        ZN_TRY(alloc_buffer(e, &e->constants[i], c->name, n_bytes));
        ZN_TRY(zn_device_write(e->device, e->constants[i].address, c->values, n_bytes));
    }
    return ZN_OK;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* What the recording measured. */
struct measured {
    size_t arena, add, slots, gathered, fetched;
};

/* A device apart casts in its own memory; what goes on to NVMe passes through the host's. */
static zn_status alloc_saved(zn_engine *e)
{
    size_t n_bytes = saved_bytes(e), all = (size_t)e->n_saved * n_bytes;
    bool swapped = is_on_nvme(e->options.offload.activations);
    struct region *through_host = is_apart(e) ? &e->save_landing : &e->save_staging;
    if (e->options.offload.activations == ZN_TIER_DEVICE)
        return ZN_OK;
    if (is_apart(e))
        ZN_TRY(region_alloc(e, &e->save_staging, "checkpoints to copy", ZN_TIER_DEVICE, ZN_KIND_BUFFERS, 4 * n_bytes, false));
    if (!swapped)
        return region_alloc(e, &e->saved, "activation checkpoints", ZN_TIER_HOST, ZN_KIND_ACTIVATIONS, all, false);
    ZN_TRY(extent_alloc(e, &e->swap_activations, "activation checkpoints", ZN_KIND_ACTIVATIONS, all));
    ZN_TRY(region_alloc(e, through_host, "checkpoint staging", ZN_TIER_HOST, ZN_KIND_BUFFERS, 4 * n_bytes, false));
    if (e->storage && n_bytes)
        zn_storage_register(e->storage, pointer_of(through_host->address), through_host->n_bytes);
    return ZN_OK;
}

/* Units used twice in a pass, where gradients are added up over micro-batches before they are summed. */
static zn_status alloc_again(zn_engine *e)
{
    int64_t at = 0;
    bool wanted = e->options.trains && !writes_slots(e) && !e->options.reduce_every && e->options.accumulate > 1 &&
                  !e->options.vertical;
    for (int u = 0; u < e->units.n_units; u++)
        e->again_at[u] = -1;
    for (int k = 0; wanted && k < e->n_episodes; k++) {
        const struct zn_episode *episode = &e->episodes[k];
        if (episode->is_first || e->again_at[episode->unit] >= 0)
            continue;
        e->again_at[episode->unit] = at;
        at += e->units.units[episode->unit].n_elements;
    }
    return region_alloc(e, &e->again, "gradients of second uses", ZN_TIER_DEVICE, ZN_KIND_BUFFERS,
                        (size_t)at * sizeof(float), true);
}

/* Own partitions on their way to be gathered. */
static zn_status alloc_fetched(zn_engine *e, size_t n_bytes)
{
    if (!parameters_come(e))
        return region_alloc(e, &e->fetched, "fetched partitions", ZN_TIER_HOST, ZN_KIND_BUFFERS, n_bytes, true);
    if (e->n_ranks > 1)
        ZN_TRY(region_alloc(e, &e->fetched, "fetched partitions", ZN_TIER_DEVICE, ZN_KIND_BUFFERS, n_bytes, true));
    if (!is_on_nvme(e->options.offload.parameters))
        return ZN_OK;
    return region_alloc(e, &e->landed, "partitions to copy", ZN_TIER_HOST, ZN_KIND_BUFFERS, n_bytes, false);
}

static zn_status alloc_planned(zn_engine *e, const struct measured *m)
{
    ZN_TRY(alloc_again(e));
    ZN_TRY(alloc_buffer(e, &e->add, "gradients to add", m->add));
    ZN_TRY(region_alloc(e, &e->slots, "gradient slots", ZN_TIER_DEVICE, ZN_KIND_BUFFERS, m->slots, true));
    ZN_TRY(alloc_buffer(e, &e->gathered, "gathered units", m->gathered));
    ZN_TRY(alloc_fetched(e, m->fetched));
    ZN_TRY(alloc_saved(e));
    return region_alloc(e, &e->arena, "arena", ZN_TIER_DEVICE, ZN_KIND_ACTIVATIONS, m->arena, false);
}

/* Micro-batches whose tokens are on the device at once. */
static size_t n_batches(const zn_engine *e)
{
    return e->options.vertical ? (size_t)e->options.accumulate : 1;
}

/* One rank's gradients leave in the bits to which they are rounded, sums over ranks in fp32. The host adds to what it
 * has, or to what it reads from NVMe. */
static zn_status alloc_leaving(zn_engine *e, size_t n_elements)
{
    size_t width = e->n_ranks == 1 ? width_of_params(e) : sizeof(float), wide = n_elements * sizeof(float);
    bool swapped = is_on_nvme(e->options.offload.gradients);
    if (e->n_ranks == 1 && width < sizeof(float))
        ZN_TRY(alloc_buffer(e, &e->pack, "gradients that leave", 2 * n_elements * width));
    ZN_TRY(region_alloc(e, &e->unpack, "gradients that arrive", ZN_TIER_HOST, ZN_KIND_BUFFERS, 2 * n_elements * width, false));
    ZN_TRY(region_alloc(e, &e->widened, "gradients to add on the host", ZN_TIER_HOST, ZN_KIND_BUFFERS, 2 * wide, false));
    if (!swapped)
        return ZN_OK;
    return region_alloc(e, &e->earlier, "gradients to add to", ZN_TIER_HOST, ZN_KIND_BUFFERS, 2 * wide, false);
}

static zn_status alloc_buffers(zn_engine *e)
{
    const struct zn_engine_options *o = &e->options;
    const zn_engine_plan *p = e->plan;
    size_t n_tokens = n_batches(e) * (size_t)(o->micro_batch * o->time) * sizeof(int32_t), largest = 0;
    for (int u = 0; u < e->units.n_units; u++)
        largest = larger(largest, (size_t)e->units.units[u].partition);
    ZN_TRY(alloc_buffer(e, &e->ids, "ids", n_tokens));
    ZN_TRY(alloc_buffer(e, &e->targets, "targets", n_tokens));
    ZN_TRY(alloc_buffer(e, &e->sums, "sums", N_SUMS * sizeof(double)));
    if (o->trains) {
        zn_tier tier = gradients_leave(e) ? ZN_TIER_HOST : ZN_TIER_DEVICE;
        ZN_TRY(region_alloc(e, &e->squares, "sums of squares", tier, ZN_KIND_BUFFERS,
                            (size_t)e->units.n_parts * sizeof(zn_exact), false));
        ZN_TRY(region_alloc(e, &e->partial, "partial sums", tier, ZN_KIND_BUFFERS,
                            (largest / ZN_SUM_ELEMENTS + 1) * sizeof(double), false));
        if (gradients_leave(e))
            ZN_TRY(alloc_leaving(e, largest));
        ZN_TRY(region_alloc(e, &e->staging, "staging", ZN_TIER_DEVICE, ZN_KIND_BUFFERS,
                            (size_t)(e->n_ranks > 1 ? e->n_ranks + 1 : 1) * STAGING_ELEMENTS * sizeof(float), true));
    }
    if (!p)
        return ZN_OK;
    return alloc_planned(e, &(struct measured){
                                .arena = p->arena_bytes,
                                .add = p->add_bytes,
                                .slots = p->slots ? zn_lifetimes_peak(p->slots) : 0,
                                .gathered = larger(p->train_trace.region_bytes, p->evaluate_trace.region_bytes),
                                .fetched = larger(p->train_trace.fetch_bytes, p->evaluate_trace.fetch_bytes)});
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
    ZN_TRY(zn_units_init(&e->units, e->module,
                         &(struct zn_units_options){.type = e->options.type,
                                                    .n_ranks = e->n_ranks,
                                                    .tile_bytes = e->options.tile_bytes}));
    ZN_TRY(alloc_lists(e));
    ZN_TRY(zn_tape_create(e->device, &zn_engine_hooks, e, e->options.type, &e->tape));
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
        zn_event_init(&e->half_free[i]);
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
        zn_engine_destroy(e);
        return status;
    }
    *engine = e;
    return ZN_OK;
}

/* Nothing may be under way into memory that is freed next. */
static void quiesce(zn_engine *e)
{
    activations_end_pass(e);
    zn_stream_destroy(e->updater);
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
        zn_event_fini(&e->half_free[i]);
        zn_event_fini(&e->load_free[i]);
    }
}

void zn_engine_destroy(zn_engine *e)
{
    if (!e)
        return;
    quiesce(e);
    struct region *regions[] = {&e->next, &e->parameters, &e->persistent,   &e->gradients, &e->pending, &e->again, &e->master,
                                &e->exp_avg,    &e->exp_avg_sq,   &e->pipeline,  &e->ids,     &e->targets,
                                &e->sums,       &e->squares,      &e->partial,   &e->arena,   &e->add,
                                &e->slots,      &e->gathered,     &e->fetched,   &e->staging, &e->saved,
                                &e->save_staging, &e->save_landing, &e->landed,  &e->pack,    &e->unpack,
                                &e->widened,    &e->earlier};
    for (size_t i = 0; i < sizeof regions / sizeof regions[0]; i++)
        region_free(e, regions[i]);
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
        ZN_TRY(zn_lifetimes_pack(passes[i]));
        peak[i] = zn_lifetimes_peak(passes[i]);
    }
    ZN_TRY(plan_gathers(e));
    size_t arena = larger(peak[0], peak[1]);
    ZN_TRY(alloc_planned(e, &(struct measured){
                                .arena = arena,
                                .add = e->add_bytes,
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
