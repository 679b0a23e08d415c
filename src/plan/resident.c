/* Pages that ranks share count in each of them that has touched them. */
#include "plan/resident.h"

#include <stdlib.h>

enum { PAGE = 4096 };

/* How much of another rank's buffer this one reads, in parts of n_ranks: at stage 3 all of its partitions, before that its
 * part of each unit; of gradients what is summed here and, at stage 0, the other's sums. */
static int parts_read(const struct zn_plan_setup *s, int buffer)
{
    int n = zn_plan_replicas(s), stage = s->engine.stage;
    switch (buffer) {
    case ZN_BUFFER_PARAMETERS:
        return stage == 3 ? n : stage == 0 ? 0 : 1;
    case ZN_BUFFER_FROZEN:
    case ZN_BUFFER_QUANTISED:
        return stage == 3 ? n : 0;
    case ZN_BUFFER_GRADIENTS:
    case ZN_BUFFER_PENDING:
        return stage == 0 ? 2 : stage == 1 ? 1 : 0;
    case ZN_BUFFER_TIED:
        return 1;
    case ZN_BUFFER_FETCHED:
        return n;
    default:
        return 0;
    }
}

/* What rank 0 reads of another's gradient slots: the first piece of each, wherever it lies in its turn. */
static size_t slots_read(const zn_lifetimes *slots, int n_ranks)
{
    size_t peak = slots ? zn_lifetimes_peak(slots) : 0, n_pages = peak / PAGE + 1, n_read = 0;
    unsigned char *pages = peak ? calloc(n_pages, 1) : NULL;
    if (!pages)
        return peak; /* at most */
    for (int64_t b = 0; b < zn_lifetimes_n_blocks(slots); b++) {
        size_t first = zn_lifetimes_offset(slots, b), end = first + zn_lifetimes_block_bytes(slots, b) / (size_t)n_ranks;
        for (size_t page = first / PAGE; page * PAGE < end; page++) {
            n_read += !pages[page];
            pages[page] = 1;
        }
    }
    free(pages);
    return n_read * PAGE;
}

size_t plan_resident(const struct zn_plan_setup *s, const zn_engine_plan *plan)
{
    const zn_manifest *manifest = &plan->manifest;
    int n_local = zn_plan_ranks_per_node(s), n_slices = s->engine.n_slices > 1 ? s->engine.n_slices : 1;
    double others = (n_local + n_slices - 1) / n_slices - 1, read = 0, own = 0; /* that hold the same slices */
    if (!s->cluster->device.is_host)
        return 0;
    for (size_t i = 0; i < manifest->n_entries; i++) {
        const struct zn_manifest_entry *e = &manifest->entries[i];
        if (e->tier == ZN_TIER_NVME)
            continue;
        own += (double)e->n_bytes;
        if (e->id == ZN_BUFFER_EXCHANGE) /* of each other rank the piece that is summed here, and the sum there */
            read += 2 * (double)(n_slices - 1) * (double)e->n_bytes / n_slices;
        read += others * (double)e->n_bytes * parts_read(s, e->id) / zn_plan_replicas(s);
    }
    if (others > 0)
        read += others * (double)slots_read(plan->slots, zn_plan_replicas(s));
    size_t process = s->cluster->device.process ? s->cluster->device.process : s->cluster->device.reserved;
    return process + (size_t)(own + read);
}
