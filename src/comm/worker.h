/* Communicators with a control block: self, threads, mpi and their groups. A worker's requests run on its stream:
 * a thread that owns the region table, the sequence number and the network's requests, or the caller (self). */
#ifndef ZN_COMM_WORKER_H
#define ZN_COMM_WORKER_H

#include "base/stream.h"
#include "comm/network.h"
#include "comm/private.h"

/* Shared memory by index: the parts of all local ranks. */
struct worker_region {
    size_t n_bytes;
    unsigned char **parts; /* NULL: free for the next allocation */
};

struct worker {
    zn_comm head;
    struct comm_job job; /* of a world; groups have a pointer to it in `node` */
    struct comm_node node;
    zn_stream *stream;
    comm_link *link;       /* to MPI's thread; NULL: ranks are threads */
    comm_network *network; /* NULL: all ranks are on this node */
    /* Ends MPI, when all requests have ended; or NULL. */
    void (*end)(struct worker *worker, bool failed);
    bool processes;    /* local ranks are processes, not threads */
    int *ranks, *pids; /* of local ranks; the pointers of node and job */
    int *job_ranks;    /* by rank; the pointer of node and head */
    unsigned char *ends; /* of the last exchange, one of each rank: to end needs no memory */
    struct zn_shared slots; /* of a world that was split: each rank's part has its slot of every axis */
    /* Of the stream's thread: */
    uint32_t sequence;
    double began; /* its last request, when what it comes after was done */
    bool gave_up; /* on the network, after a failure */
    struct worker_region *regions;
    int n_regions;
};

/* A worker with its head and node's ranks filled; the caller adds stream and control block. */
zn_status worker_create(zn_clock *clock, int rank, int n_ranks, const int *local_ranks, int n_local,
                        struct worker **worker);

/* A control block with the slots of n_local ranks behind it; and: the worker meets the others in it. */
size_t worker_control_bytes(int n_local);
void worker_use_control(struct worker *worker, unsigned char *control);

/* Frees what worker_create made; not the control block. */
void worker_free(struct worker *worker);

/* On the stream's thread: one request from start to end. */
zn_status worker_run(struct worker *worker, const struct comm_request *request);

/* Runs the function on the stream's thread, and blocks until it has returned. */
zn_status worker_call(struct worker *worker, zn_status (*function)(struct worker *worker, void *arg), void *arg);

/* On the stream's thread: the mailboxes of all ranks. */
zn_status worker_exchange(struct worker *worker, enum comm_op op, const void *mine, size_t n_bytes,
                          void *all);

/* The groups of a world. Collective; blocks. */
zn_status worker_split(zn_comm *comm, const struct zn_mesh *mesh, zn_comm **groups);

/* On the stream's thread. */
zn_status worker_alloc(struct worker *worker, size_t n_bytes, struct zn_shared *shared);
void worker_release(struct worker *worker, struct zn_shared *shared);
void worker_release_all(struct worker *worker);

#endif
