/* Requests over several nodes. A piece is cut in blocks; two blocks are under way, each with a
 * message from and to every remote rank at once, so that no link waits for another. Gathers go from
 * source to destination directly; terms of a reduce come through staging that is allocated once.
 *
 * The communicator's thread prepares blocks (it rounds what a reduce sends) and takes those that have come; MPI's thread posts
 * and tests them, as far as that goes without waiting. The one sleeps while the other works on the request.
 *
 * Messages of a request carry a tag made from what was asked for, so that those of ranks that
 * disagree do not meet; one rank of each node compares what the nodes ask for and says so. Each axis has tags of its own: the
 * messages of two groups that have a pair of ranks in common never meet, and groups along one axis have no rank in common. */
#include "comm/network.h"

#include <mpi.h>
#include <stdlib.h>

#include "base/size.h"
#include "comm/peers.h"

enum {
    UNDER_WAY = 2, /* blocks */
    TAG_ASKED = 2,      /* and above, one for each axis */
    TAG_DATA = 16,      /* and above, so many for each axis; MPI grants tags up to 32767 */
    N_DATA_TAGS = 5000,
};

#define GATHER_BLOCK (64 * ZN_MIB) /* a message's size is an int to MPI */
#define STAGING_WANTED (32 * ZN_MIB)
#define REDUCE_BLOCK_MAX (4 * ZN_MIB)
#define REDUCE_BLOCK_MIN (16 * ZN_KIB)

struct comm_network {
    comm_link *link;
    struct comm_node *node;
    MPI_Comm comm; /* the link's: of the whole job */
    int rank;
    struct comm_peers peers;
    size_t staged_bytes;    /* of one message of a reduce */
    unsigned char *staging; /* UNDER_WAY × n_remote messages received, then as many to send */
    MPI_Request *receives[UNDER_WAY], *sends[UNDER_WAY], *checks; /* checks: in, then out */
    struct comm_asked asked, *asked_there; /* this request; what other leaders ask for */
    /* The request under way: */
    const unsigned char *mine;
    unsigned char *all; /* of a gather */
    size_t n_bytes;     /* of a piece on the wire */
    size_t block_bytes; /* of a block on the wire */
    bool is_compared;   /* all nodes ask for the same */
    int64_t n_blocks;   /* and how many of them, from the first on, are: */
    int64_t n_prepared, n_posted, n_received, n_sent;
    int64_t wanted_received, wanted_sent;
    int64_t n_given, n_taken; /* of a reduce: handed out to be added; added, so that their staging is free */
};

static zn_status mpi_failed(const char *what, int code)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int n = 0;
    MPI_Error_string(code, text, &n);
    return zn_fail(ZN_ERR_IO, "%s: %s", what, text);
}

static int tag_of(const struct comm_asked *asked)
{
    uint64_t hash = asked->sequence;
    const uint64_t parts[] = {(uint64_t)asked->op,     (uint64_t)asked->kind, (uint64_t)asked->unit,
                              (uint64_t)asked->region, (uint64_t)asked->wire, asked->n_bytes};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        hash = (hash ^ parts[i]) * UINT64_C(0x9e3779b97f4a7c15) >> 1;
    return TAG_DATA + asked->axis * N_DATA_TAGS + (int)(hash % N_DATA_TAGS);
}

static unsigned char *staged(const comm_network *net, bool to_send, int64_t block, int i)
{
    size_t slot = (size_t)(block % UNDER_WAY) * (size_t)net->peers.n_remote + (size_t)i;
    size_t half = (size_t)UNDER_WAY * (size_t)net->peers.n_remote;
    return net->staging + (slot + (to_send ? half : 0)) * net->staged_bytes;
}

static size_t bytes_of_block(const comm_network *net, int64_t block)
{
    size_t left = net->n_bytes - (size_t)block * net->block_bytes;
    return left < net->block_bytes ? left : net->block_bytes;
}

/* The floats that the remote rank gets of the block. */
static const float *floats_for(const comm_network *net, int64_t block, int i)
{
    size_t first = (size_t)block * net->block_bytes / zn_dtype_bytes((zn_dtype)net->asked.wire);
    return (const float *)(const void *)(net->mine + (size_t)net->peers.remote[i] * net->asked.n_bytes) + first;
}

/* Where the block for the remote rank lies. */
static const void *outgoing(const comm_network *net, int64_t block, int i)
{
    if (net->asked.op != COMM_REDUCE)
        return net->mine + (size_t)block * net->block_bytes;
    return net->asked.wire == ZN_F32 ? (const void *)floats_for(net, block, i) : staged(net, true, block, i);
}

static void *incoming(comm_network *net, int64_t block, int i)
{
    if (net->asked.op == COMM_REDUCE)
        return staged(net, false, block, i);
    return net->all + (size_t)net->peers.remote[i] * net->n_bytes + (size_t)block * net->block_bytes;
}

/* ---- On the communicator's thread ---- */

