/* Requests over several nodes. A piece is cut in blocks; two blocks are under way, each with a
 * message from and to every remote rank at once, so that no link waits for another. Gathers go from
 * source to destination directly; terms of a reduce come through staging that is allocated once.
 *
 * Messages of a request carry a tag made from what was asked for, so that those of ranks that
 * disagree never meet; one rank of each node compares what the nodes ask for and says so. */
#include "comm/network.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/size.h"
#include "comm/private.h"

enum {
    UNDER_WAY = 2, /* blocks */
    TAG_FAILURE = 1,
    TAG_ASKED = 2,
    TAG_DATA = 16,       /* and above */
    N_DATA_TAGS = 32000, /* MPI grants tags up to 32767 */
    LOOK_AROUND_MS = 100,
    GIVE_UP_MS = 200,
};

#define GATHER_BLOCK (64 * ZN_MIB) /* a message's size is an int to MPI */
#define STAGING_WANTED (32 * ZN_MIB)
#define REDUCE_BLOCK_MAX (4 * ZN_MIB)
#define REDUCE_BLOCK_MIN (16 * ZN_KIB)

struct comm_network {
    MPI_Comm comm;
    struct comm_node *node;
    int rank;
    int n_remote, *remote;   /* ranks of other nodes, beginning after this one */
    int n_leaders, *leaders; /* the first rank of every other node, when this is one too */
    size_t staged_bytes;     /* of one message of a reduce */
    unsigned char *staging;  /* UNDER_WAY × n_remote messages received, then as many to send */
    MPI_Request *receives[UNDER_WAY], *sends[UNDER_WAY], *checks; /* checks: in, then out */
    struct comm_asked asked, *asked_there; /* this request; what other leaders ask for */
    MPI_Request failure;                   /* a message that may come at any time */
    struct comm_vote heard, told;          /* what another node's failure is, and this one's */
    MPI_Request *tells;                    /* of `told`, which is MPI's until they are done: perhaps never */
    /* The request under way: */
    const unsigned char *mine;
    unsigned char *all; /* of a gather */
    size_t n_bytes;     /* of a piece on the wire */
    size_t block_bytes; /* of a block on the wire */
    int64_t n_blocks, taken;
};

static zn_status mpi_failed(const char *what, int code)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int n = 0;
    MPI_Error_string(code, text, &n);
    return zn_fail(ZN_ERR_IO, "%s: %s", what, text);
}

static void sleep_seconds(double seconds)
{
    nanosleep(&(struct timespec){.tv_nsec = (long)(seconds * 1e9)}, NULL);
}

/* Another node's failure becomes this node's. Those who found it have told all. */
static void hear(void *context)
{
    comm_network *net = context;
    int there = 0;
    if (net->failure == MPI_REQUEST_NULL)
        return;
    if (MPI_Test(&net->failure, &there, MPI_STATUS_IGNORE) != MPI_SUCCESS || !there)
        return;
    job_hear(net->node->job, (zn_status)net->heard.status, net->heard.text);
    node_wake(net->node);
}

static zn_status await(comm_network *net, MPI_Request *requests, int n)
{
    double nap = 20e-6, since_look = 0;
    for (;;) {
        int done = 0;
        int code = MPI_Testall(n, requests, &done, MPI_STATUSES_IGNORE);
        if (code != MPI_SUCCESS)
            return mpi_failed("the network between nodes failed", code);
        if (done)
            return ZN_OK;
        hear(net);
        ZN_TRY(job_check(net->node->job));
        sleep_seconds(nap);
        since_look += nap;
        nap = nap * 2 < 1e-3 ? nap * 2 : 1e-3;
        if (since_look * 1e3 >= LOOK_AROUND_MS) {
            job_look_for_dead(net->node->job);
            since_look = 0;
        }
    }
}

static int tag_of(const struct comm_asked *asked)
{
    uint64_t hash = asked->sequence;
    const uint64_t parts[] = {(uint64_t)asked->op,     (uint64_t)asked->kind, (uint64_t)asked->unit,
                              (uint64_t)asked->region, (uint64_t)asked->wire, asked->n_bytes};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        hash = (hash ^ parts[i]) * UINT64_C(0x9e3779b97f4a7c15) >> 1;
    return TAG_DATA + (int)(hash % N_DATA_TAGS);
}

