/* A communicator: the ranks of one job, or a group of them, and the collectives between them.
 *
 * Requests of one communicator run one after the other, in the order they were submitted, which
 * must be the same on every rank; a communication thread of its own does the work while the
 * device computes. Requests of different communicators are independent: ranks may submit to two groups in different orders, and
 * a group that waits holds up no other. Sums over ranks are taken in rank order in fp32, so they do not depend on
 * timing or transport.
 *
 * Memory that other ranks read from (partitions, gradient slots) comes from zn_comm_alloc: ranks
 * of one node read it in place. Waiting sleeps and never spins for long. A rank that fails or
 * dies makes every request of the others fail with its message, in all groups. */
#ifndef ZN_COMM_COMM_H
#define ZN_COMM_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/event.h"
#include "base/request_log.h"
#include "base/stream.h"
#include "comm/mesh.h"
#include "memory/buffer.h"
#include "tensor/dtype.h"

typedef struct zn_comm zn_comm;

/* Memory of the same size on every rank of a communicator; `index` names it on all of them. */
struct zn_shared {
    const zn_comm *comm; /* whose requests may take it */
    int index;
    size_t n_bytes;
    unsigned char *address; /* zeroed, 4096-byte aligned; of this rank's own part. NULL on sim */
    zn_addr device; /* not 0: the own part lies there in a device's memory, not in memory of the communicator's (index -1) */
};

static inline struct zn_extent zn_shared_extent(const struct zn_shared *shared)
{
    return zn_extent_of(shared->address, shared->n_bytes);
}

/* What a request is for: checked between ranks in test builds, and how traffic is counted. */
struct zn_comm_tag {
    int kind; /* zn_comm_kind */
    int unit;
};

typedef enum zn_comm_kind {
    ZN_COMM_GATHER_PARAM, /* values of parameters */
    ZN_COMM_GATHER_GRAD,  /* summed gradients, at stage 0 */
    ZN_COMM_REDUCE_GRAD,
    ZN_COMM_ACTIVATIONS, /* of tensor parallelism, and their gradients */
    ZN_N_COMM_KINDS
} zn_comm_kind;

/* All-gather: every rank gives n_bytes at `offset` (which may differ) of its own part of `from` and
 * receives all of them, in rank order, at `to` (n_ranks × n_bytes). `to` may be inside this rank's own part, with the rank's
 * piece already in its place. What is given must not change until every rank has it: the event says
 * so. */
struct zn_gather {
    struct zn_comm_tag tag;
    const struct zn_shared *from;
    size_t offset, n_bytes;
    struct zn_extent to;
    zn_event *after[2]; /* not before their present uses are done; NULL-padded */
};

/* Reduce-scatter: every rank gives n_ranks × n_elements floats at `offset` bytes of its own part of
 * `from`; rank r receives the sum over ranks, in rank order in fp32, of the r-th piece. Each term is
 * rounded to `wire` first (round to nearest even), and counted with its size. to[i] is set, or added
 * to when `adds`: to[i] + (term 0 + term 1 + …). `to` may be this rank's own piece of `from`. */
struct zn_reduce {
    struct zn_comm_tag tag;
    const struct zn_shared *from;
    size_t offset;
    int64_t n_elements;
    zn_dtype wire;
    struct zn_extent to;
    bool adds;
    zn_event *after[2];
};

/* How requests reach a device's memory. Called on the thread of requests; they block. */
struct zn_bridge {
    void *self;
    zn_status (*read)(void *self, void *to, zn_addr from, size_t n_bytes);
    zn_status (*write)(void *self, zn_addr to, const void *from, size_t n_bytes);
};

/* Not collective, while no request is under way: from now on sources and results may lie in a device's memory. They pass through
 * `staging`, whose one half holds the largest source and the other the largest result. Both are borrowed; NULL: no more. Ranks
 * agree on whether their sources do. */
void zn_comm_set_bridge(zn_comm *comm, const struct zn_bridge *bridge, const struct zn_shared *staging);

int zn_comm_rank(const zn_comm *comm);
int zn_comm_n_ranks(const zn_comm *comm);

/* Ranks on this node, and which of them this is: for threads and memory. */
int zn_comm_n_local(const zn_comm *comm);
int zn_comm_local_rank(const zn_comm *comm);

/* Collective; blocks. All succeed or all fail. */
zn_status zn_comm_alloc(zn_comm *comm, size_t n_bytes, struct zn_shared *shared);
void zn_comm_free(zn_comm *comm, struct zn_shared *shared); /* collective; blocks */

/* Collective; do not block. The struct is copied; `done` is set when this rank has its result and
 * what it gave may change. A call that fails has begun nothing on this rank, and fails `done` too. */
zn_status zn_comm_gather(zn_comm *comm, const struct zn_gather *gather, zn_event *done);
zn_status zn_comm_reduce(zn_comm *comm, const struct zn_reduce *reduce, zn_event *done);

/* Collective; blocks: n_bytes (at most ZN_EXCHANGE_BYTES) of every rank, in rank order, into `all`.
 * Runs after all requests before it. Not counted as traffic. */
