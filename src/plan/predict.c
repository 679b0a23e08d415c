/* One configuration on one cluster: does it fit, and what does it send. */
#include "plan/predict.h"

#include <string.h>

#include "plan/dry_run.h"
#include "plan/predict_private.h"
#include "plan/prefetch.h"
#include "plan/resident.h"
#include "plan/simulate.h"

const char *zn_bound_name(zn_bound bound)
{
    static const char *const names[] = {"memory", "compute", "communication", "io"};
    return names[bound];
}

int zn_plan_ranks_per_node(const struct zn_plan_setup *s)
{
    return (s->n_ranks + s->n_nodes - 1) / s->n_nodes;
}

/* ---- Checks ---- */

/* Every activation is a row of one side of a matrix for each token; backward and scratch are some times more. */
static bool activations_overflow(const struct zn_plan_setup *s)
{
    double tokens = (double)s->engine.micro_batch * (double)s->engine.seq_len, sides = (double)s->model->module->vocabulary;
    for (int i = 0; i < s->model->module->n_params; i++) {
        const zn_param *p = &s->model->module->params[i];
        if (p->segment > 0)
            sides += (double)p->dims[0] + (p->ndim > 1 ? (double)p->dims[1] : 0);
    }
    return tokens * sides * 64 >= 0x1p62;
}

static bool states_overflow(const struct zn_plan_setup *s)
{
    double padding = (double)s->n_ranks * ZN_PARTITION_ALIGNMENT * (double)s->model->module->n_segments;
    return (double)zn_model_n_elements(s->model) * 32 + padding * 16 >= 0x1p63;
}

zn_status zn_plan_check(const struct zn_plan_setup *s)
{
    const struct zn_cluster *c = s->cluster;
    if (s->n_nodes > c->nodes)
        return zn_fail(ZN_ERR_USAGE, "--nodes %d: %s has %d", s->n_nodes, c->name, c->nodes);
    if (s->n_nodes > s->n_ranks)
        return zn_fail(ZN_ERR_USAGE, "--nodes %d: more than --ranks %d", s->n_nodes, s->n_ranks);
    if (!c->device.is_host && zn_plan_ranks_per_node(s) > c->devices)
        return zn_fail(ZN_ERR_USAGE, "--ranks %d on --nodes %d: a node of %s has %d device%s", s->n_ranks, s->n_nodes,
                       c->name, c->devices, c->devices == 1 ? "" : "s");
    if (s->engine.n_slices > 1 && s->n_ranks % s->engine.n_slices != 0)
        return zn_fail(ZN_ERR_USAGE, "--tensor-parallel %d: does not divide --ranks %d", s->engine.n_slices, s->n_ranks);
    if (c->device.flops[s->engine.type] <= 0)
        return zn_fail(ZN_ERR_USAGE, "--precision %s: the devices of %s have no such matrix products",
                       zn_dtype_name(s->engine.type), c->name);
    if (s->engine.seq_len > s->model->module->max_seq_len)
        return zn_fail(ZN_ERR_USAGE, "--seq-len %lld: the model takes at most %lld", (long long)s->engine.seq_len,
                       (long long)s->model->module->max_seq_len);
    if (states_overflow(s) || activations_overflow(s))
        return zn_fail(ZN_ERR_USAGE, "a model of %.4g parameters with batches of %lld × %lld tokens is beyond 2^63 bytes",
                       (double)zn_model_n_elements(s->model), (long long)s->engine.micro_batch,
                       (long long)s->engine.seq_len);
    return ZN_OK;
}

/* ---- Memory ---- */

/* Ranks divide what their node has. */
void zn_plan_limits(const struct zn_plan_setup *s, size_t limit[ZN_N_TIERS])
{
    const struct zn_cluster *c = s->cluster;
    double n_local = (double)zn_plan_ranks_per_node(s), device = (double)c->device.memory * plan_device_share(s);
    limit[ZN_TIER_DEVICE] = s->memory_limit ? s->memory_limit : (size_t)device;
    limit[ZN_TIER_HOST] = c->device.is_host ? limit[ZN_TIER_DEVICE] : (size_t)((double)c->host_memory / n_local);
    limit[ZN_TIER_NVME] = (size_t)((double)c->nvme_memory / n_local);
}

