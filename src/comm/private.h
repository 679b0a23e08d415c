/* What the files of comm/ share: the communicator's head, its table, and a request. */
#ifndef ZN_COMM_PRIVATE_H
#define ZN_COMM_PRIVATE_H

#include <pthread.h>

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
    zn_addr device_from, device_to; /* not 0: they come from there, through the staging, and go there */
    size_t n_source, n_result;      /* bytes of these */
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
    /* Of the axes after ZN_WORLD; the mesh is checked and the same on all ranks. */
    zn_status (*split)(zn_comm *comm, const struct zn_mesh *mesh, zn_comm **groups);
    void (*destroy)(zn_comm *comm);
};

/* The first member of every backend's struct. */
struct zn_comm {
    const struct comm_ops *ops;
    zn_clock *clock;
    zn_comm *world; /* of a group; a job is its own */
    zn_axis axis;   /* of a group; else ZN_WORLD */
    int rank, n_ranks, local_rank, n_local;
    const int *job_ranks;           /* of the ranks; NULL: the same */
    size_t buffer_bytes;            /* what the communicator holds for itself */
    uint64_t sent[ZN_N_COMM_KINDS]; /* of the thread that submits */
    zn_timeline *timeline;          /* likewise; NULL: none */
    zn_request_log *requests;       /* likewise */
    const struct zn_bridge *bridge;   /* to a device's memory; NULL: none. While no request is under way, as the next */
    const struct zn_shared *staging;
    int n_groups;                   /* of a job: those not yet destroyed; of the thread that splits it */
    pthread_mutex_t lock;           /* of a job: guards the next */
    char agreed[COMM_TEXT];         /* the last failure that all ranks of it or of a group agreed on */
};

/* How an exchange is noted. */
struct zn_mark comm_exchange_mark(const zn_comm *comm);

/* A status that goes to other ranks with its text. */
struct comm_vote {
    int32_t status;
    int32_t names_rank; /* the text was agreed on */
    char text[COMM_TEXT];
};

/* With this thread's message when it is a failure. Without a communicator nothing was agreed on. */
struct comm_vote comm_vote(zn_comm *comm, zn_status status);

/* The first failure in rank order as this thread's, with its rank in the job; `stride` bytes from one vote to the next. */
zn_status comm_count_votes(const void *votes, size_t stride, int n_ranks, const int *job_ranks);

/* This thread's message is agreed on by all ranks; and: whether a text was. */
void comm_note_agreed(zn_comm *comm);
bool comm_is_agreed(zn_comm *comm, const char *text);

/* The name of a group that has not all ranks of its job; else NULL. */
const char *comm_group_name(const zn_comm *comm);

#endif