static unsigned char *staged(const comm_network *net, bool to_send, int64_t block, int i)
{
    size_t slot = (size_t)(block % UNDER_WAY) * (size_t)net->n_remote + (size_t)i;
    size_t half = (size_t)UNDER_WAY * (size_t)net->n_remote;
    return net->staging + (slot + (to_send ? half : 0)) * net->staged_bytes;
}

static size_t bytes_of_block(const comm_network *net, int64_t block)
{
    size_t left = net->n_bytes - (size_t)block * net->block_bytes;
    return left < net->block_bytes ? left : net->block_bytes;
}

/* Where the block for the remote rank lies; a reduce's is rounded to the wire's type first. */
static const void *outgoing(comm_network *net, int64_t block, int i)
{
    size_t at = (size_t)block * net->block_bytes;
    if (net->asked.op != COMM_REDUCE)
        return net->mine + at;
    zn_dtype wire = (zn_dtype)net->asked.wire;
    size_t element = at / zn_dtype_bytes(wire),
           n = bytes_of_block(net, block) / zn_dtype_bytes(wire);
    const float *floats =
        (const float *)(const void *)(net->mine + (size_t)net->remote[i] * net->asked.n_bytes) +
        element;
    if (wire == ZN_F32)
        return floats;
    void *rounded = staged(net, true, block, i);
    sum_round(floats, (int64_t)n, wire, rounded);
    return rounded;
}

static void *incoming(comm_network *net, int64_t block, int i)
{
    if (net->asked.op == COMM_REDUCE)
        return staged(net, false, block, i);
    return net->all + (size_t)net->remote[i] * net->n_bytes + (size_t)block * net->block_bytes;
}

static zn_status post(comm_network *net, int64_t block)
{
    if (block >= net->n_blocks)
        return ZN_OK;
    int tag = tag_of(&net->asked), n = (int)bytes_of_block(net, block);
    MPI_Request *receives = net->receives[block % UNDER_WAY],
                *sends = net->sends[block % UNDER_WAY];
    for (int i = 0; i < net->n_remote; i++) {
        /* Ranks are served in opposite orders, so that the first to be sent to is the first to
         * expect it. */
        int from = net->n_remote - 1 - i;
        int code = MPI_Irecv(incoming(net, block, from), n, MPI_BYTE, net->remote[from], tag,
                             net->comm, &receives[from]);
        if (code != MPI_SUCCESS)
            return mpi_failed("MPI_Irecv", code);
    }
    for (int i = 0; i < net->n_remote; i++) {
        int code = MPI_Isend(outgoing(net, block, i), n, MPI_BYTE, net->remote[i], tag, net->comm,
                             &sends[i]);
        if (code != MPI_SUCCESS)
            return mpi_failed("MPI_Isend", code);
    }
    return ZN_OK;
}

static zn_status begin(comm_network *net, const struct comm_asked *asked, size_t n_bytes,
                       size_t block_bytes)
{
    net->asked = *asked;
    net->n_bytes = n_bytes;
    net->block_bytes = block_bytes;
    net->n_blocks = (int64_t)((n_bytes + block_bytes - 1) / block_bytes);
    net->taken = 0;
    for (int i = 0; i < net->n_leaders; i++) {
        int code = MPI_Irecv(&net->asked_there[i], sizeof net->asked, MPI_BYTE, net->leaders[i],
                             TAG_ASKED, net->comm, &net->checks[i]);
        if (code == MPI_SUCCESS)
            code = MPI_Isend(&net->asked, sizeof net->asked, MPI_BYTE, net->leaders[i], TAG_ASKED,
                             net->comm, &net->checks[net->n_leaders + i]);
        if (code != MPI_SUCCESS)
            return mpi_failed("MPI_Isend", code);
    }
    for (int64_t block = 0; block < UNDER_WAY; block++)
        ZN_TRY(post(net, block));
    return ZN_OK;
}

/* That all nodes ask for the same. Comes before anything waits for data: if they do not, none will
 * come. */
