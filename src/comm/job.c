/* The control block of a node: the failure of the job, and the claim to speak. */
#include "comm/job.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include "base/size.h"

enum { TEXT_PATIENCE_MS = 100 }; /* for a rank that is about to write its message */

enum failure_state { NO_FAILURE, WRITING, FAILED };

struct comm_control {
    _Atomic uint32_t failure; /* enum failure_state; guards status and text */
    _Atomic uint32_t n_claims;
    zn_status status;
    char text[COMM_TEXT];
};

/* What comes behind it begins on a cache line of its own. */
size_t job_control_bytes(void)
{
    return zn_round_up(sizeof(struct comm_control), 128);
}

static void write_failure(struct comm_job *job, bool is_own, zn_status status, const char *text)
{
    struct comm_control *control = job->control;
    uint32_t expected = NO_FAILURE;
    if (!atomic_compare_exchange_strong(&control->failure, &expected, WRITING))
        return;
    control->status = status;
    snprintf(control->text, sizeof control->text, "%s", text);
    atomic_store(&job->failed_first, is_own); /* before this rank's other threads see the failure */
    atomic_store(&control->failure, FAILED);
}

void job_fail(struct comm_job *job, zn_status status, const char *text)
{
    write_failure(job, true, status, text);
}

void job_hear(struct comm_job *job, zn_status status, const char *text)
{
    write_failure(job, false, status, text);
}

zn_status job_check(const struct comm_job *job)
{
    struct comm_control *control = job->control;
    uint32_t state = atomic_load(&control->failure);
    for (int i = 0; state == WRITING && i < TEXT_PATIENCE_MS; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        state = atomic_load(&control->failure);
    }
    if (state == NO_FAILURE)
        return ZN_OK;
    if (state == WRITING)
        return zn_fail(ZN_ERR_INTERRUPTED, "a rank died while it failed");
    return zn_fail_text(control->status, control->text);
}

bool job_claim(struct comm_job *job)
{
    return atomic_fetch_add(&job->control->n_claims, 1) == 0;
}

/* The place of a rank whose process has ended, or -1. A zombie has ended too, which only a pidfd sees. */
static int find_dead(const struct comm_job *job)
{
    if (!job->watched)
        return -1;
    for (int i = 0; i < job->n_local; i++) {
        struct pollfd poll_fd = {.fd = job->watched[i], .events = POLLIN};
        bool dead = poll_fd.fd >= 0 ? poll(&poll_fd, 1, 0) == 1 : kill(job->pids[i], 0) != 0 && errno == ESRCH;
        if (dead)
            return i;
    }
    return -1;
}

bool job_has_dead(const struct comm_job *job)
{
    return find_dead(job) >= 0;
}

void job_look_for_dead(struct comm_job *job)
{
    int dead = find_dead(job);
    char text[64];
    if (dead < 0)
        return;
    snprintf(text, sizeof text, "rank %d died", job->ranks[dead]);
    job_fail(job, ZN_ERR_INTERRUPTED, text);
}
