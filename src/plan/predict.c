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

double plan_device_share(const struct zn_plan_setup *s)
{
    int n_local = zn_plan_ranks_per_node(s);
    return n_local > s->cluster->devices ? (double)s->cluster->devices / n_local : 1;
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
    if (s->cluster->device.is_host) {
        used[ZN_TIER_DEVICE] += used[ZN_TIER_HOST];
        used[ZN_TIER_HOST] = 0;
    }
    p->fits = true;
    for (int tier = ZN_N_TIERS - 1; tier >= 0; tier--) {
        if (used[tier] > p->limit[tier]) {
            p->fits = false;
            p->short_of = (zn_tier)tier;
        }
    }
}

static void sum_memory(const struct zn_plan_setup *s, struct zn_prediction *p)
{
    for (int tier = 0; tier < ZN_N_TIERS; tier++)
        p->tier[tier] = zn_manifest_bytes(&p->manifest, (zn_tier)tier, ZN_N_KINDS);
    for (int kind = 0; kind < ZN_N_KINDS; kind++)
        p->kind[kind] = zn_manifest_bytes(&p->manifest, ZN_N_TIERS, (zn_kind)kind);
    p->reserved = s->cluster->device.reserved;
    zn_plan_limits(s, p->limit);
    judge_memory(s, p);
}

/* Far too large a model is known without a dry run: parameters and optimizer states are only part of what there is. */
static bool states_fit(const struct zn_plan_setup *s)
{
    const struct zn_engine_options *o = &s->engine;
    double n = (double)zn_model_n_elements(s->model), n_sharded = n / s->n_ranks;
    double master = o->type == ZN_F32 ? 0 : 4, states = (double)zn_optimizer_bytes(o->optimizer);
    struct zn_prediction least = {.reserved = s->cluster->device.reserved};
    least.tier[o->offload.parameters] += (size_t)((o->stage == 3 ? n_sharded : n) * (double)zn_dtype_bytes(o->type));
    least.tier[o->offload.optimizer] += (size_t)((o->stage >= 1 ? n_sharded : n) * (master + states));
    zn_plan_limits(s, least.limit);
    judge_memory(s, &least);
    return least.fits;
}

/* ---- All of it ---- */

/* What one rank has of the cluster. */
static struct zn_sim_machine machine_of(const struct zn_plan_setup *s)
{
    const struct zn_cluster *c = s->cluster;
    int n_local = zn_plan_ranks_per_node(s);
    double share = plan_device_share(s);
    struct zn_sim_machine machine = {
        .device = {.flops = c->device.flops[s->engine.type] * share,
                   .memory_bytes = c->device.rate * share,
                   .link_bytes = c->device_host.alone > 0 ? zn_link_rate(&c->device_host, n_local) : 0},
        .host = {.flops = c->host_rate / n_local, .memory_bytes = c->host_rate / n_local}, /* it multiplies nothing */
        .links = {.n_ranks = s->n_ranks,
                  .ranks_per_node = n_local,
                  .node_bytes = c->device_device.alone > 0 ? zn_link_rate(&c->device_device, n_local) : 1,
                  .network_bytes = c->node_node.alone > 0 ? zn_link_rate(&c->node_node, n_local) : 1,
                  .relayed = c->node_node.relayed},
        .nvme_bytes = c->host_nvme.alone > 0 ? zn_link_rate(&c->host_nvme, n_local) : 1};
    plan_add_measured(s, &machine);
    return machine;
}

static zn_status predict_rest(const struct zn_plan_setup *s, const zn_engine_plan *plan, struct zn_prediction *p)
{
    struct zn_sim_step step;
    const struct zn_sim_machine machine = machine_of(s);
    ZN_TRY(zn_simulate_step(s->model->module, &s->engine, plan, &machine, s->trace, &step));
    p->gather = step.gather;
    p->reduce = step.reduce;
    p->nvme_read = step.nvme_read;
    p->nvme_write = step.nvme_write;
    p->host_bytes = step.host_bytes;
    p->simulated = step;
    plan_predict_seconds(s, p);
    return ZN_OK;
}

enum wanted { ALL, ALL_IF_FITS, MEMORY };

static zn_status predict(const struct zn_plan_setup *setup, enum wanted wanted, struct zn_prediction *prediction)
{
    struct zn_plan_setup apart = *setup;
    const struct zn_plan_setup *s = &apart;
    apart.engine.is_discrete = !setup->cluster->device.is_host;
    zn_engine_plan plan = {0};
    struct zn_prediction p = {.bound = ZN_BOUND_MEMORY};
    ZN_TRY(zn_plan_check(s));
    if (wanted != ALL && !states_fit(s)) {
        *prediction = p;
        return ZN_OK;
    }
    ZN_TRY(zn_dry_run(s->model->module, &s->engine, s->n_ranks, &plan));
    p.manifest = plan.manifest;
    p.resident = plan_resident(s, &plan);
    p.largest_unit = zn_plan_largest_unit(&plan);
    sum_memory(s, &p);
    bool rest = wanted == ALL || (wanted == ALL_IF_FITS && p.fits);
    zn_status status = rest ? predict_rest(s, &plan, &p) : ZN_OK;
    if (status == ZN_OK) {
        zn_manifest_init(&plan.manifest); /* it is the prediction's now */
        *prediction = p;
    }
    zn_engine_plan_fini(&plan);
    return status;
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
    ZN_TRY(zn_predict_memory(setup, &p));
    *fits = p.fits;
    zn_prediction_fini(&p);
    return ZN_OK;
}

void zn_prediction_fini(struct zn_prediction *p)
{
    zn_manifest_fini(&p->manifest);
    *p = (struct zn_prediction){0};
}
