/* Jobs on several threads, whose results are taken in the order of the jobs: the outcome does not depend on how many
 * threads there are, nor on which of them was faster.
 *
 * The jobs lie in a ring that the caller owns, so at most so many are under way. The caller asks for the next free one,
 * fills it and submits it; any thread of the team runs it; the caller takes the results, the oldest first, when
 * it asks for a job and none is free, and at the end. While the caller waits it runs jobs itself: a team of one
 * starts no thread. */
#ifndef ZN_BASE_TEAM_H
#define ZN_BASE_TEAM_H

#include <stddef.h>

#include "base/status.h"

typedef struct zn_team zn_team;

struct zn_team_work {
    void *self;
    zn_status (*run)(void *self, void *job);  /* on any thread of the team, several at once */
    zn_status (*take)(void *self, void *job); /* on the caller's thread, in the order of submission */
};

/* `jobs` is n_jobs of job_bytes each; it is the caller's and outlives the team. Between submit and take a job
 * belongs to the team. */
zn_status zn_team_create(int n_threads, const struct zn_team_work *work, void *jobs, size_t job_bytes, size_t n_jobs,
                         zn_team **team);

/* Waits for jobs that run; those that do not yet never will, and nothing more is taken. NULL is legal. */
void zn_team_destroy(zn_team *team);

/* The next free job, to be filled; takes the oldest when none is. The first failure, in the order of jobs, of run and take is
 * that of this and all later calls. Blocks. */
zn_status zn_team_next(zn_team *team, void **job);
void zn_team_submit(zn_team *team); /* the job that zn_team_next gave; does not block */

/* Takes the oldest job, or all of them. Blocks. */
zn_status zn_team_take(zn_team *team);
zn_status zn_team_finish(zn_team *team);

#endif
