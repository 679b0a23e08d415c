/* What all communicators of a rank share: whether the job has failed and why, which of the node's ranks have died, and which of
 * them speaks. It lies in a control block in memory that the ranks of the node share. */
#ifndef ZN_COMM_JOB_H
#define ZN_COMM_JOB_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

enum { COMM_TEXT = 1024 }; /* bytes of a failure's message between ranks */

struct comm_control; /* the shared block; zeroed memory is a job that has not failed */

struct comm_job {
    struct comm_control *control;
    int rank;         /* this rank's in the job */
    int n_local;      /* ranks of this node */
    const int *ranks; /* theirs in the job */
    int *watched;     /* a pidfd for each of them, or -1; NULL: ranks are threads */
    const int *pids;  /* with `watched` */
    /* Looks for a failure on other nodes; called about every 100 ms while waiting, by any communicator's thread. May be NULL. */
    void (*look_around)(void *context);
    void *context;
    _Atomic bool failed_first; /* this rank found the failure: it tells others, and ends the job */
};

size_t job_control_bytes(void);

/* Fails every rank of the node with this text, unless the job has failed already. */
void job_fail(struct comm_job *job, zn_status status, const char *text);

/* The same with a failure of another node. */
void job_hear(struct comm_job *job, zn_status status, const char *text);

/* ZN_OK, or the failure of the job as this thread's. */
zn_status job_check(const struct comm_job *job);

/* True for the first of the node's ranks that calls it. */
bool job_claim(struct comm_job *job);

/* Whether the process of a rank of the node has ended; and: fails the job when it has. */
bool job_has_dead(const struct comm_job *job);
void job_look_for_dead(struct comm_job *job);

#endif
