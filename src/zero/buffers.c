/* The buffers of a step, of the sizes that the recording measured. */
#include "base/size.h"
#include "zero/engine_private.h"

enum { STAGING_ELEMENTS = 1 << 18 }; /* a rank's piece when states are streamed out */

static zn_status alloc_buffer(zn_engine *e, struct region *region, const char *name, size_t n_bytes)
{
    return region_alloc(e, region, name, ZN_TIER_DEVICE, ZN_KIND_BUFFERS, n_bytes, false);
}

zn_status alloc_constants(zn_engine *e)
{
    for (int i = 0; i < e->module->n_constants; i++) {
        const zn_constant *c = &e->module->constants[i];
        size_t n_bytes = (size_t)c->n_elements * sizeof(float);
        ZN_TRY(alloc_buffer(e, &e->constants[i], c->name, n_bytes));
        ZN_TRY(zn_device_write(e->device, e->constants[i].address, c->values, n_bytes));
    }
    return ZN_OK;
}

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

zn_status alloc_planned(zn_engine *e, const struct measured *m)
{
    ZN_TRY(alloc_again(e));
    ZN_TRY(alloc_buffer(e, &e->add, "gradients to add", m->add));
    ZN_TRY(region_alloc(e, &e->slots, "gradient slots", ZN_TIER_DEVICE, ZN_KIND_BUFFERS, m->slots, true));
    ZN_TRY(alloc_buffer(e, &e->gathered, "gathered units", m->gathered));
    ZN_TRY(alloc_fetched(e, m->fetched));
    ZN_TRY(alloc_saved(e));
    ZN_TRY(alloc_buffer(e, &e->keys_and_values, "keys and values", m->cache));
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
    ZN_TRY(region_alloc(e, &e->widened, "widened gradients", ZN_TIER_HOST, ZN_KIND_BUFFERS, 2 * wide, false));
    if (!swapped)
        return ZN_OK;
    return region_alloc(e, &e->earlier, "gradients to add to", ZN_TIER_HOST, ZN_KIND_BUFFERS, 2 * wide, false);
}

zn_status alloc_buffers(zn_engine *e)
{
    const struct zn_engine_options *o = &e->options;
    const zn_engine_plan *p = e->plan;
    size_t n_tokens = n_batches(e) * (size_t)(o->micro_batch * o->time) * sizeof(int32_t), largest = 0;
    for (int u = 0; u < e->units.n_units; u++)
        largest = larger(largest, (size_t)e->units.units[u].partition);
    ZN_TRY(alloc_buffer(e, &e->ids, "ids", n_tokens));
    ZN_TRY(alloc_buffer(e, &e->targets, "targets", o->extends ? 0 : n_tokens));
    if (o->has_examples)
        ZN_TRY(alloc_buffer(e, &e->position_ids, "position ids", n_tokens));
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
    if (keeps_only_working(e))
        ZN_TRY(region_alloc(e, &e->staging, "staging", states_device(e) == e->device ? ZN_TIER_DEVICE : ZN_TIER_HOST,
                            ZN_KIND_BUFFERS, CHUNK_ELEMENTS * sizeof(float), false));
    if (o->extends)
        ZN_TRY(alloc_buffer(e, &e->logits, "logits", (size_t)e->module->vocabulary * sizeof(float)));
    if (!p)
        return ZN_OK;
    return alloc_planned(e, &(struct measured){
                                .arena = p->arena_bytes,
                                .add = p->add_bytes,
                                .cache = p->cache_bytes,
                                .slots = p->slots ? zn_lifetimes_peak(p->slots) : 0,
                                .gathered = larger(p->train_trace.region_bytes, p->evaluate_trace.region_bytes),
                                .fetched = larger(p->train_trace.fetch_bytes, p->evaluate_trace.fetch_bytes)});
}
