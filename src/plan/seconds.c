/* How long a step takes: its work and its bytes at the rates of the cluster, by the papers' formulas. */
#include "plan/predict_private.h"

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
    double blocks, head, seq_len = (double)o->seq_len, tokens = (double)o->micro_batch * seq_len;
    count_matrices(s->model, &blocks, &head);
    double attention = 2 * tokens * (seq_len + 1) * (double)s->model->hidden * (double)s->model->n_layers;
    double forward = 2 * tokens * blocks + attention, backward = 4 * tokens * blocks + 2.5 * attention;
    double ends = (o->keep_logits ? 6 : 8) * tokens * head;
    return (double)o->accumulate * (forward * (o->recompute ? 2 : 1) + backward + ends);
}

/* Elements whose states a rank has. */
static double own_elements(const struct zn_plan_setup *s)
{
    return (double)zn_model_n_elements(s->model) / (s->engine.stage >= 1 ? s->n_ranks : 1);
}

/* The optimizer reads parameter, gradient and states and writes all but the gradient, and the 16-bit copy; the
 * norm reads the gradient once more. */
static double update_bytes(const struct zn_plan_setup *s)
{
    const struct zn_engine_options *o = &s->engine;
    double states = 2 * (double)zn_optimizer_bytes(o->optimizer);
    return own_elements(s) * (12 + states + 4 + (o->type == ZN_F32 ? 0 : 2));
}

/* Updates are computed where the optimizer's states are. */
static double update_rate(const struct zn_plan_setup *s)
{
    if (s->cluster->device.is_host || s->engine.offload.optimizer == ZN_TIER_DEVICE)
        return s->cluster->device.rate * plan_device_share(s);
    return s->cluster->host_rate / zn_plan_ranks_per_node(s);
}

/* ---- Rates of a processor ---- */

/* Kernels run as they were measured, on the rank's share of the cores. Ranks of a node read one another's memory: a sum over
 * ranks is an addition of what lies there, and at stage 3 a gather copies the own piece, too. */
void plan_add_measured(const struct zn_plan_setup *s, struct zn_sim_machine *m)
{
    const struct zn_cluster *c = s->cluster;
    double share = plan_device_share(s);
    if (c->device.cores == 0)
        return;
    m->cores = c->device.cores * share;
    m->device.launch = c->device.launch;
    m->device.n_cores = m->cores > 1 ? (int)m->cores : 1;
    for (int k = 0; k < ZN_N_KERNELS; k++)
        m->device.kernel[k] = c->device.kernel[k] * share;
    for (int type = ZN_F32; type <= ZN_F16; type++) {
        m->device.gemm[type] = c->device.flops[type] * share;
        m->device.weights[type] = c->device.weights[type] * share;
        m->links.sum_bytes[type] = c->device.sum[type];
    }
    for (int i = 0; i < 2; i++)
        m->device.token_sums[i] = c->device.token_sums[i] * share;
    m->links.copies_own = s->engine.stage == 3;
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

/* Drives and the links to the host work at once. */
static double io_seconds(const struct zn_plan_setup *s, const struct zn_prediction *p)
{
    const struct zn_cluster *c = s->cluster;
    int n_local = zn_plan_ranks_per_node(s);
    double swapped = (double)(p->nvme_read + p->nvme_write);
    double nvme = swapped > 0 && c->host_nvme.alone > 0 ? swapped / zn_link_rate(&c->host_nvme, n_local) : 0;
    double host = p->host_bytes > 0 ? (double)p->host_bytes / zn_link_rate(&c->device_host, n_local) : 0;
    return larger(nvme, host);
}

/* Reductions and gathers run beside the computation, but the sums that stage 0 gathers when all is computed. */
void plan_predict_seconds(const struct zn_plan_setup *s, struct zn_prediction *p)
{
    double share = plan_device_share(s), peak = s->cluster->device.flops[s->engine.type] * share;
    p->flops = step_flops(s);
    p->update = update_bytes(s) / update_rate(s);
    p->compute = p->flops / peak + p->update;
    double sent = (double)(p->gather + p->reduce);
    double exposed = s->engine.stage == 0 ? link_seconds(s, (double)p->gather) : 0;
    p->communication = link_seconds(s, sent);
    p->far = (uint64_t)(sent * far_part(s) + 0.5);
    p->near = p->gather + p->reduce - p->far;
    p->io = io_seconds(s, p);
    p->step = larger(larger(p->compute, p->communication - exposed), p->io) + exposed;
    double tokens = (double)s->engine.micro_batch * (double)s->engine.seq_len * (double)s->engine.accumulate;
    p->tokens_per_second = tokens * s->n_ranks / p->step;
    p->flops_per_device = p->flops / p->step;
    p->efficiency = p->flops_per_device / peak;
    p->bound = p->io > larger(p->compute, p->communication) ? ZN_BOUND_IO
               : p->communication > p->compute              ? ZN_BOUND_COMMUNICATION
                                                            : ZN_BOUND_COMPUTE;
    if (!p->fits)
        p->bound = ZN_BOUND_MEMORY;
}
