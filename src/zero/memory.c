/* Model states and buffers as regions and extents: what the manifest says, and nothing else. */
#include "base/size.h"
#include "zero/engine_private.h"

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

void region_free(zn_engine *e, struct region *region)
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

zn_status extent_alloc(zn_engine *e, struct extent *extent, const char *name, zn_kind kind, size_t n_bytes)
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

void extent_free(zn_engine *e, struct extent *extent)
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
    size_t n = (size_t)e->cached, swapped = (size_t)(own_total(e) - e->cached);
    ZN_TRY(extent_alloc(e, &e->swap_states, "optimizer states", ZN_KIND_OPTIMIZER, swapped * states_width(e)));
    if (has_master(e))
        ZN_TRY(region_alloc(e, &e->master, "master", tier, ZN_KIND_OPTIMIZER, n * sizeof(float), false));
    for (int i = 0; i < o->optimizer->n_states; i++) {
        const struct zn_optimizer_state *s = &o->optimizer->state[i];
        ZN_TRY(region_alloc(e, &e->states[i], s->name, tier, ZN_KIND_OPTIMIZER, n * zn_dtype_bytes(s->type), false));
    }
    return ZN_OK;
}

zn_status alloc_states(zn_engine *e)
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
