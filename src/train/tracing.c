/* Attaching a time line to what a run computes with. */
#include "train/tracing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WARM = 2 }; /* steps before the one that is traced */

struct zn_tracing {
    zn_timeline *timeline;
    const struct zn_run *run;
    const char *path;
    int64_t step; /* the one that is traced */
    double began;
};

static void attach(const struct zn_run *run, zn_timeline *timeline)
{
    zn_device_trace(run->device, timeline, ZN_TRACK_COMPUTE);
    if (run->host)
        zn_device_trace(run->host, timeline, ZN_TRACK_HOST);
    zn_run_trace_comm(run, timeline);
    if (run->storage)
        zn_storage_trace(run->storage, timeline);
}

zn_status zn_tracing_begin(const struct training *t, zn_tracing **tracing)
{
    int64_t first = zn_saving_first_step(t->saving), last = t->settings.steps - 1;
    *tracing = NULL;
    if (!ZN_GIVEN(&t->settings, trace))
        return ZN_OK;
    zn_tracing *new = calloc(1, sizeof *new);
    if (!new)
        return zn_fail(ZN_ERR_MEMORY, "no memory for a time line");
    *new = (zn_tracing){.run = &t->run, .path = t->settings.trace, .step = first + WARM < last ? first + WARM : last};
    zn_status status = zn_timeline_create(true, &new->timeline);
    if (status != ZN_OK) {
        free(new);
        return status;
    }
    attach(&t->run, new->timeline);
    *tracing = new;
    return ZN_OK;
}

void zn_tracing_before(zn_tracing *t, int64_t step)
{
    if (!t || step != t->step)
        return;
    t->began = zn_clock_now(&t->run->clock);
    zn_timeline_start(t->timeline, t->began);
}

/* ---- Rank 0 writes what all have noted ---- */

/* The text of every rank in turn, in pieces that an exchange takes. Only rank 0 keeps them: texts[r], which the caller frees. */
static zn_status collect(zn_comm *comm, const char *mine, char **texts)
{
    int n_ranks = zn_comm_n_ranks(comm), rank = zn_comm_rank(comm);
    struct {
        uint64_t n_bytes;
        char piece[ZN_EXCHANGE_BYTES - sizeof(uint64_t)];
    } part, *all = calloc((size_t)n_ranks, sizeof *all);
    const size_t room = sizeof part.piece;
    size_t n_bytes = strlen(mine), longest = 1;
    zn_status status = zn_comm_agree(comm, all ? ZN_OK : zn_fail(ZN_ERR_MEMORY, "no memory for the time lines of all ranks"));
    for (size_t at = 0; at < longest && status == ZN_OK; at += room) {
        size_t n = at < n_bytes ? n_bytes - at : 0;
        part.n_bytes = n_bytes;
        memset(part.piece, 0, room);
        memcpy(part.piece, mine + (n ? at : 0), n < room ? n : room);
        status = zn_comm_exchange(comm, &part, sizeof part, all);
        for (int r = 0; r < n_ranks && status == ZN_OK; r++) {
            size_t whole = (size_t)all[r].n_bytes, left = at < whole ? whole - at : 0;
            longest = whole > longest ? whole : longest;
            if (rank != 0)
                continue;
            if (!texts[r])
                texts[r] = calloc(whole + 1, 1);
            if (texts[r])
                memcpy(texts[r] + at, all[r].piece, left < room ? left : room);
        }
    }
    free(all);
    return status;
}

static zn_status write_texts(const zn_tracing *t, char **texts, int n_ranks)
{
    for (int r = 0; r < n_ranks; r++)
        if (!texts[r])
            return zn_fail(ZN_ERR_MEMORY, "no memory for the time lines of all ranks");
    return zn_trace_write(t->path, (const char *const *)texts, n_ranks);
}

static zn_status write_all(const zn_tracing *t, const char *mine)
{
    int n_ranks = zn_comm_n_ranks(t->run->comm);
    char **texts = calloc((size_t)n_ranks, sizeof *texts);
    zn_status status = zn_comm_agree(t->run->comm, texts ? ZN_OK : zn_fail(ZN_ERR_MEMORY, "no memory for %d ranks", n_ranks));
    if (status == ZN_OK)
        status = collect(t->run->comm, mine, texts);
    if (status == ZN_OK)
        status = zn_comm_agree(t->run->comm, zn_comm_rank(t->run->comm) == 0 ? write_texts(t, texts, n_ranks) : ZN_OK);
    for (int r = 0; texts && r < n_ranks; r++)
        free(texts[r]);
    free(texts);
    return status;
}

zn_status zn_tracing_after(zn_tracing *t, int64_t step)
{
    char process[64], *mine = NULL;
    if (!t || step != t->step)
        return ZN_OK;
    double now = zn_clock_now(&t->run->clock);
    int rank = zn_comm_rank(t->run->comm);
    zn_timeline_stop(t->timeline);
    snprintf(process, sizeof process, "rank %d of %d, step %lld", rank, zn_comm_n_ranks(t->run->comm), (long long)step + 1);
    zn_status status = zn_comm_agree(t->run->comm, zn_timeline_print(t->timeline, rank, process, t->began, now, &mine));
    if (status == ZN_OK)
        status = write_all(t, mine);
    free(mine);
    return status;
}

void zn_tracing_destroy(zn_tracing *t)
{
    if (!t)
        return;
    zn_run_trace_comm(t->run, NULL); /* it goes on after the run */
    zn_timeline_destroy(t->timeline);
    free(t);
}