static zn_status compare(comm_network *net)
{
    ZN_TRY(await(net, net->checks, 2 * net->n_leaders));
    for (int i = 0; i < net->n_leaders; i++) {
        if (node_same(&net->asked, &net->asked_there[i]))
            continue;
        zn_status status =
            node_disagree(net->rank, &net->asked, net->leaders[i], &net->asked_there[i]);
        node_fail(net->node, status, zn_error_message());
        return job_check(net->node->job);
    }
    return ZN_OK;
}

zn_status network_gather_begin(comm_network *net, const struct comm_asked *asked,
                               const unsigned char *mine, unsigned char *all)
{
    net->mine = mine;
    net->all = all;
    return begin(net, asked, (size_t)asked->n_bytes, GATHER_BLOCK);
}

zn_status network_gather_end(comm_network *net)
{
    ZN_TRY(compare(net));
    for (int64_t block = 0; block < net->n_blocks; block++) {
        ZN_TRY(await(net, net->receives[block % UNDER_WAY], net->n_remote));
        ZN_TRY(await(net, net->sends[block % UNDER_WAY], net->n_remote));
        ZN_TRY(post(net, block + UNDER_WAY));
    }
    return ZN_OK;
}

zn_status network_reduce_begin(comm_network *net, const struct comm_asked *asked,
                               const unsigned char *mine)
{
    net->mine = mine;
    net->all = NULL;
    size_t n_elements = (size_t)asked->n_bytes / sizeof(float);
    return begin(net, asked, n_elements * zn_dtype_bytes((zn_dtype)asked->wire), net->staged_bytes);
}

zn_status network_reduce_next(comm_network *net, struct sum_term *terms, int64_t *n_elements)
{
    int64_t block = net->taken;
    if (block == 0)
        ZN_TRY(compare(net));
    if (block > 0) {
        ZN_TRY(await(net, net->sends[(block - 1) % UNDER_WAY], net->n_remote));
        ZN_TRY(post(net, block - 1 + UNDER_WAY));
    }
    *n_elements = 0;
    if (block == net->n_blocks)
        return ZN_OK;
    ZN_TRY(await(net, net->receives[block % UNDER_WAY], net->n_remote));
    for (int i = 0; i < net->n_remote; i++)
        terms[net->remote[i]] = (struct sum_term){staged(net, false, block, i), true};
    *n_elements = (int64_t)(bytes_of_block(net, block) / zn_dtype_bytes((zn_dtype)net->asked.wire));
    net->taken++;
    return ZN_OK;
}

/* Tests until all are done or the time is up. */
static void drain(MPI_Request *requests, int n, int patience_ms)
{
    int done = 0;
    for (int ms = 0; ms <= patience_ms; ms++) {
        if (MPI_Testall(n, requests, &done, MPI_STATUSES_IGNORE) != MPI_SUCCESS || done)
            return;
        sleep_seconds(1e-3);
    }
}

static void cancel(MPI_Request *requests, int n)
{
    for (int i = 0; i < n; i++)
        if (requests[i] != MPI_REQUEST_NULL)
            MPI_Cancel(&requests[i]);
    drain(requests, n, 0);
}

void network_give_up(comm_network *net, bool tell)
{
    for (int i = 0; i < UNDER_WAY; i++)
        cancel(net->receives[i], net->n_remote);
    if (!tell)
        return;
    net->told = comm_vote(job_check(net->node->job));
    for (int i = 0; i < net->n_remote; i++)
        MPI_Isend(&net->told, sizeof net->told, MPI_BYTE, net->remote[i], TAG_FAILURE, net->comm, &net->tells[i]);
    drain(net->tells, net->n_remote, GIVE_UP_MS); /* they are small: MPI has taken most of them at once */
}

/* Who is where: leader_of[r] is the first rank on the node of rank r. */
static zn_status find_others(comm_network *net, const int *leader_of, int n_ranks)
{
    int me = net->rank, home = leader_of[me];
    net->remote = calloc((size_t)n_ranks, sizeof *net->remote);
    net->leaders = calloc((size_t)n_ranks, sizeof *net->leaders);
    if (!net->remote || !net->leaders)
        return zn_fail(ZN_ERR_MEMORY, "no memory for a table of %d ranks", n_ranks);
    for (int i = 1; i < n_ranks; i++) {
        int other = (me + i) % n_ranks;
        if (leader_of[other] == home)
            continue;
        net->remote[net->n_remote++] = other;
        if (me == home && leader_of[other] == other)
            net->leaders[net->n_leaders++] = other;
    }
    return ZN_OK;
}

