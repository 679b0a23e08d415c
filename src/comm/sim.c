/* One of many identical ranks on a virtual clock. Nothing is moved: a request takes the time that
 * its bytes need on the links, which work side by side, the node's and the network's. A group has a stream of its own. */
#include <stdlib.h>
#include <string.h>

#include "base/stream.h"
#include "comm/private.h"

struct sim {
    zn_comm head;
    struct zn_sim_links links;
    zn_stream *stream;
    int n_regions;
};

/* Every other rank's piece crosses the link to it once. */
static double request_seconds(const struct sim *sim, double piece_bytes, bool copies_own)
{
    int n_near = sim->head.n_local - !copies_own, n_far = sim->head.n_ranks - sim->head.n_local;
    int n_inside = sim->links.relayed && n_near > 0 ? n_near + n_far : n_near;
    double near = n_inside > 0 ? n_inside * piece_bytes / sim->links.node_bytes : 0;
    double far = n_far > 0 ? n_far * piece_bytes / sim->links.network_bytes : 0;
    if (sim->head.n_ranks == 1)
        return 0;
    return sim->links.latency + (near > far ? near : far);
}

static zn_status alloc(zn_comm *comm, size_t n_bytes, struct zn_shared *shared)
{
    struct sim *sim = (struct sim *)comm;
    *shared = (struct zn_shared){.index = sim->n_regions++, .n_bytes = n_bytes};
    return ZN_OK;
}

static void release(zn_comm *comm, struct zn_shared *shared)
{
    (void)comm;
    (void)shared;
}

/* Terms of other nodes come while those that are there are added. */
static double reduce_seconds(const struct sim *sim, const struct comm_request *r)
{
    double adding = sim->links.sum_bytes[r->wire] > 0
                        ? sim->head.n_ranks * (double)r->n_bytes / sim->links.sum_bytes[r->wire]
                        : 0;
    double n_bytes = (double)r->n_bytes * (double)zn_dtype_bytes(r->wire) / (double)sizeof(float);
    double coming = request_seconds(sim, n_bytes, false);
    return adding > coming ? adding : coming;
}

static zn_status start(zn_comm *comm, const struct comm_request *request, zn_event *done)
{
    struct sim *sim = (struct sim *)comm;
    double seconds = request->op == COMM_REDUCE
                         ? reduce_seconds(sim, request)
                         : request_seconds(sim, (double)request->n_bytes, sim->links.copies_own);
    struct zn_task task = {.seconds = seconds,
                           .after = {request->after[0].event, request->after[1].event},
                           .done = done,
                           .mark = request->mark};
    return zn_stream_submit(sim->stream, &task);
}

/* All ranks say the same. The caller's time moves on to the end of the exchange. */
static zn_status exchange(zn_comm *comm, enum comm_op op, const void *mine, size_t n_bytes,
                          void *all)
{
    struct sim *sim = (struct sim *)comm;
    (void)op;
    for (int i = 0; i < comm->n_ranks; i++)
        memcpy((unsigned char *)all + (size_t)i * n_bytes, mine, n_bytes);
    struct zn_task task = {.seconds = request_seconds(sim, (double)n_bytes, false), .mark = comm_exchange_mark(comm)};
    ZN_TRY(zn_stream_submit(sim->stream, &task));
    return zn_stream_synchronize(sim->stream);
}

static void abort_ranks(zn_comm *comm, zn_status status, const char *text)
{
    (void)comm; /* there are no others */
    (void)status;
    (void)text;
}

static bool speaks(zn_comm *comm)
{
    (void)comm;
    return true;
}

static void destroy(zn_comm *comm)
{
    struct sim *sim = (struct sim *)comm;
    zn_stream_destroy(sim->stream);
    free(sim);
}

static zn_status split(zn_comm *comm, const struct zn_mesh *mesh, zn_comm **groups);

static const struct comm_ops sim_ops = {
    .alloc = alloc,
    .free = release,
    .start = start,
    .exchange = exchange,
    .abort = abort_ranks,
    .speaks = speaks,
    .split = split,
    .destroy = destroy,
};

static zn_status create(zn_clock *clock, const struct zn_sim_links *links, int n_ranks, int n_local, struct sim **out)
{
    struct sim *sim = calloc(1, sizeof *sim);
    if (!sim)
        return zn_fail(ZN_ERR_MEMORY, "no memory for a communicator");
    zn_status status = zn_stream_create_virtual(clock, &sim->stream);
    if (status != ZN_OK) {
        free(sim);
        return status;
    }
    sim->links = *links;
    if (links->cores)
        zn_stream_share(sim->stream, links->cores, links->cores_part);
    sim->head = (zn_comm){.ops = &sim_ops,
                          .clock = clock,
                          .world = &sim->head,
                          .lock = PTHREAD_MUTEX_INITIALIZER,
                          .n_ranks = n_ranks,
                          .n_local = n_local};
    *out = sim;
    return ZN_OK;
}

zn_status zn_comm_create_sim(zn_clock *clock, const struct zn_sim_links *links, zn_comm **comm)
{
    if (links->n_ranks < 1 || links->ranks_per_node < 1 || !(links->node_bytes > 0) ||
        !(links->network_bytes > 0) || !(links->latency >= 0))
        return zn_fail(ZN_ERR_USAGE,
                       "simulated links need ranks, bandwidths above 0 and a latency");
    struct sim *sim;
    int n_local = links->n_ranks < links->ranks_per_node ? links->n_ranks : links->ranks_per_node;
    ZN_TRY(create(clock, links, links->n_ranks, n_local, &sim));
    *comm = &sim->head;
    return ZN_OK;
}

static int64_t members_below(const struct zn_members *m, int64_t rank)
{
    int64_t n = rank <= m->first ? 0 : (rank - m->first + m->stride - 1) / m->stride;
    return n < m->n_ranks ? n : m->n_ranks;
}

/* The fewest ranks of its group, itself among them, that a rank has on its node. */
static int fewest_local(const struct sim *sim, const struct zn_mesh *mesh, zn_axis axis)
{
    int64_t fewest = sim->head.n_ranks, per_node = sim->links.ranks_per_node;
    for (int rank = 0; rank < sim->head.n_ranks; rank++) {
        struct zn_members m = zn_mesh_members(mesh, axis, rank);
        int64_t node = rank / per_node, n = members_below(&m, (node + 1) * per_node) - members_below(&m, node * per_node);
        fewest = n < fewest ? n : fewest;
    }
    return (int)fewest;
}

static zn_status split(zn_comm *comm, const struct zn_mesh *mesh, zn_comm **groups)
{
    struct sim *sim = (struct sim *)comm;
    zn_status status = ZN_OK;
    zn_axis axis = ZN_WORLD + 1;
    for (; axis < ZN_N_AXES; axis++) {
        struct sim *group;
        bool on_mesh = axis != ZN_NODE;
        int n_ranks = on_mesh ? zn_mesh_members(mesh, axis, 0).n_ranks : comm->n_local;
        int n_local = on_mesh ? fewest_local(sim, mesh, axis) : comm->n_local;
        status = create(comm->clock, &sim->links, n_ranks, n_local, &group);
        if (status != ZN_OK)
            break;
        group->head.world = comm;
        group->head.axis = axis;
        groups[axis] = &group->head;
    }
    while (status != ZN_OK && --axis > ZN_WORLD)
        destroy(groups[axis]);
    return status;
}
