/* One configuration on one cluster: does it fit, what does it send, how long does a step take. */
#include "plan/predict.h"

#include <string.h>

#include "plan/dry_run.h"
#include "plan/traffic.h"

const char *zn_bound_name(zn_bound bound)
{
    static const char *const names[] = {"memory", "compute", "communication", "io"};
    return names[bound];
}

int zn_plan_ranks_per_node(const struct zn_plan_setup *s)
{
    return (s->n_ranks + s->n_nodes - 1) / s->n_nodes;
}

/* The part of a device that a rank has: ranks of a processor may share it. */
static double device_share(const struct zn_plan_setup *s)
{
    int n_local = zn_plan_ranks_per_node(s);
    return n_local > s->cluster->devices ? (double)s->cluster->devices / n_local : 1;
}

/* ---- Checks ---- */

/* Every activation is a row of one side of a matrix for each token; backward and scratch are some times more. */
static bool activations_overflow(const struct zn_plan_setup *s)
{
    double tokens = (double)s->engine.micro_batch * (double)s->engine.time, sides = (double)s->model->module->vocabulary;
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
    if (s->engine.time > s->model->module->max_time)
        return zn_fail(ZN_ERR_USAGE, "--seq-len %lld: the model takes at most %lld", (long long)s->engine.time,
                       (long long)s->model->module->max_time);
    if (states_overflow(s) || activations_overflow(s))
        return zn_fail(ZN_ERR_USAGE, "a model of %.4g parameters with batches of %lld × %lld tokens is beyond 2^63 bytes",
                       (double)zn_model_n_elements(s->model), (long long)s->engine.micro_batch,
                       (long long)s->engine.time);
    return ZN_OK;
}

/* ---- Memory ---- */

/* Ranks divide what their node has. On a processor, device and host memory are the same bytes. */
static void set_limits(const struct zn_plan_setup *s, struct zn_prediction *p)
{
    const struct zn_cluster *c = s->cluster;
    double n_local = (double)zn_plan_ranks_per_node(s);
    p->reserved = c->device.reserved;
    p->limit[ZN_TIER_DEVICE] = s->memory_limit ? s->memory_limit : (size_t)((double)c->device.memory * device_share(s));
    p->limit[ZN_TIER_HOST] =
        c->device.is_host ? p->limit[ZN_TIER_DEVICE] : (size_t)((double)c->host_memory / n_local);
    p->limit[ZN_TIER_NVME] = (size_t)((double)c->nvme_memory / n_local);
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
    set_limits(s, p);
    judge_memory(s, p);
}

/* ---- Work ---- */

/* Elements of the matrices that tokens are multiplied with, in the blocks and in the head. */
static void count_matrices(const zn_model *model, double *blocks, double *head)
{
    const zn_module *m = model->module;
    *blocks = *head = 0;
    for (int i = 0; i < m->n_params; i++) {
        const zn_param *p = &m->params[i];
        if (p->ndim < 2 || p->segment == 0)
            continue;
        *(p->segment == m->n_segments - 1 ? head : blocks) += (double)p->n_elements;
    }
    if (model->tied)
        *head = (double)m->vocabulary * (double)model->hidden;
}

/* Two flops an element and token in forward, four in backward; what is recomputed counts again. Attention looks
 * at half of all pairs, with a backward of 2.5 times its forward. */
static double step_flops(const struct zn_plan_setup *s)
{
    const struct zn_engine_options *o = &s->engine;
    double blocks, head, time = (double)o->time, tokens = (double)o->micro_batch * time;
    count_matrices(s->model, &blocks, &head);
    double attention = 2 * tokens * (time + 1) * (double)s->model->hidden * (double)s->model->n_layers;
    double forward = 2 * tokens * blocks + attention, backward = 4 * tokens * blocks + 2.5 * attention;
    double ends = (o->keep_logits ? 6 : 8) * tokens * head;
    return (double)o->accumulate * (forward * (o->recompute ? 2 : 1) + backward + ends);
}