static MPI_Request *no_requests(int n)
{
    MPI_Request *requests = malloc(((size_t)n + 1) * sizeof *requests);
    for (int i = 0; requests && i < n; i++)
        requests[i] = MPI_REQUEST_NULL;
    return requests;
}

static zn_status allocate(comm_network *net, size_t *n_bytes)
{
    size_t n_messages = 2 * (size_t)UNDER_WAY * (size_t)net->n_remote;
    size_t each = STAGING_WANTED / n_messages / 4096 * 4096;
    each = each > REDUCE_BLOCK_MAX ? REDUCE_BLOCK_MAX : each;
    net->staged_bytes = each < REDUCE_BLOCK_MIN ? REDUCE_BLOCK_MIN : each;
    net->staging = aligned_alloc(4096, n_messages * net->staged_bytes);
    net->checks = no_requests(2 * net->n_leaders);
    net->asked_there = calloc((size_t)net->n_leaders + 1, sizeof *net->asked_there);
    net->tells = no_requests(net->n_remote);
    bool whole = net->staging && net->checks && net->asked_there && net->tells;
    for (int i = 0; i < UNDER_WAY; i++) {
        net->receives[i] = no_requests(net->n_remote);
        net->sends[i] = no_requests(net->n_remote);
        whole = whole && net->receives[i] && net->sends[i];
    }
    if (!whole)
        return zn_fail(ZN_ERR_MEMORY, "no memory for %zu bytes of staging between nodes",
                       n_messages * net->staged_bytes);
    *n_bytes = n_messages * net->staged_bytes;
    return ZN_OK;
}

static void release(comm_network *net)
{
    for (int i = 0; i < UNDER_WAY; i++) {
        free(net->receives[i]);
        free(net->sends[i]);
    }
    free(net->tells);
    free(net->asked_there);
    free(net->checks);
    free(net->staging);
    free(net->leaders);
    free(net->remote);
    free(net);
}

zn_status network_create(struct comm_node *node, comm_network **out, size_t *n_bytes)
{
    int n_ranks, code, *leader_of = NULL;
    comm_network *net = calloc(1, sizeof *net);
    MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    if (net)
        leader_of = calloc((size_t)n_ranks, sizeof *leader_of);
    if (!leader_of) {
        free(net);
        return zn_fail(ZN_ERR_MEMORY, "no memory for a table of %d ranks", n_ranks);
    }
    net->node = node;
    net->rank = node->ranks[node->me];
    net->comm = MPI_COMM_NULL;
    net->failure = MPI_REQUEST_NULL;
    code = MPI_Allgather(&node->ranks[0], 1, MPI_INT, leader_of, 1, MPI_INT, MPI_COMM_WORLD);
    if (code == MPI_SUCCESS)
        code = MPI_Comm_dup(MPI_COMM_WORLD, &net->comm);
    zn_status status = code == MPI_SUCCESS ? ZN_OK : mpi_failed("MPI_Comm_dup", code);
    if (status == ZN_OK)
        status = find_others(net, leader_of, n_ranks);
    if (status == ZN_OK)
        status = allocate(net, n_bytes);
    free(leader_of);
    if (status != ZN_OK) {
        release(net);
        return status;
    }
    MPI_Irecv(&net->heard, sizeof net->heard, MPI_BYTE, MPI_ANY_SOURCE, TAG_FAILURE, net->comm,
              &net->failure);
    node->job->look_around = hear;
    node->job->context = net;
    *out = net;
    return ZN_OK;
}

void network_destroy(comm_network *net, bool failed)
{
    if (!net || failed)
        return;
    net->node->job->look_around = NULL;
    cancel(&net->failure, 1);
    if (net->failure != MPI_REQUEST_NULL)
        MPI_Request_free(&net->failure);
    MPI_Comm_free(&net->comm);
    release(net);
}
