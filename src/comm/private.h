/* What the files of comm/ share: the communicator's head, its table, and a request. */
#ifndef ZN_COMM_PRIVATE_H
#define ZN_COMM_PRIVATE_H

#include "comm/comm.h"
#include "comm/node.h"

/* A gather or reduce on its way. */
struct comm_request {
    enum comm_op op;
    struct zn_comm_tag tag;
    int region;
    size_t offset, n_bytes; /* of one piece of the source */
    zn_dtype wire;
    void *to;
    bool adds;
    struct zn_ticket after[2];
    struct zn_mark mark; /* its bytes are those that this rank sends */
};

/* Public functions check arguments and count traffic; backends do the rest. */
struct comm_ops {
    zn_status (*alloc)(zn_comm *comm, size_t n_bytes, struct zn_shared *shared);
    void (*free)(zn_comm *comm, struct zn_shared *shared);
    zn_status (*start)(zn_comm *comm, const struct comm_request *request, zn_event *done);
    zn_status (*exchange)(zn_comm *comm, enum comm_op op, const void *mine, size_t n_bytes,
                          void *all);
    void (*abort)(zn_comm *comm, zn_status status, const char *text);
    bool (*speaks)(zn_comm *comm);
    void (*destroy)(zn_comm *comm);
};

/* The first member of every backend's struct. */
struct zn_comm {
    const struct comm_ops *ops;
    zn_clock *clock;
    int rank, n_ranks, local_rank, n_local;
    size_t buffer_bytes;            /* what the communicator holds for itself */
    uint64_t sent[ZN_N_COMM_KINDS]; /* of the thread that submits */
    char agreed[COMM_TEXT];         /* the last failure that all ranks agreed on; likewise */
    zn_timeline *timeline;          /* likewise; NULL: none */
    zn_request_log *requests;       /* likewise */
};

/* How an exchange is noted. */
struct zn_mark comm_exchange_mark(const zn_comm *comm);

/* A status that goes to other ranks with its text. */
struct comm_vote {
    int32_t status;
    char text[COMM_TEXT];
};

/* With this thread's message when it is a failure. */
struct comm_vote comm_vote(zn_status status);

/* The first failure in rank order as this thread's; `stride` bytes from one vote to the next. A text that is `agreed` names
 * its rank already. */
zn_status comm_count_votes(const void *votes, size_t stride, int n_ranks, const char *agreed);

#endif
