/* The groups of a worker: workers for some of its ranks, with a thread, memory and staging of their own. The failure of the job,
 * its dead and who speaks stay the world's.
 *
 * The slots in which ranks of a group meet lie in the world's shared memory: each rank's part has one for every axis. It is kept
 * from one split to the next, since groups are not destroyed by all ranks of the job together. */
#include <stdlib.h>

#include "comm/worker.h"

/* The ranks of a group, ascending, by their ranks in the job. */
struct members {
    int *job_ranks;
    int n_ranks, index; /* this rank's place */
};

static void find_members(const struct worker *w, const struct zn_mesh *mesh, zn_axis axis, struct members *m)
{
    if (axis == ZN_NODE) {
        m->n_ranks = w->node.n_local;
        m->index = w->node.me;
        for (int i = 0; i < m->n_ranks; i++)
            m->job_ranks[i] = w->ranks[i];
        return;
    }
    struct zn_members on_axis = zn_mesh_members(mesh, axis, w->head.rank);
    m->n_ranks = on_axis.n_ranks;
    m->index = on_axis.index;
    for (int i = 0; i < m->n_ranks; i++)
        m->job_ranks[i] = on_axis.first + i * on_axis.stride;
}

/* The place of a rank of the job among those of this node, or -1. */
static int find_local(const struct worker *w, int job_rank)
{
    for (int i = 0; i < w->node.n_local; i++)
        if (w->ranks[i] == job_rank)
            return i;
    return -1;
}

static struct comm_slot *slot_of(const struct worker *w, int local, zn_axis axis)
{
    unsigned char *part = w->regions[w->slots.index].parts[local];
    return (struct comm_slot *)(void *)(part + (size_t)axis * node_slot_bytes());
}

/* What a group has of its world. */
static void join(struct worker *g, struct worker *w, zn_axis axis, const struct members *m)
{
    g->head.world = &w->head;
    g->head.axis = axis;
    g->head.buffer_bytes = node_slot_bytes();
    g->node.job = w->node.job;
    g->processes = w->processes;
    g->link = w->link;
    for (int i = 0; i < m->n_ranks; i++)
        g->job_ranks[i] = m->job_ranks[i];
    for (int i = 0; i < g->node.n_local; i++)
        g->node.slots[i] = slot_of(w, find_local(w, g->job_ranks[g->ranks[i]]), axis);
    node_clear_slot(&g->node);
}

/* Of a group that no other rank has met in. */
static void discard(struct worker *g)
{
    zn_stream_destroy(g->stream);
    network_destroy(g->network, false);
    worker_free(g);
}

/* One rank needs no thread: its requests run at once. */
static zn_status equip(struct worker *g)
{
    size_t n_bytes = 0;
    if (g->head.n_ranks > 1)
        ZN_TRY(zn_stream_create_thread(g->head.clock, &g->stream));
    if (g->node.n_local < g->head.n_ranks)
        ZN_TRY(network_create(g->link, &g->node, g->head.rank, g->head.n_ranks, &g->network, &n_bytes));
    g->head.buffer_bytes += n_bytes;
    return ZN_OK;
}

static zn_status create_group(struct worker *w, zn_axis axis, const struct members *m, zn_comm **group)
{
    struct worker *g;
    int n_local = 0, *local = calloc((size_t)m->n_ranks, sizeof *local);
    if (!local)
        return zn_fail(ZN_ERR_MEMORY, "no memory for a group of %d ranks", m->n_ranks);
    for (int i = 0; i < m->n_ranks; i++)
        if (find_local(w, m->job_ranks[i]) >= 0)
            local[n_local++] = i;
    zn_status status = worker_create(w->head.clock, m->index, m->n_ranks, local, n_local, &g);
    free(local);
    ZN_TRY(status);
    join(g, w, axis, m);
    status = equip(g);
    if (status != ZN_OK) {
        discard(g);
        return status;
    }
    *group = &g->head;
    return ZN_OK;
}

struct splitting {
    const struct zn_mesh *mesh;
    zn_comm **groups;
};

/* On the world's thread, whose the table of shared memory is. */
static zn_status create_groups(struct worker *w, void *arg)
{
    const struct splitting *s = arg;
    struct members m = {.job_ranks = calloc((size_t)w->head.n_ranks, sizeof *m.job_ranks)};
    zn_status status = ZN_OK;
    if (!m.job_ranks)
        return zn_fail(ZN_ERR_MEMORY, "no memory for groups of %d ranks", w->head.n_ranks);
    for (zn_axis axis = ZN_WORLD + 1; axis < ZN_N_AXES && status == ZN_OK; axis++) {
        find_members(w, s->mesh, axis, &m);
        status = create_group(w, axis, &m, &s->groups[axis]);
    }
    free(m.job_ranks);
    return status;
}

zn_status worker_split(zn_comm *comm, const struct zn_mesh *mesh, zn_comm **groups)
{
    struct worker *w = (struct worker *)comm;
    if (!w->slots.address)
        ZN_TRY(zn_comm_alloc(comm, ZN_N_AXES * node_slot_bytes(), &w->slots));
    zn_status status = worker_call(w, create_groups, &(struct splitting){mesh, groups});
    /* No rank uses a slot before all have cleared theirs. */
    status = zn_comm_agree(comm, status);
    for (zn_axis axis = ZN_WORLD + 1; axis < ZN_N_AXES && status != ZN_OK; axis++)
        if (groups[axis])
            discard((struct worker *)groups[axis]);
    return status;
}
