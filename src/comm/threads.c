/* Communicators within one process: self, and ranks as threads. */
#include <stdlib.h>

#include "comm/memory.h"
#include "comm/worker.h"

static zn_status create_control(int n_ranks, unsigned char **control)
{
    struct memory_offer offer;
    return memory_create_private(worker_control_bytes(n_ranks), &offer, control);
}

zn_status zn_comm_create_self(zn_clock *clock, zn_comm **comm)
{
    struct worker *w;
    unsigned char *control;
    ZN_TRY(worker_create(clock, 0, 1, &(int){0}, 1, &w));
    zn_status status = create_control(1, &control);
    if (status != ZN_OK) {
        worker_free(w);
        return status;
    }
    worker_use_control(w, control);
    *comm = &w->head;
    return ZN_OK;
}

zn_status zn_comm_create_threads(zn_clock *clock, int n_ranks, zn_comm **comms)
{
    unsigned char *control;
    int n_made = 0, *ranks = malloc((size_t)n_ranks * sizeof *ranks);
    struct worker **workers = calloc((size_t)n_ranks, sizeof *workers);
    zn_status status = ZN_ERR_MEMORY;
    if (!ranks || !workers) {
        zn_fail(status, "no memory for %d communicators", n_ranks);
        goto undo_arrays;
    }
    for (int i = 0; i < n_ranks; i++)
        ranks[i] = i;
    status = create_control(n_ranks, &control);
    if (status != ZN_OK)
        goto undo_arrays;
    for (; n_made < n_ranks; n_made++) {
        struct worker *w;
        status = worker_create(clock, n_made, n_ranks, ranks, n_ranks, &w);
        if (status != ZN_OK)
            goto undo_workers;
        workers[n_made] = w;
        worker_use_control(w, control);
        status = zn_stream_create_thread(clock, &w->stream);
        if (status != ZN_OK) {
            worker_free(w);
            goto undo_workers;
        }
    }
    for (int i = 0; i < n_ranks; i++)
        comms[i] = &workers[i]->head;
    goto undo_arrays;

undo_workers:
    while (n_made-- > 0) {
        zn_stream_destroy(workers[n_made]->stream);
        worker_free(workers[n_made]);
    }
    memory_unmap(control, worker_control_bytes(n_ranks));
undo_arrays:
    free(workers);
    free(ranks);
    return status;
}
