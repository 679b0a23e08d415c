/* Pages that ranks share count in each of them that has touched them. */
#include "plan/resident.h"

#include <string.h>

/* How much of another rank's buffer this one reads, in parts of n_ranks: at stage 3 all of its partitions, before that its
 * part of each unit; of gradients what is summed here and, at stage 0, the other's sums. */
static int parts_read(const struct zn_plan_setup *s, const char *name)
{
    int n = s->n_ranks, stage = s->engine.stage;
    if (strcmp(name, "parameters") == 0)
        return stage == 3 ? n : stage == 0 ? 0 : 1;
    if (strcmp(name, "gradients") == 0 || strcmp(name, "pending gradients") == 0)
        return stage == 0 ? 2 : stage == 1 ? 1 : 0;
    if (strcmp(name, "gradient slots") == 0 || strcmp(name, "gradients of second uses") == 0)
        return 1;
    return strcmp(name, "fetched partitions") == 0 ? n : 0;
}

size_t plan_resident(const struct zn_plan_setup *s, const zn_manifest *manifest)
{
    double others = zn_plan_ranks_per_node(s) - 1, read = 0, own = 0;
    if (!s->cluster->device.is_host)
        return 0;
    for (size_t i = 0; i < manifest->n_entries; i++) {
        const struct zn_manifest_entry *e = &manifest->entries[i];
        if (e->tier == ZN_TIER_NVME)
            continue;
        own += (double)e->n_bytes;
        read += others * (double)e->n_bytes * parts_read(s, e->name) / s->n_ranks;
    }
    return s->cluster->device.reserved + (size_t)(own + read);
}