static void judge_memory(const struct zn_plan_setup *s, struct zn_prediction *p)
{
    size_t used[ZN_N_TIERS];
    memcpy(used, p->tier, sizeof used);
    used[ZN_TIER_DEVICE] += p->reserved;
    if (s->cluster->device.shares_memory) /* charged to both */
        used[ZN_TIER_HOST] += used[ZN_TIER_DEVICE];
    if (s->cluster->device.is_host) {
        used[ZN_TIER_DEVICE] += used[ZN_TIER_HOST];
        used[ZN_TIER_HOST] = 0;
    }
    p->fits = p->largest_buffer <= s->cluster->device.allocation || s->cluster->device.allocation == 0;
    p->short_of = ZN_TIER_DEVICE;
    for (int tier = ZN_N_TIERS - 1; tier >= 0; tier--) {
        if (used[tier] > p->limit[tier]) {
            p->fits = false;
            p->short_of = (zn_tier)tier;
        }
    }
}

static size_t reserved(const struct zn_plan_setup *s)
{
    return s->overhead ? s->overhead : s->cluster->device.reserved;
}

static void sum_memory(const struct zn_plan_setup *s, struct zn_prediction *p)
{
    for (int tier = 0; tier < ZN_N_TIERS; tier++)
        p->tier[tier] = zn_manifest_bytes(&p->plan.manifest, (zn_tier)tier, ZN_N_KINDS);
    for (int kind = 0; kind < ZN_N_KINDS; kind++)
        p->kind[kind] = zn_manifest_bytes(&p->plan.manifest, ZN_N_TIERS, (zn_kind)kind);
    for (size_t i = 0; i < p->plan.manifest.n_entries; i++) {
        const struct zn_manifest_entry *e = &p->plan.manifest.entries[i];
        if (e->tier == ZN_TIER_DEVICE && e->n_bytes > p->largest_buffer)
            p->largest_buffer = e->n_bytes;
    }
    p->reserved = reserved(s);
    zn_plan_limits(s, p->limit);
    judge_memory(s, p);
}

/* Of all parameters as they are kept. */
static double parameter_bytes(const struct zn_plan_setup *s)
{
    const struct zn_engine_options *o = &s->engine;
    const zn_module *m = s->model->module;
    double n_bytes = 0;
    for (int i = 0; i < m->n_params; i++) {
        bool is_frozen = o->frozen && o->frozen[i], is_quantised = o->quantised && o->quantised[i];
        n_bytes += (double)zn_dtype_size(is_quantised ? o->quantised_type : is_frozen ? o->frozen_type : o->type,
                                         m->params[i].n_elements);
    }
    return n_bytes;
}

/* Parameters and optimizer states are only part of what there is. */
bool zn_plan_may_fit(const struct zn_plan_setup *s)
{
    const struct zn_engine_options *o = &s->engine;
    double n = (double)zn_model_n_held(s->model), n_sharded = n / zn_plan_replicas(s);
    double master = o->type == ZN_F32 ? 0 : 4;
    bool by_matrix = zn_optimizer_is_by_matrix(o->optimizer); /* what its matrices have is the least */
    double states = o->optimizer ? (double)zn_optimizer_bytes(o->optimizer, by_matrix, ZN_SUM_ELEMENTS) / ZN_SUM_ELEMENTS : 0;
    struct zn_prediction least = {.reserved = reserved(s)};
    least.tier[o->offload.parameters] += (size_t)(parameter_bytes(s) / (o->stage == 3 ? s->n_ranks : 1));
    if (o->trains && !o->frozen)
        least.tier[o->offload.optimizer] += (size_t)((o->stage >= 1 ? n_sharded : n) * (master + states));
    zn_plan_limits(s, least.limit);
    judge_memory(s, &least);
    return least.fits;
}

/* ---- All of it ---- */

