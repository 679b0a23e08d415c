/* What a cluster gives one of its ranks, as rates of simulated hardware. */
#include "plan/predict_private.h"

double plan_device_share(const struct zn_plan_setup *s)
{
    int n_local = zn_plan_ranks_per_node(s);
    return n_local > s->cluster->devices ? (double)s->cluster->devices / n_local : 1;
}

/* Kernels run as they were measured, on the rank's share of the cores. Ranks of a node read one another's memory: a sum over
 * ranks is an addition of what lies there, and at stage 3 a gather copies the own piece, too. */
static void add_measured(const struct zn_plan_setup *s, struct zn_sim_machine *m)
{
    const struct zn_cluster *c = s->cluster;
    double share = plan_device_share(s);
    if (c->device.cores == 0)
        return;
    m->cores = c->device.cores * share;
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

struct zn_sim_machine plan_machine(const struct zn_plan_setup *s)
{
    const struct zn_cluster *c = s->cluster;
    int n_local = zn_plan_ranks_per_node(s);
    double share = plan_device_share(s);
    struct zn_sim_machine machine = {
        .device = {.flops = c->device.flops[s->engine.type] * share,
                   .memory_bytes = c->device.rate * share,
                   .launch = c->device.launch,
                   .link_bytes = c->device_host.alone > 0 ? zn_link_rate(&c->device_host, n_local) : 0},
        .host = {.flops = c->host_rate / n_local, .memory_bytes = c->host_rate / n_local}, /* it multiplies nothing */
        .links = {.n_ranks = s->n_ranks,
                  .ranks_per_node = n_local,
                  .node_bytes = c->device_device.alone > 0 ? zn_link_rate(&c->device_device, n_local) : 1,
                  .network_bytes = c->node_node.alone > 0 ? zn_link_rate(&c->node_node, n_local) : 1,
                  .relayed = c->node_node.relayed},
        .nvme_bytes = c->host_nvme.alone > 0 ? zn_link_rate(&c->host_nvme, n_local) : 1};
    add_measured(s, &machine);
    return machine;
}
