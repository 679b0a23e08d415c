/* The ranks of one communicator that share a node, threads or processes, meet in slots of shared memory, one of each rank.
 *
 * Requests are numbered from 1 on every rank. A rank that reaches request s writes down what it
 * asks for and sets its word `ready` to s: its source may now be read. When it has read what it
 * needs of the others it sets `done` to s; when all are done the sources may change. Who waits for
 * a word sleeps on it (futex) and wakes every 100 ms to look for failures and dead ranks. */
#ifndef ZN_COMM_NODE_H
#define ZN_COMM_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "comm/comm.h"
#include "comm/job.h"

/* X(name, text in messages) */
#define COMM_OPS(X)                                                                                \
    X(GATHER, "gather")                                                                            \
    X(REDUCE, "reduce")                                                                            \
    X(EXCHANGE, "exchange")                                                                        \
    X(AGREE, "agreement")                                                                          \
    X(ALLOC, "allocation")                                                                         \
    X(FREE, "release of memory")                                                                   \
    X(START, "start")                                                                              \
    X(END, "end")                                                                                  \
    X(SPLIT, "split into groups")

enum comm_op {
#define COMM_OP_ENUM(name, text) COMM_##name,
    COMM_OPS(COMM_OP_ENUM)
#undef COMM_OP_ENUM
};

/* What a rank asks for. All but `offset` must be the same on every rank. Fixed types: it crosses
 * the network. */
struct comm_asked {
    int32_t axis; /* of the communicator */
    int32_t op, kind, unit, region, wire;
    uint32_t sequence;
    uint64_t n_bytes; /* of one piece */
    uint64_t offset;
};

struct comm_slot; /* zeroed memory is the slot of a rank that has asked for nothing */

struct comm_node {
    struct comm_job *job;
    int n_local, me;
    const int *ranks;         /* in the communicator, of each local rank, ascending */
    const int *job_ranks;     /* by rank in the communicator: its rank in the job */
    struct comm_slot **slots; /* of each local rank */
};

/* A slot's size; slots that lie side by side are aligned when the first is, to 128 bytes. */
size_t node_slot_bytes(void);

/* Makes this rank's slot that of a rank that has asked for nothing. */
void node_clear_slot(struct comm_node *node);

/* What this rank asks for becomes visible to the others, and its source readable. */
void node_set_ready(struct comm_node *node, const struct comm_asked *asked);

/* Blocks until the local rank has reached the request, and checks that it asks for the same. */
zn_status node_wait_ready(struct comm_node *node, int local, const struct comm_asked *mine);
const struct comm_asked *node_asked(const struct comm_node *node, int local);

/* This rank has read what it needs; and: blocks until all have. */
void node_set_done(struct comm_node *node, uint32_t sequence);
zn_status node_wait_done(struct comm_node *node, uint32_t sequence);

/* Fails the job, and wakes the ranks that sleep in this node's slots; others hear of it when they look. */
void node_fail(struct comm_node *node, zn_status status, const char *text);
void node_wake(struct comm_node *node);

/* "ranks disagree: …", of two ranks that asked for different things in the same place. */
zn_status node_disagree(int rank, const struct comm_asked *asked, int other_rank,
                        const struct comm_asked *other);
bool node_same(const struct comm_asked *a, const struct comm_asked *b);

/* ZN_EXCHANGE_BYTES in the slot. */
unsigned char *node_mailbox(const struct comm_node *node, int local);

/* This rank will touch nothing shared again. Blocks until all ranks of the node said so, at most
 * `seconds` (below 0: for ever). True for the last rank that gets here when all did: the one that
 * may free what all share. */
bool node_leave(struct comm_node *node, double seconds);

#endif