/* A block needs the staging and the requests of the one before the last. */
static bool can_prepare(const comm_network *net)
{
    int64_t n_taken = net->asked.op == COMM_REDUCE ? net->n_taken : net->n_received;
    int64_t n_free = (net->n_sent < n_taken ? net->n_sent : n_taken) + UNDER_WAY;
    return net->n_prepared < net->n_blocks && net->n_prepared < n_free;
}

static void prepare(comm_network *net)
{
    zn_dtype wire = (zn_dtype)net->asked.wire;
    for (; can_prepare(net); net->n_prepared++) {
        if (net->asked.op != COMM_REDUCE || wire == ZN_F32)
            continue;
        size_t n = bytes_of_block(net, net->n_prepared) / zn_dtype_bytes(wire);
        for (int i = 0; i < net->peers.n_remote; i++)
            sum_round(floats_for(net, net->n_prepared, i), (int64_t)n, wire, staged(net, true, net->n_prepared, i));
    }
}

/* ---- On MPI's thread ---- */

static zn_status post(comm_network *net, int64_t block)
{
    const int *job_ranks = net->node->job_ranks;
    int tag = tag_of(&net->asked), n = (int)bytes_of_block(net, block);
    MPI_Request *receives = net->receives[block % UNDER_WAY],
                *sends = net->sends[block % UNDER_WAY];
    for (int i = 0; i < net->peers.n_remote; i++) {
        /* Ranks are served in opposite orders, so that the first to be sent to is the first to
         * expect it. */
        int from = net->peers.n_remote - 1 - i;
        int code = MPI_Irecv(incoming(net, block, from), n, MPI_BYTE, job_ranks[net->peers.remote[from]], tag,
                             net->comm, &receives[from]);
        if (code != MPI_SUCCESS)
            return mpi_failed("MPI_Irecv", code);
    }
    for (int i = 0; i < net->peers.n_remote; i++) {
        int code = MPI_Isend(outgoing(net, block, i), n, MPI_BYTE, job_ranks[net->peers.remote[i]], tag, net->comm,
                             &sends[i]);
        if (code != MPI_SUCCESS)
            return mpi_failed("MPI_Isend", code);
    }
    return ZN_OK;
}

static zn_status test(MPI_Request *requests, int n, bool *done)
{
    int all = 0, code = MPI_Testall(n, requests, &all, MPI_STATUSES_IGNORE);
    if (code != MPI_SUCCESS)
        return mpi_failed("the network between nodes failed", code);
    *done = all;
    return ZN_OK;
}

/* Counts the blocks whose messages are done, in their order. */
static zn_status count(comm_network *net, MPI_Request *const *requests, int64_t *n_done)
{
    for (bool done = true; done && *n_done < net->n_posted; *n_done += done)
        ZN_TRY(test(requests[*n_done % UNDER_WAY], net->peers.n_remote, &done));
    return ZN_OK;
}

/* That all nodes ask for the same. Comes before anything waits for data: if they do not, none will
 * come. */
static zn_status compare(comm_network *net)
{
    const int *job_ranks = net->node->job_ranks;
    ZN_TRY(test(net->checks, 2 * net->peers.n_leaders, &net->is_compared));
    for (int i = 0; net->is_compared && i < net->peers.n_leaders; i++) {
        if (node_same(&net->asked, &net->asked_there[i]))
            continue;
        zn_status status =
            node_disagree(job_ranks[net->rank], &net->asked, job_ranks[net->peers.leaders[i]], &net->asked_there[i]);
        node_fail(net->node, status, zn_error_message());
        return job_check(net->node->job);
    }
    return ZN_OK;
}

static zn_status post_prepared(comm_network *net)
{
    for (; net->n_posted < net->n_prepared; net->n_posted++)
        ZN_TRY(post(net, net->n_posted));
    return ZN_OK;
}

static zn_status start(void *arg, bool *done)
{
    comm_network *net = arg;
    for (int i = 0; i < net->peers.n_leaders; i++) {
        int there = net->node->job_ranks[net->peers.leaders[i]], tag = TAG_ASKED + net->asked.axis;
        int code = MPI_Irecv(&net->asked_there[i], sizeof net->asked, MPI_BYTE, there, tag, net->comm, &net->checks[i]);
        if (code == MPI_SUCCESS)
            code = MPI_Isend(&net->asked, sizeof net->asked, MPI_BYTE, there, tag, net->comm,
                             &net->checks[net->peers.n_leaders + i]);
        if (code != MPI_SUCCESS)
            return mpi_failed("MPI_Isend", code);
    }
    *done = true;
    return post_prepared(net);
}

static bool has_arrived(const comm_network *net)
{
    return net->is_compared && net->n_received >= net->wanted_received && net->n_sent >= net->wanted_sent;
}

/* As far as the request comes without waiting: done when it is where it should be, or the communicator's thread can go on. */
static zn_status advance(void *arg, bool *done)
{
    comm_network *net = arg;
    ZN_TRY(post_prepared(net));
    if (!net->is_compared)
        ZN_TRY(compare(net));
    if (net->is_compared) {
        ZN_TRY(count(net, net->receives, &net->n_received));
        ZN_TRY(count(net, net->sends, &net->n_sent));
    }
    *done = has_arrived(net) || can_prepare(net);
    return *done ? ZN_OK : job_check(net->node->job);
}