enum { ZN_EXCHANGE_BYTES = 4096 };
zn_status zn_comm_exchange(zn_comm *comm, const void *mine, size_t n_bytes, void *all);

/* Collective; blocks: the first failure, in rank order, of the statuses given (each with its thread's
 * message) becomes the status of all, its message with "rank R: " before it (its rank in the job). */
zn_status zn_comm_agree(zn_comm *comm, zn_status mine);

/* Not collective: tells the others that this rank cannot go on; every request of theirs, under way
 * or later, fails with this rank's message, "rank R: " before it unless it was agreed on. Takes this
 * thread's message, and leaves there the one that all ranks have: of two that fail, the first one's.
 * A request whose `after` failed does the same. */
void zn_comm_abort(zn_comm *comm, zn_status status);

/* Not collective, also after a failure: true for the first rank of the node that asks, and for no other; a group asks as its job.
 * What all ranks know, their end above all, is said by that one. */
bool zn_comm_speaks(zn_comm *comm);

/* Logical payload this rank has sent since the start, by kind: for each request
 * (n_ranks - 1) × piece bytes, whatever the transport. */
uint64_t zn_comm_sent(const zn_comm *comm, zn_comm_kind kind);

/* Bytes the communicator holds for itself from its creation on (control block, staging between
 * nodes): for the ledger. */
size_t zn_comm_buffer_bytes(const zn_comm *comm);

/* Not collective: requests that are submitted from now on are noted; NULL: no more. The time line outlives them. */
void zn_comm_trace(zn_comm *comm, zn_timeline *timeline);

/* Not collective: the same for the log of requests. Lines name the group where it has not all ranks of the job. */
void zn_comm_log_requests(zn_comm *comm, zn_request_log *log);

/* Collective; blocks until all ranks are there. Groups are destroyed before their job. NULL is legal. */
void zn_comm_destroy(zn_comm *comm);

/* ---- Groups ---- */

/* Collective; blocks. The groups that this rank is in, one for each axis, of a job that lies in the mesh: communicators with
 * queues, memory, traffic, time line and log of their own, and ranks counted from 0. groups[ZN_WORLD] is `comm` itself. A group
 * of one rank runs its requests at once on the caller. Failures are the job's: a rank that aborts, dies or disagrees in one group
 * fails every request of every group, and of the job, with the same message. A job is split once at a time, and a group never.
 * All ranks succeed or none. */
zn_status zn_comm_split(zn_comm *comm, const struct zn_mesh *mesh, zn_comm *groups[ZN_N_AXES]);

/* Collective; blocks: destroys the groups, in the same order on every rank, but not the job; sets all to NULL. Who calls
 * zn_comm_destroy instead keeps to one order, since each waits for its other ranks. */
void zn_comm_destroy_groups(zn_comm *groups[ZN_N_AXES]);

/* ---- Backends ---- */

/* One rank; requests run at once on the caller. */
zn_status zn_comm_create_self(zn_clock *clock, zn_comm **comm);

/* n_ranks communicators for n_ranks threads of this process (tests, sanitizers). The caller destroys
 * each from its own thread. */
zn_status zn_comm_create_threads(zn_clock *clock, int n_ranks, zn_comm **comms);

/* The job that mpirun or srun started: MPI between nodes, shared memory within one. Starts MPI, which
 * can be done once in a process. Collective; blocks.
 *
 * After a failure of the communicator, zn_comm_destroy gives the node's other ranks a second to learn
 * of it and does not end MPI. The process is expected to print the message and exit with a code that
 * is not 0; at exit the rank that found the failure ends the whole job. */
zn_status zn_comm_create_mpi(zn_clock *clock, zn_comm **comm);

/* Whether this process was started by mpirun or srun (without starting MPI). */
bool zn_comm_is_launched(void);

/* The MPI of this build, "Open MPI v4.1.4" (without starting it). */
void zn_comm_mpi_version(char *text, size_t size);

/* One of n_ranks identical ranks on a virtual clock: a request takes latency + bytes received or sent /
 * bandwidth, of the link within a node or between nodes: the longer of the two, since both work at
 * once. No memory is touched. Of a group the rank with the fewest peers on its node decides, since all wait for it; ranks of one
 * node are consecutive. Groups work side by side, each at the full rate of the links: that two of them share a link is not
 * modelled. */
struct zn_sim_links {
    int n_ranks, ranks_per_node;
    double node_bytes, network_bytes; /* a second, each rank's share */
    bool relayed; /* what comes from other nodes enters once and is handed on: it crosses the link within, too */
    double latency;                   /* seconds a request */
    double sum_bytes[3]; /* terms added a second, by the type on the wire; 0: as fast as they come */
    bool copies_own;     /* a gather moves the rank's own piece, too */
    zn_stream *cores;    /* whose time the communication thread takes; NULL: nobody's */
    double cores_part;
};
zn_status zn_comm_create_sim(zn_clock *clock, const struct zn_sim_links *links, zn_comm **comm);

#endif