/* The part of a rank's bytes that goes between nodes, within a group of ranks so far apart; ranks of a node are consecutive. */
static double inter_node_part(const struct zn_plan_setup *s, int n_ranks, int stride)
{
    int n_local = (zn_plan_ranks_per_node(s) + stride - 1) / stride;
    n_local = n_local < n_ranks ? n_local : n_ranks;
    return n_ranks > 1 ? (double)(n_ranks - n_local) / (double)(n_ranks - 1) : 0;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static void take_traffic(const struct zn_plan_setup *s, struct zn_prediction *p)
{
    const struct zn_sim_step *step = &p->simulated;
    p->gather = step->gather;
    p->reduce = step->reduce;
    p->nvme_read = step->nvme_read;
    p->nvme_write = step->nvme_write;
    p->host_bytes = step->host_bytes;
    p->tensor = step->slices;
    int n_slices = s->engine.n_slices > 1 ? s->engine.n_slices : 1;
    p->inter_node = (uint64_t)((double)(p->gather + p->reduce) * inter_node_part(s, zn_plan_replicas(s), n_slices) +
                               (double)p->tensor * inter_node_part(s, n_slices, 1) + 0.5);
    p->intra_node = p->gather + p->reduce + p->tensor - p->inter_node;
}

static void take_seconds(const struct zn_plan_setup *s, struct zn_prediction *p)
{
    const struct zn_engine_options *o = &s->engine;
    const struct zn_sim_step *step = &p->simulated;
    double tokens = (double)o->micro_batch * (double)o->seq_len * (double)o->accumulate;
    p->compute = step->resource[ZN_COMPUTE].busy;
    p->communication = step->resource[ZN_COMMUNICATION].busy;
    p->io = larger(step->resource[ZN_NVME].busy, step->resource[ZN_HOST_LINK].busy);
    p->step = step->seconds;
    p->tokens_per_second = tokens * zn_plan_replicas(s) / p->step;
    p->flops_per_device = step->flops / p->step;
    p->efficiency = p->flops_per_device / (s->cluster->device.flops[o->type] * plan_device_share(s));
    p->bound = p->io > larger(p->compute, p->communication) ? ZN_BOUND_IO
               : p->communication > p->compute              ? ZN_BOUND_COMMUNICATION
                                                            : ZN_BOUND_COMPUTE;
    if (!p->fits)
        p->bound = ZN_BOUND_MEMORY;
}

static zn_status predict_rest(const struct zn_plan_setup *s, struct zn_prediction *p)
{
    const struct zn_sim_machine machine = plan_machine(s);
    ZN_TRY(zn_simulate_step(s->model->module, &s->engine, &p->plan, &machine, s->trace, &p->simulated));
    take_traffic(s, p);
    take_seconds(s, p);
    return ZN_OK;
}

enum wanted { ALL, ALL_IF_FITS, MEMORY, WHETHER_IT_FITS };

static zn_status predict(const struct zn_plan_setup *setup, enum wanted wanted, struct zn_prediction *prediction)
{
    struct zn_plan_setup made = *setup;
    const struct zn_plan_setup *s = &made;
    struct zn_prediction p = {.bound = ZN_BOUND_MEMORY};
    made.engine.is_discrete = !setup->cluster->device.is_host;
    ZN_TRY(zn_plan_check(s));
    if ((wanted == ALL_IF_FITS || wanted == WHETHER_IT_FITS) && !zn_plan_may_fit(s)) {
        *prediction = p;
        return ZN_OK;
    }
    ZN_TRY(zn_dry_run(s->model->module, &s->engine, zn_plan_replicas(s), &p.plan));
    p.resident = plan_resident(s, &p.plan);
    p.largest_unit = zn_plan_largest_unit(&p.plan);
    sum_memory(s, &p);
    bool rest = wanted == ALL || (wanted == ALL_IF_FITS && p.fits);
    zn_status status = rest ? predict_rest(s, &p) : ZN_OK;
    if (status == ZN_OK)
        *prediction = p;
    else
        zn_engine_plan_fini(&p.plan);
    return status;
}

zn_status zn_predict_time(const struct zn_plan_setup *setup, struct zn_prediction *prediction)
{
    struct zn_plan_setup made = *setup;
    made.engine.is_discrete = !setup->cluster->device.is_host;
    return prediction->step > 0 ? ZN_OK : predict_rest(&made, prediction);
}

zn_status zn_predict(const struct zn_plan_setup *setup, struct zn_prediction *prediction)
{
    return predict(setup, ALL, prediction);
}

zn_status zn_predict_if_fits(const struct zn_plan_setup *setup, struct zn_prediction *prediction)
{
    return predict(setup, ALL_IF_FITS, prediction);
}

zn_status zn_predict_memory(const struct zn_plan_setup *setup, struct zn_prediction *prediction)
{
    return predict(setup, MEMORY, prediction);
}

zn_status zn_plan_fits(const struct zn_plan_setup *setup, bool *fits)
{
    struct zn_prediction p;
    ZN_TRY(predict(setup, WHETHER_IT_FITS, &p));
    *fits = p.fits;
    zn_prediction_fini(&p);
    return ZN_OK;
}

void zn_prediction_fini(struct zn_prediction *p)
{
    zn_engine_plan_fini(&p->plan);
    *p = (struct zn_prediction){0};
}
