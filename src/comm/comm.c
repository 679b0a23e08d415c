/* The public face of a communicator: checks, traffic and the log. */
#include "comm/private.h"

#include "base/size.h"

static const char *const request_labels[ZN_N_COMM_KINDS] = {"gather parameters", "gather gradients", "reduce gradients",
                                                            "exchange activations"};

int zn_comm_rank(const zn_comm *comm)
{
    return comm->rank;
}

int zn_comm_n_ranks(const zn_comm *comm)
{
    return comm->n_ranks;
}

int zn_comm_n_local(const zn_comm *comm)
{
    return comm->n_local;
}

int zn_comm_local_rank(const zn_comm *comm)
{
    return comm->local_rank;
}

size_t zn_comm_buffer_bytes(const zn_comm *comm)
{
    return comm->buffer_bytes;
}

uint64_t zn_comm_sent(const zn_comm *comm, zn_comm_kind kind)
{
    return comm->sent[kind];
}

void zn_comm_trace(zn_comm *comm, zn_timeline *timeline)
{
    comm->timeline = timeline;
}

void zn_comm_log_requests(zn_comm *comm, zn_request_log *log)
{
    comm->requests = log;
}

static struct zn_mark mark_of(const zn_comm *comm, const struct zn_comm_tag *tag, uint64_t n_bytes)
{
    return (struct zn_mark){.timeline = comm->timeline,
                            .track = ZN_TRACK_COMM,
                            .label = request_labels[tag->kind],
                            .unit = tag->unit,
                            .n_bytes = n_bytes};
}

struct zn_mark comm_exchange_mark(const zn_comm *comm)
{
    return (struct zn_mark){.timeline = comm->timeline, .track = ZN_TRACK_COMM, .label = "exchange", .unit = -1};
}

zn_status zn_comm_alloc(zn_comm *comm, size_t n_bytes, struct zn_shared *shared)
{
    ZN_TRY(comm->ops->alloc(comm, n_bytes, shared));
    shared->comm = comm;
    return ZN_OK;
}

void zn_comm_free(zn_comm *comm, struct zn_shared *shared)
{
    comm->ops->free(comm, shared);
    *shared = (struct zn_shared){.index = -1};
}

static zn_status check_source(const zn_comm *comm, const struct zn_comm_tag *tag, const struct zn_shared *from,
                              size_t offset, size_t n_bytes)
{
    if (tag->kind < 0 || tag->kind >= ZN_N_COMM_KINDS)
        return zn_fail(ZN_ERR_INTERNAL, "a request of unknown kind %d", tag->kind);
    if (from->comm != comm)
        return zn_fail(ZN_ERR_INTERNAL, "a request of group %s for memory of another group", zn_axis_name(comm->axis));
    if (offset > from->n_bytes || n_bytes > from->n_bytes - offset)
        return zn_fail(ZN_ERR_INTERNAL,
                       "a request for %zu bytes at %zu of shared memory of %zu bytes", n_bytes,
                       offset, from->n_bytes);
    return ZN_OK;
}

void zn_comm_set_bridge(zn_comm *comm, const struct zn_bridge *bridge, const struct zn_shared *staging)
{
    comm->bridge = bridge;
    comm->staging = staging;
}

/* Leads a request through the staging where its source or its result lies in a device's memory; else finds the result's pointer. */
static zn_status reach_memory(const zn_comm *comm, const struct zn_shared *from, struct zn_extent to, const char *what,
                              struct comm_request *r)
{
    bool is_device = to.space == ZN_SPACE_DEVICE;
    if (!is_device)
        ZN_TRY(zn_extent_pointer(to, r->n_result, what, &r->to));
    if (!is_device && !from->device)
        return ZN_OK;
    if (!comm->bridge)
        return zn_fail(ZN_ERR_INTERNAL, "%s: memory of a device, which this communicator does not reach", what);
    size_t half = comm->staging->n_bytes / 2;
    if (r->n_source > half || r->n_result > half || (is_device && r->n_result > to.n_bytes))
        return zn_fail(ZN_ERR_INTERNAL, "%s: %zu and %zu bytes do not pass through staging of %zu", what, r->n_source, r->n_result,
                       half);
    if (from->device) {
        r->device_from = from->device + r->offset;
        r->region = comm->staging->index;
        r->offset = 0;
    }
    if (is_device) {
        r->device_to = to.address;
        r->to = comm->staging->address + half;
    }
    return ZN_OK;
}

