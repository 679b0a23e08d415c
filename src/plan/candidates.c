/* The table of tiers, and which of its rows a setup has. */
#include "plan/candidates.h"

#include "plan/prefetch.h"

#define DEVICE ZN_TIER_DEVICE
#define HOST ZN_TIER_HOST
#define NVME ZN_TIER_NVME

static const size_t MIB = 1024 * 1024;

/* Each row needs less of the device than those before, but for tiles, which begin anew. */
static const struct row {
    zn_tier optimizer, activations, parameters;
    size_t tile; /* MiB; 0: none */
} rows[] = {
    {DEVICE, DEVICE, DEVICE, 0}, {HOST, DEVICE, DEVICE, 0}, {HOST, HOST, DEVICE, 0}, {HOST, HOST, HOST, 0},
    {NVME, DEVICE, DEVICE, 0},   {NVME, HOST, DEVICE, 0},   {NVME, NVME, DEVICE, 0}, {NVME, HOST, HOST, 0},
    {NVME, HOST, NVME, 0},       {NVME, DEVICE, NVME, 0},   {NVME, NVME, NVME, 0},   {HOST, HOST, HOST, 64},
    {NVME, HOST, NVME, 64},      {NVME, NVME, NVME, 64},    {NVME, NVME, NVME, 32},  {NVME, NVME, NVME, 16},
    {HOST, HOST, HOST, 8},       {NVME, HOST, NVME, 8},     {NVME, NVME, NVME, 8},   {NVME, NVME, NVME, 4},
    {HOST, HOST, HOST, 2},       {NVME, HOST, NVME, 2},     {NVME, NVME, NVME, 2},
};

enum { N_ROWS = sizeof rows / sizeof rows[0] };

/* On a processor the host's memory is the device's, and nothing is gained there. */
static bool has_tier(const struct zn_plan_setup *s, zn_tier tier)
{
    if (tier == HOST)
        return !s->cluster->device.is_host;
    return tier != NVME || s->cluster->nvme_memory > 0;
}

static zn_tier tier_of(int chosen, zn_tier open)
{
    return chosen >= 0 ? (zn_tier)chosen : open;
}

/* On a device with memory of its own an update finds all it needs on one side of the link. */
static bool has_path(const struct zn_plan_setup *s, const struct zn_choices *c, const struct zn_candidate *x)
{
    bool away = x->optimizer != DEVICE;
    if (s->cluster->device.is_host || !s->engine.trains)
        return true;
    if ((c->gradients >= 0 && (c->gradients != DEVICE) != away) || (x->parameters != DEVICE && !away))
        return false;
    if (!away && !s->engine.optimizer->on_device)
        return false;
    if (!away && s->engine.stages_comm && s->engine.delay_after >= 0) /* an update is hidden on the host alone */
        return false;
    return !away || zn_can_swap_gradients(x->stage, zn_plan_replicas(s));
}

static bool is_stage_of(const struct zn_plan_setup *s, const struct zn_choices *c, const struct zn_candidate *x)
{
    if (x->parameters != DEVICE && x->stage != 3)
        return false;
    if (c->stage >= 0)
        return x->stage == c->stage;
    if (!s->engine.trains && x->stage != 0 && x->stage != 3)
        return false;
    if (zn_plan_replicas(s) == 1) /* it partitions nothing; it has stage 3 where its parameters are elsewhere */
        return x->stage == (x->parameters != DEVICE ? 3 : 0);
    if ((c->gradients == NVME && x->stage < 2) || (s->engine.in_backward && x->stage == 0))
        return false;
    if (x->stage >= 2 && zn_choices_sum_once(c, &s->engine) && !c->any_schedule)
        return false;
    return x->optimizer == DEVICE || c->optimizer >= 0 || x->stage >= 2;
}

/* Without training a row differs from others by its parameters and tiles; partitions are for what does not fit whole. */
static bool is_row_of(const struct zn_plan_setup *s, const struct zn_choices *c, const struct row *r)
{
    if (!s->engine.trains)
        return has_tier(s, r->parameters) || c->parameters >= 0;
    return (c->optimizer >= 0 || has_tier(s, r->optimizer)) && (c->activations >= 0 || has_tier(s, r->activations)) &&
           (c->parameters >= 0 || has_tier(s, r->parameters));
}

