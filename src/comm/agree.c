/* What all ranks of a communicator say, and the failure that they agree on. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/private.h"

/* Groups of one job may agree on different threads. The text of a single rank names none. */
void comm_note_agreed(zn_comm *comm)
{
    zn_comm *world = comm->world;
    if (comm->n_ranks == 1)
        return;
    pthread_mutex_lock(&world->lock);
    snprintf(world->agreed, sizeof world->agreed, "%s", zn_error_message());
    pthread_mutex_unlock(&world->lock);
}

bool comm_is_agreed(zn_comm *comm, const char *text)
{
    zn_comm *world = comm->world;
    pthread_mutex_lock(&world->lock);
    bool same = strcmp(text, world->agreed) == 0;
    pthread_mutex_unlock(&world->lock);
    return same;
}

struct comm_vote comm_vote(zn_comm *comm, zn_status status)
{
    struct comm_vote vote = {.status = (int32_t)status};
    if (status != ZN_OK) {
        snprintf(vote.text, sizeof vote.text, "%s", zn_error_message());
        vote.names_rank = comm && comm_is_agreed(comm, vote.text);
    }
    return vote;
}

zn_status comm_count_votes(const void *votes, size_t stride, int n_ranks, const int *job_ranks)
{
    for (int i = 0; i < n_ranks; i++) {
        const struct comm_vote *vote =
            (const void *)((const unsigned char *)votes + (size_t)i * stride);
        if (vote->status == ZN_OK)
            continue;
        zn_status status = zn_fail_text((zn_status)vote->status, vote->text);
        if (n_ranks > 1 && !vote->names_rank)
            zn_add_context(status, "rank %d", job_ranks ? job_ranks[i] : i);
        return status;
    }
    return ZN_OK;
}

zn_status zn_comm_agree(zn_comm *comm, zn_status mine)
{
    struct comm_vote vote = comm_vote(comm, mine);
    struct comm_vote *votes = malloc((size_t)comm->n_ranks * sizeof *votes);
    if (!votes) {
        zn_status status = zn_fail(ZN_ERR_MEMORY, "no memory to agree with the other ranks");
        zn_comm_abort(comm, status);
        return status;
    }
    zn_status status = comm->ops->exchange(comm, COMM_AGREE, &vote, sizeof vote, votes);
    if (status == ZN_OK) {
        status = comm_count_votes(votes, sizeof vote, comm->n_ranks, comm->job_ranks);
        if (status != ZN_OK)
            comm_note_agreed(comm);
    }
    free(votes);
    return status;
}