/* The optimizer reads parameter, gradient and moments and writes all but the gradient, and the 16-bit copy; the
 * norm reads the gradient once more. */
static double update_bytes(const struct zn_plan_setup *s)
{
    const struct zn_engine_options *o = &s->engine;
    double elements = (double)zn_model_n_elements(s->model) / (o->stage >= 1 ? s->n_ranks : 1);
    double moments = o->optimizer != ZN_SGD ? 16 : o->momentum != 0 ? 8 : 0;
    return elements * (12 + moments + 4 + (o->type == ZN_F32 ? 0 : 2));
}

/* ---- Time ---- */

/* The part of a rank's bytes that goes between nodes. */
static double far_part(const struct zn_plan_setup *s)
{
    int n_local = zn_plan_ranks_per_node(s);
    return s->n_ranks > 1 ? (double)(s->n_ranks - n_local) / (double)(s->n_ranks - 1) : 0;
}

/* Bytes go over the links of the node and between nodes at once. What enters a node to be handed on also
 * crosses the links within. */
static double link_seconds(const struct zn_plan_setup *s, double n_bytes)
{
    const struct zn_cluster *c = s->cluster;
    int n_local = zn_plan_ranks_per_node(s);
    double far = n_bytes * far_part(s), inside = c->node_node.relayed ? n_bytes : n_bytes - far;
    double near_seconds = n_local > 1 ? inside / zn_link_rate(&c->device_device, n_local) : 0;
    double far_seconds = far > 0 ? far / zn_link_rate(&c->node_node, n_local) : 0;
    return near_seconds > far_seconds ? near_seconds : far_seconds;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* Reductions and gathers run beside the computation, but the sums that stage 0 gathers when all is computed. */
static void predict_seconds(const struct zn_plan_setup *s, struct zn_prediction *p)
{
    double share = device_share(s), peak = s->cluster->device.flops[s->engine.type] * share;
    p->flops = step_flops(s);
    p->update = update_bytes(s) / (s->cluster->device.rate * share);
    p->compute = p->flops / peak + p->update;
    double sent = (double)(p->gather + p->reduce);
    double exposed = s->engine.stage == 0 ? link_seconds(s, (double)p->gather) : 0;
    p->communication = link_seconds(s, sent);
    p->far = (uint64_t)(sent * far_part(s) + 0.5);
    p->near = p->gather + p->reduce - p->far;
    p->step = larger(larger(p->compute, p->communication - exposed), p->io) + exposed;
    double tokens = (double)s->engine.micro_batch * (double)s->engine.time * (double)s->engine.accumulate;
    p->tokens_per_second = tokens * s->n_ranks / p->step;
    p->flops_per_device = p->flops / p->step;
    p->efficiency = p->flops_per_device / peak;
    p->bound = p->io > larger(p->compute, p->communication) ? ZN_BOUND_IO
               : p->communication > p->compute              ? ZN_BOUND_COMMUNICATION
                                                            : ZN_BOUND_COMPUTE;
    if (!p->fits)
        p->bound = ZN_BOUND_MEMORY;
}

zn_status zn_predict(const struct zn_plan_setup *s, struct zn_prediction *prediction)
{
    zn_engine_plan plan = {0};
    struct zn_prediction p = {0};
    struct zn_traffic traffic;
    ZN_TRY(zn_plan_check(s));
    ZN_TRY(zn_dry_run(s->model->module, &s->engine, s->n_ranks, &plan));
    zn_status status = zn_traffic_count(s->model, &s->engine, s->n_ranks, &plan, &traffic);
    if (status == ZN_OK) {
        p.manifest = plan.manifest;
        zn_manifest_init(&plan.manifest);
        p.gather = traffic.gather;
        p.reduce = traffic.reduce;
        sum_memory(s, &p);
        predict_seconds(s, &p);
        *prediction = p;
    }
    zn_engine_plan_fini(&plan);
    return status;
}

void zn_prediction_fini(struct zn_prediction *p)
{
    zn_manifest_fini(&p->manifest);
    *p = (struct zn_prediction){0};
}
