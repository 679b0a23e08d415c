/* Attaching a time line to what a run computes with. */
#include "train/tracing.h"

#include <stdio.h>
#include <stdlib.h>

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
    zn_comm_trace(run->comm, timeline);
    if (run->storage)
        zn_storage_trace(run->storage, timeline);
}

zn_status zn_tracing_begin(const struct training *t, zn_tracing **tracing)
{
    int64_t first = zn_saving_first_step(t->saving), last = t->settings.steps - 1;
    *tracing = NULL;
    if (!ZN_GIVEN(&t->settings, trace) || zn_comm_rank(t->run.comm) != 0)
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

zn_status zn_tracing_after(zn_tracing *t, int64_t step)
{
    char process[64];
    if (!t || step != t->step)
        return ZN_OK;
    double now = zn_clock_now(&t->run->clock);
    zn_timeline_stop(t->timeline);
    snprintf(process, sizeof process, "rank 0 of %d, step %lld", zn_comm_n_ranks(t->run->comm), (long long)step + 1);
    return zn_timeline_write(t->timeline, t->path, process, t->began, now);
}

void zn_tracing_destroy(zn_tracing *t)
{
    if (!t)
        return;
    zn_comm_trace(t->run->comm, NULL); /* it goes on after the run */
    zn_timeline_destroy(t->timeline);
    free(t);
}
