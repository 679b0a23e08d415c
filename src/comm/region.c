/* The table of shared memory, the same on every rank since allocations are collective. */
#include <stdlib.h>
#include <string.h>

#include "comm/memory.h"
#include "comm/worker.h"

/* What a rank tells the others about its part. */
struct offer {
    struct comm_vote vote;
    struct memory_offer memory;
    uint64_t n_bytes;
};

static zn_status create_part(struct worker *w, size_t n_bytes, struct offer *offer,
                             unsigned char **address)
{
    /* Processes that share the node with no other need not pay for shared pages. */
    bool shared = w->processes && w->node.n_local > 1;
    return shared ? memory_create_shared(n_bytes, &offer->memory, address)
                  : memory_create_private(n_bytes, &offer->memory, address);
}

static void detach(struct worker *w, struct worker_region *region)
{
    for (int i = 0; i < w->node.n_local; i++)
        if (w->processes && i != w->node.me)
            memory_unmap(region->parts[i], region->n_bytes);
    memory_unmap(region->parts[w->node.me], region->n_bytes);
    free(region->parts);
    *region = (struct worker_region){0};
}

static zn_status attach_all(struct worker *w, const struct offer *offers,
                            struct worker_region *region)
{
    for (int i = 0; i < w->node.n_local; i++)
        if (i != w->node.me)
            ZN_TRY(memory_attach(&offers[w->ranks[i]].memory, &region->parts[i]));
    return ZN_OK;
}

/* A row of the table for the next region: its index, or -1 without memory. */
static int free_row(struct worker *w)
{
    for (int i = 0; i < w->n_regions; i++)
        if (!w->regions[i].parts)
            return i;
    struct worker_region *regions =
        realloc(w->regions, ((size_t)w->n_regions + 1) * sizeof *regions);
    if (!regions)
        return -1;
    w->regions = regions;
    w->regions[w->n_regions] = (struct worker_region){0};
    return w->n_regions++;
}

/* Tells the others of the own part and maps theirs. All ranks succeed or none. */
static zn_status share(struct worker *w, zn_status mine, struct offer *offer, struct offer *offers,
                       struct worker_region *region)
{
    offer->vote = comm_vote(NULL, mine);
    ZN_TRY(worker_exchange(w, COMM_ALLOC, offer, sizeof *offer, offers));
    ZN_TRY(comm_count_votes(offers, sizeof *offers, w->head.n_ranks, w->job_ranks));
    for (int i = 1; i < w->head.n_ranks; i++)
        if (offers[i].n_bytes != offers[0].n_bytes)
            return zn_fail(
                ZN_ERR_INTERNAL, "ranks disagree: rank %d allocates %llu bytes, rank %d %llu", w->job_ranks[0],
                (unsigned long long)offers[0].n_bytes, w->job_ranks[i], (unsigned long long)offers[i].n_bytes);
    offer->vote = comm_vote(NULL, attach_all(w, offers, region));
    ZN_TRY(worker_exchange(w, COMM_ALLOC, offer, sizeof *offer, offers));
    return comm_count_votes(offers, sizeof *offers, w->head.n_ranks, w->job_ranks);
}

/* A failure that all ranks have heard of is agreed on. */
static zn_status share_and_agree(struct worker *w, zn_status mine, struct offer *offer, struct offer *offers,
                                 struct worker_region *region)
{
    zn_status status = share(w, mine, offer, offers, region);
    if (status != ZN_OK)
        comm_note_agreed(&w->head);
    return status;
}

zn_status worker_alloc(struct worker *w, size_t n_bytes, struct zn_shared *shared)
{
    struct offer *offers = malloc((size_t)w->head.n_ranks * sizeof *offers);
    struct offer mine = {.n_bytes = n_bytes, .memory.fd = -1};
    struct worker_region region = {.n_bytes = n_bytes,
                                   .parts = calloc((size_t)w->node.n_local, sizeof(void *))};
    int row = free_row(w);
    if (!offers || !region.parts || row < 0) {
        free(offers);
        free(region.parts);
        /* There is no room to talk about it: the others learn it the hard way. */
        zn_status status = zn_fail(ZN_ERR_MEMORY, "no memory for a table of shared memory");
        node_fail(&w->node, status, zn_error_message());
        return status;
    }
    zn_status status = create_part(w, n_bytes, &mine, &region.parts[w->node.me]);
    status = share_and_agree(w, status, &mine, offers, &region);
    memory_close(&mine.memory);
    free(offers);
    if (status != ZN_OK) {
        detach(w, &region);
        return status;
    }
    w->regions[row] = region;
    *shared =
        (struct zn_shared){.index = row, .n_bytes = n_bytes, .address = region.parts[w->node.me]};
    return ZN_OK;
}

void worker_release(struct worker *w, struct zn_shared *shared)
{
    if (shared->index < 0 || shared->index >= w->n_regions || !w->regions[shared->index].parts)
        return;
    int32_t index = shared->index;
    int32_t *all = malloc((size_t)w->head.n_ranks * sizeof *all);
    zn_status status = ZN_ERR_MEMORY;
    if (all)
        status = worker_exchange(w, COMM_FREE, &index, sizeof index, all);
    else
        node_fail(&w->node, status, "no memory to free shared memory");
    free(all);
    /* After a failure another thread may still be reading: it is kept until all have left. */
    if (status == ZN_OK)
        detach(w, &w->regions[index]);
}

void worker_release_all(struct worker *w)
{
    for (int i = 0; i < w->n_regions; i++)
        if (w->regions[i].parts)
            detach(w, &w->regions[i]);
    free(w->regions);
    w->regions = NULL;
    w->n_regions = 0;
}
