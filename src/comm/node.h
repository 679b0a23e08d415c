/* The ranks of one node, threads or processes, meet in a control block of shared memory.
 *
 * Requests are numbered from 1 on every rank. A rank that reaches request s writes down what it
 * asks for and sets its word `ready` to s: its source may now be read. When it has read what it
 * needs of the others it sets `done` to s; when all are done the sources may change. Who waits for
 * a word sleeps on it (futex) and wakes every 100 ms to look for failures and dead ranks. */
#ifndef ZN_COMM_NODE_H
#define ZN_COMM_NODE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "comm/comm.h"

enum { COMM_TEXT = 1024 }; /* bytes of a failure's message between ranks */

/* X(name, text in messages) */
#define COMM_OPS(X)                                                                                \
    X(GATHER, "gather")                                                                            \
    X(REDUCE, "reduce")                                                                            \
    X(EXCHANGE, "exchange")                                                                        \
    X(AGREE, "agreement")                                                                          \
    X(ALLOC, "allocation")                                                                         \
    X(FREE, "release of memory")                                                                   \
    X(START, "start")                                                                              \
    X(END, "end")

enum comm_op {
#define COMM_OP_ENUM(name, text) COMM_##name,
    COMM_OPS(COMM_OP_ENUM)
#undef COMM_OP_ENUM
};

/* What a rank asks for. All but `offset` must be the same on every rank. Fixed types: it crosses
 * the network. */
struct comm_asked {
    int32_t op, kind, unit, region, wire;
    uint32_t sequence;
    uint64_t n_bytes; /* of one piece */
    uint64_t offset;
};

struct comm_control; /* the shared block */

struct comm_node {
    struct comm_control *control;
    int n_local, me;
    const int *ranks; /* global rank of each local one, ascending */
    int *watched;     /* a pidfd for each local rank, or -1; NULL: ranks are threads */
    const int *pids;  /* with `watched` */
    /* Looks for a failure on other nodes; called about every 100 ms while waiting. May be NULL. */
    void (*look_around)(void *context);
    void *context;
    _Atomic bool failed_first; /* this rank found the failure: it tells others, and ends the job */
};

size_t node_control_bytes(int n_local);

/* What this rank asks for becomes visible to the others, and its source readable. */
void node_set_ready(struct comm_node *node, const struct comm_asked *asked);

/* Blocks until the local rank has reached the request, and checks that it asks for the same. */
zn_status node_wait_ready(struct comm_node *node, int local, const struct comm_asked *mine);
const struct comm_asked *node_asked(const struct comm_node *node, int local);

/* This rank has read what it needs; and: blocks until all have. */
void node_set_done(struct comm_node *node, uint32_t sequence);
zn_status node_wait_done(struct comm_node *node, uint32_t sequence);

/* Fails every rank of the node with this text, unless it has failed already. */
void node_fail(struct comm_node *node, zn_status status, const char *text);

/* ZN_OK, or the failure of the node as this thread's. */
zn_status node_check(const struct comm_node *node);

/* True for the first of the node's ranks that calls it. */
bool node_claim(struct comm_node *node);

/* Fails the node when the process of a local rank has ended. */
void node_look_for_dead(struct comm_node *node);

/* "ranks disagree: …", of two ranks that asked for different things in the same place. */
zn_status node_disagree(int rank, const struct comm_asked *asked, int other_rank,
                        const struct comm_asked *other);
bool node_same(const struct comm_asked *a, const struct comm_asked *b);

/* ZN_EXCHANGE_BYTES in the control block. */
unsigned char *node_mailbox(const struct comm_node *node, int local);

/* This rank will touch nothing shared again. Blocks until all ranks of the node said so, at most
 * `seconds` (below 0: for ever). True for the last rank that gets here when all did: the one that
 * may free the control block of threads. */
bool node_leave(struct comm_node *node, double seconds);

#endif