static zn_status cancel(void *arg, bool *done)
{
    comm_network *net = arg;
    for (int b = 0; b < UNDER_WAY; b++) {
        int all;
        for (int i = 0; i < net->peers.n_remote; i++)
            if (net->receives[b][i] != MPI_REQUEST_NULL)
                MPI_Cancel(&net->receives[b][i]);
        MPI_Testall(net->peers.n_remote, net->receives[b], &all, MPI_STATUSES_IGNORE);
    }
    *done = true;
    return ZN_OK;
}

/* ---- The requests ---- */

static zn_status begin(comm_network *net, const struct comm_asked *asked, size_t n_bytes, size_t block_bytes)
{
    net->asked = *asked;
    net->n_bytes = n_bytes;
    net->block_bytes = block_bytes;
    net->is_compared = false;
    net->n_blocks = (int64_t)((n_bytes + block_bytes - 1) / block_bytes);
    net->n_prepared = net->n_posted = net->n_received = net->n_sent = 0;
    net->n_given = net->n_taken = 0;
    prepare(net);
    return link_run(net->link, start, net);
}

/* Blocks until so many blocks have come and gone. */
static zn_status await(comm_network *net, int64_t n_received, int64_t n_sent)
{
    net->wanted_received = n_received;
    net->wanted_sent = n_sent;
    do {
        prepare(net);
        ZN_TRY(link_run(net->link, advance, net));
    } while (!has_arrived(net));
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
    return await(net, net->n_blocks, net->n_blocks);
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
    net->n_taken = net->n_given;
    *n_elements = 0;
    if (net->n_taken == net->n_blocks)
        return await(net, net->n_blocks, net->n_blocks);
    ZN_TRY(await(net, net->n_taken + 1, 0));
    int64_t block = net->n_given++;
    for (int i = 0; i < net->peers.n_remote; i++)
        terms[net->peers.remote[i]] = (struct sum_term){staged(net, false, block, i), true};
    *n_elements = (int64_t)(bytes_of_block(net, block) / zn_dtype_bytes((zn_dtype)net->asked.wire));
    return ZN_OK;
}

void network_give_up(comm_network *net)
{
    link_run(net->link, cancel, net);
}

/* ---- Creation ---- */

static MPI_Request *no_requests(int n)
{
    MPI_Request *requests = malloc(((size_t)n + 1) * sizeof *requests);
    for (int i = 0; requests && i < n; i++)
        requests[i] = MPI_REQUEST_NULL;
    return requests;
}

static zn_status allocate(comm_network *net, size_t *n_bytes)
{
    size_t n_messages = 2 * (size_t)UNDER_WAY * (size_t)net->peers.n_remote;
    size_t each = STAGING_WANTED / n_messages / 4096 * 4096;
    each = each > REDUCE_BLOCK_MAX ? REDUCE_BLOCK_MAX : each;
    net->staged_bytes = each < REDUCE_BLOCK_MIN ? REDUCE_BLOCK_MIN : each;
    net->staging = aligned_alloc(4096, n_messages * net->staged_bytes);
    net->checks = no_requests(2 * net->peers.n_leaders);
    net->asked_there = calloc((size_t)net->peers.n_leaders + 1, sizeof *net->asked_there);
    bool whole = net->staging && net->checks && net->asked_there;
    for (int i = 0; i < UNDER_WAY; i++) {
        net->receives[i] = no_requests(net->peers.n_remote);
        net->sends[i] = no_requests(net->peers.n_remote);
        whole = whole && net->receives[i] && net->sends[i];
    }
    if (!whole)
        return zn_fail(ZN_ERR_MEMORY, "no memory for %zu bytes of staging between nodes",
                       n_messages * net->staged_bytes);
    *n_bytes = n_messages * net->staged_bytes;
    return ZN_OK;
}

zn_status network_create(comm_link *link, struct comm_node *node, int rank, int n_ranks, comm_network **out, size_t *n_bytes)
{
    comm_network *net = calloc(1, sizeof *net);
    if (!net)
        return zn_fail(ZN_ERR_MEMORY, "no memory for a network of %d ranks", n_ranks);
    net->link = link;
    net->node = node;
    net->comm = *(const MPI_Comm *)link_mpi_comm(link);
    net->rank = rank;
    zn_status status = peers_init(&net->peers, link, node->job_ranks, rank, n_ranks);
    if (status == ZN_OK)
        status = allocate(net, n_bytes);
    if (status != ZN_OK) {
        network_destroy(net, false);
        return status;
    }
    *out = net;
    return ZN_OK;
}

void network_destroy(comm_network *net, bool failed)
{
    if (!net || failed)
        return;
    for (int i = 0; i < UNDER_WAY; i++) {
        free(net->receives[i]);
        free(net->sends[i]);
    }
    free(net->asked_there);
    free(net->checks);
    free(net->staging);
    peers_fini(&net->peers);
    free(net);
}
