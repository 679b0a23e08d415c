/* One request on one rank: meets the node's other ranks, moves or adds their pieces, and leaves
 * when all have what they need. Sources are read where they lie; nothing is staged within a node. */
#include <stdlib.h>
#include <string.h>

#include "comm/worker.h"

/* Where the local rank's source is. Its own words say it, since offsets may differ. */
static const unsigned char *source_of(const struct worker *w, int local)
{
    const struct comm_asked *asked = node_asked(&w->node, local);
    if (asked->op > COMM_REDUCE)
        return node_mailbox(&w->node, local);
    return w->regions[asked->region].parts[local] + asked->offset;
}

static zn_status gather(struct worker *w, const struct comm_asked *asked, unsigned char *to)
{
    size_t n_bytes = (size_t)asked->n_bytes;
    if (w->network)
        ZN_TRY(network_gather_begin(w->network, asked, source_of(w, w->node.me), to));
    for (int i = 0; i < w->node.n_local; i++) {
        int local = (w->node.me + i) % w->node.n_local; /* each rank begins with another one's */
        ZN_TRY(node_wait_ready(&w->node, local, asked));
        const unsigned char *from = source_of(w, local);
        unsigned char *piece = to + (size_t)w->ranks[local] * n_bytes;
        if (piece != from)
            memcpy(piece, from, n_bytes);
    }
    return w->network ? network_gather_end(w->network) : ZN_OK;
}

/* Adds block by block what comes from other nodes and what lies on this one. */
static zn_status reduce_over_nodes(struct worker *w, const struct comm_request *request,
                                   struct sum_term *terms)
{
    float *to = request->to;
    for (;;) {
        int64_t n;
        ZN_TRY(network_reduce_next(w->network, terms, &n));
        if (n == 0)
            return ZN_OK;
        sum_terms(terms, w->head.n_ranks, n, request->wire, to, request->adds);
        to += n;
        for (int i = 0; i < w->node.n_local; i++) {
            struct sum_term *term = &terms[w->ranks[i]];
            term->data = (const float *)term->data + n;
        }
    }
}

static zn_status reduce(struct worker *w, const struct comm_asked *asked,
                        const struct comm_request *request)
{
    size_t piece = (size_t)w->head.rank * request->n_bytes;
    if (w->network)
        ZN_TRY(network_reduce_begin(w->network, asked, source_of(w, w->node.me)));
    struct sum_term *terms = calloc((size_t)w->head.n_ranks, sizeof *terms);
    if (!terms)
        return zn_fail(ZN_ERR_MEMORY, "no memory for a sum over ranks");
    zn_status status = ZN_OK;
    for (int i = 0; i < w->node.n_local && status == ZN_OK; i++) {
        status = node_wait_ready(&w->node, i, asked);
        if (status == ZN_OK)
            terms[w->ranks[i]].data = source_of(w, i) + piece;
    }
    bool nothing_to_do = w->head.n_ranks == 1 && request->to == terms[0].data &&
                         request->wire == ZN_F32 && !request->adds;
    if (status == ZN_OK && w->network)
        status = reduce_over_nodes(w, request, terms);
    else if (status == ZN_OK && !nothing_to_do)
        sum_terms(terms, w->head.n_ranks, (int64_t)(request->n_bytes / sizeof(float)),
                  request->wire, request->to, request->adds);
    free(terms);
    return status;
}

/* What lies in a device's memory is brought to the staging, which all ranks have left since the last request. */
static zn_status bring(const struct worker *w, const struct comm_request *r)
{
    const struct zn_bridge *bridge = w->head.bridge;
    if (r->device_from)
        ZN_TRY(bridge->read(bridge->self, w->head.staging->address, r->device_from, r->n_source));
    return r->device_to && r->adds ? bridge->read(bridge->self, r->to, r->device_to, r->n_result) : ZN_OK;
}

static zn_status run(struct worker *w, const struct comm_request *request)
{
    for (int i = 0; i < 2; i++)
        ZN_TRY(zn_ticket_wait(request->after[i], w->head.clock));
    w->began = request->mark.timeline ? zn_clock_now(w->head.clock) : 0;
    ZN_TRY(job_check(w->node.job));
    ZN_TRY(bring(w, request));
    const struct comm_asked asked = {
        .axis = (int32_t)w->head.axis,
        .op = (int32_t)request->op,
        .kind = request->tag.kind,
        .unit = request->tag.unit,
        .region = request->region,
        .wire = (int32_t)request->wire,
        .sequence = w->sequence,
        .n_bytes = request->n_bytes,
        .offset = request->offset,
    };
    node_set_ready(&w->node, &asked);
    if (request->op == COMM_REDUCE)
        ZN_TRY(reduce(w, &asked, request));
    else
        ZN_TRY(gather(w, &asked, request->to));
    if (request->device_to)
        ZN_TRY(w->head.bridge->write(w->head.bridge->self, request->device_to, request->to, request->n_result));
    node_set_done(&w->node, asked.sequence);
    return node_wait_done(&w->node, asked.sequence);
}

/* After a failure of the job. */
static void give_up(struct worker *w)
{
    if (w->network && !w->gave_up)
        network_give_up(w->network);
    w->gave_up = true;
    if (w->link)
        link_tell(w->link);
}

zn_status worker_run(struct worker *w, const struct comm_request *request)
{
    w->sequence++;
    zn_status status = run(w, request);
    if (status == ZN_OK && request->mark.timeline)
        zn_timeline_note(&request->mark, w->began, zn_clock_now(w->head.clock));
    if (status == ZN_OK)
        return ZN_OK;
    /* Without this rank the others cannot end the request: it fails for all. */
    if (job_check(w->node.job) == ZN_OK) {
        if (w->head.world->n_ranks > 1)
            zn_add_context(status, "rank %d", w->node.job->rank);
        node_fail(&w->node, status, zn_error_message());
    }
    give_up(w);
    return job_check(w->node.job);
}

zn_status worker_exchange(struct worker *w, enum comm_op op, const void *mine, size_t n_bytes,
                          void *all)
{
    zn_status status = job_check(w->node.job);
    if (status != ZN_OK) { /* a rank that has not heard of it yet may still read what was given last */
        give_up(w);
        return status;
    }
    memcpy(node_mailbox(&w->node, w->node.me), mine, n_bytes);
    struct comm_request request = {.op = op, .n_bytes = n_bytes, .to = all, .mark = comm_exchange_mark(&w->head)};
    return worker_run(w, &request);
}