static zn_status log_request(const zn_comm *comm, const struct comm_request *r)
{
    const char *wire = r->op == COMM_REDUCE ? zn_dtype_name(r->wire) : "bytes", *group = comm_group_name(comm);
    return zn_request_log_add(comm->requests, "%s, unit %d: %zu as %s%s%s%s", request_labels[r->tag.kind], r->tag.unit,
                              r->n_bytes, wire, r->adds ? ", added" : "", group ? ", group " : "", group ? group : "");
}

static zn_status submit(zn_comm *comm, const struct comm_request *r, zn_event *done)
{
    zn_status status = log_request(comm, r);
    if (status == ZN_OK) {
        comm->sent[r->tag.kind] += r->mark.n_bytes;
        status = comm->ops->start(comm, r, done);
    }
    return zn_event_fail(done, status);
}

zn_status zn_comm_gather(zn_comm *comm, const struct zn_gather *gather, zn_event *done)
{
    ZN_TRY(check_source(comm, &gather->tag, gather->from, gather->offset, gather->n_bytes));
    uint64_t sent = (uint64_t)(comm->n_ranks - 1) * gather->n_bytes;
    struct comm_request request = {
        .op = COMM_GATHER,
        .tag = gather->tag,
        .region = gather->from->index,
        .offset = gather->offset,
        .n_bytes = gather->n_bytes,
        .n_source = gather->n_bytes,
        .n_result = (size_t)comm->n_ranks * gather->n_bytes,
        .after = {zn_event_ticket(gather->after[0]), zn_event_ticket(gather->after[1])},
        .mark = mark_of(comm, &gather->tag, sent),
    };
    ZN_TRY(reach_memory(comm, gather->from, gather->to, "gather", &request));
    return submit(comm, &request, done);
}

zn_status zn_comm_reduce(zn_comm *comm, const struct zn_reduce *reduce, zn_event *done)
{
    if (reduce->wire != ZN_F32 && reduce->wire != ZN_BF16 && reduce->wire != ZN_F16)
        return zn_fail(ZN_ERR_INTERNAL, "a reduce with %s on the wire",
                       zn_dtype_name(reduce->wire));
    size_t n_bytes, n_all;
    if (reduce->n_elements < 0 || reduce->offset % sizeof(float) != 0 ||
        !zn_mul_size((size_t)reduce->n_elements, sizeof(float), &n_bytes) ||
        !zn_mul_size(n_bytes, (size_t)comm->n_ranks, &n_all))
        return zn_fail(ZN_ERR_INTERNAL, "a reduce of %lld elements at %zu",
                       (long long)reduce->n_elements, reduce->offset);
    ZN_TRY(check_source(comm, &reduce->tag, reduce->from, reduce->offset, n_all));
    uint64_t sent = (uint64_t)(comm->n_ranks - 1) * (uint64_t)reduce->n_elements * zn_dtype_bytes(reduce->wire);
    struct comm_request request = {
        .op = COMM_REDUCE,
        .tag = reduce->tag,
        .region = reduce->from->index,
        .offset = reduce->offset,
        .n_bytes = n_bytes,
        .wire = reduce->wire,
        .adds = reduce->adds,
        .n_source = n_all,
        .n_result = n_bytes,
        .after = {zn_event_ticket(reduce->after[0]), zn_event_ticket(reduce->after[1])},
        .mark = mark_of(comm, &reduce->tag, sent),
    };
    ZN_TRY(reach_memory(comm, reduce->from, reduce->to, "reduction", &request));
    return submit(comm, &request, done);
}

zn_status zn_comm_exchange(zn_comm *comm, const void *mine, size_t n_bytes, void *all)
{
    if (n_bytes > ZN_EXCHANGE_BYTES)
        return zn_fail(ZN_ERR_INTERNAL, "an exchange of %zu bytes; at most %d", n_bytes,
                       ZN_EXCHANGE_BYTES);
    const char *group = comm_group_name(comm);
    ZN_TRY(zn_request_log_add(comm->requests, "exchange: %zu%s%s", n_bytes, group ? ", group " : "", group ? group : ""));
    return comm->ops->exchange(comm, COMM_EXCHANGE, mine, n_bytes, all);
}

void zn_comm_abort(zn_comm *comm, zn_status status)
{
    comm->ops->abort(comm, status, zn_error_message());
}

bool zn_comm_speaks(zn_comm *comm)
{
    return comm->ops->speaks(comm);
}

void zn_comm_destroy(zn_comm *comm)
{
    if (!comm)
        return;
    comm->world->n_groups -= comm->axis != ZN_WORLD;
    comm->ops->destroy(comm);
}