/* Tiles that are larger than every parameter are none. */
static bool cuts(const struct zn_plan_setup *s, const struct zn_candidate *x)
{
    const zn_module *m = s->model->module;
    size_t width = zn_dtype_bytes(s->engine.type);
    for (int i = 0; i < m->n_params; i++)
        if (m->params[i].ndim > 1 && (size_t)m->params[i].n_elements * width > x->tile_bytes)
            return true;
    return false;
}

static bool is_listed(const struct zn_candidate *list, int n, const struct zn_candidate *x)
{
    for (int i = 0; i < n; i++)
        if (list[i].optimizer == x->optimizer && list[i].activations == x->activations && list[i].parameters == x->parameters &&
            list[i].stage == x->stage && list[i].tile_bytes == x->tile_bytes)
            return true;
    return false;
}

static struct zn_candidate candidate_of(const struct zn_choices *c, const struct row *r, int stage)
{
    return (struct zn_candidate){.optimizer = tier_of(c->optimizer, r->optimizer),
                                 .activations = tier_of(c->activations, c->keep == ZN_KEEP_ALL ? DEVICE : r->activations),
                                 .parameters = tier_of(c->parameters, r->parameters),
                                 .stage = stage,
                                 .tile_bytes = c->tile_bytes != SIZE_MAX ? c->tile_bytes : r->tile * MIB,
                                 .tiles_by_plan = c->tile_bytes == SIZE_MAX && r->tile > 0};
}

int zn_candidates_list(const struct zn_plan_setup *s, const struct zn_choices *c, struct zn_candidate list[ZN_MAX_CANDIDATES])
{
    int n = 0;
    for (int r = 0; r < N_ROWS; r++) {
        for (int stage = 0; stage <= 3 && n < ZN_MAX_CANDIDATES; stage++) {
            struct zn_candidate x = candidate_of(c, &rows[r], stage);
            if (is_row_of(s, c, &rows[r]) && is_stage_of(s, c, &x) && has_path(s, c, &x) && !is_listed(list, n, &x) &&
                (!x.tiles_by_plan || cuts(s, &x)))
                list[n++] = x;
        }
    }
    return n;
}

/* Gradients go where the optimizer is, where they can. */
static zn_tier gradients_of(const struct zn_plan_setup *s, const struct zn_choices *c, const struct zn_candidate *x)
{
    bool can_swap = zn_can_swap_gradients(x->stage, zn_plan_replicas(s)) && !zn_choices_sum_once(c, &s->engine);
    return tier_of(c->gradients, x->optimizer == NVME && !can_swap ? DEVICE : x->optimizer);
}

void zn_candidate_apply(const struct zn_candidate *x, const struct zn_choices *c, bool vertical, struct zn_plan_setup *s)
{
    struct zn_engine_options *o = &s->engine;
    o->vertical = vertical;
    o->stage = x->stage;
    o->offload = (struct zn_offload){.parameters = x->parameters,
                                     .optimizer = x->optimizer,
                                     .activations = x->activations,
                                     .gradients = gradients_of(s, c, x)};
    o->recompute = c->keep != ZN_KEEP_ALL;
    o->keep = c->keep > 0 && o->recompute ? c->keep : 0;
    o->keep_logits = c->keep_logits == 1;
    o->tile_bytes = x->tile_bytes;
    zn_prefetch_set(o, c->prefetch_bytes != SIZE_MAX ? c->prefetch_bytes : 0);
    o->host_cache = c->host_cache != SIZE_MAX ? c->host_cache : 0;
    bool leave = o->offload.gradients == NVME || (o->offload.gradients != DEVICE && !s->cluster->device.is_host);
    o->reduce_every = c->reduce_every >= 0 ? c->reduce_every : (x->stage >= 2 || (leave && o->accumulate > 1)) && !vertical;
}
