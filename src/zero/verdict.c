/* The verdict: one small exchange ends backward. Every rank brings the exact sum of squares of its
 * partition, its loss and its first tensor that is not finite; all add them, so all come to the same
 * norm and the same decision, whatever the stage, the tiles and the number of ranks. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "zero/engine_private.h"

struct evidence {
    zn_exact squares;
    double loss;
    int bad_param; /* the first whose gradient is not finite, or -1 */
};

/* Squares of gradients that went to NVMe, or were used up in backward, were taken on their way. */
static bool are_taken(const zn_engine *e)
{
    return is_on_nvme(e->options.offload.gradients) || gradients_leave(e) || e->options.in_backward;
}

static zn_status sum_partition(zn_engine *e, zn_exact *squares)
{
    int n = e->units.n_units;
    for (int u = 0; u < n && !are_taken(e); u++)
        ZN_TRY(squares_of_unit(e, u, partition_at(e, &e->gradients, sizeof(float), keeps_gradients(e), u)));
    zn_exact *all = calloc((size_t)n + 1, sizeof *all);
    if (!all)
        return zn_fail(ZN_ERR_MEMORY, "no memory for the verdict");
    zn_status status = zn_device_read(gradients_device(e), all, e->squares.address, (size_t)n * sizeof *all);
    for (int u = 0; u < n && status == ZN_OK; u++)
        zn_exact_merge(squares, &all[u]);
    free(all);
    return status;
}

/* The place after those of the units is free. */
zn_status find_bad_param(zn_engine *e, int unit, zn_addr gradient, int *bad)
{
    const struct zn_unit *u = &e->units.units[unit];
    zn_addr sum = e->squares.address + (zn_addr)e->units.n_units * sizeof(zn_exact);
    *bad = -1;
    for (int i = 0; i < u->n_parts; i++) {
        const struct zn_part *part = &e->units.parts[u->first_part + i];
        struct zn_range own = zn_units_owned(&e->units, part, e->rank);
        int64_t at = part->place - u->first + own.first - e->rank * u->partition;
        zn_exact found;
        if (own.n == 0)
            continue;
        ZN_TRY(zn_run_zero(gradients_device(e), &(struct zn_zero_args){.dst = sum, .n_bytes = sizeof found}));
        ZN_TRY(zn_run_sum_squares(gradients_device(e), &(struct zn_sum_squares_args){.sum = sum,
                                                                           .src = gradient + (zn_addr)at * sizeof(float),
                                                                           .partial = e->partial.address,
                                                                           .n_elements = own.n}));
        ZN_TRY(zn_device_read(gradients_device(e), &found, sum, sizeof found));
        if (found.n_bad && (*bad < 0 || part->param < *bad))
            *bad = part->param;
    }
    return ZN_OK;
}

/* A unit's gradient from NVMe, through a buffer of its own: this is rare. */
static zn_status look_on_nvme(zn_engine *e, int unit, int *bad)
{
    const struct zn_unit *u = &e->units.units[unit];
    size_t n_bytes = (size_t)u->partition * sizeof(float);
    zn_event done;
    zn_addr buffer;
    *bad = -1;
    if (!e->storage || n_bytes == 0 || e->unit_state[unit].absent)
        return ZN_OK;
    ZN_TRY(zn_device_alloc(e->device, ZN_TIER_HOST, ZN_KIND_BUFFERS, n_bytes, &buffer));
    zn_event_init(&done);
    zn_status status = zn_storage_read(e->storage,
                                       e->swap_gradients.offset + (uint64_t)(u->first / e->n_ranks) * sizeof(float),
                                       pointer_of(buffer), n_bytes, NULL, &done);
    if (status == ZN_OK)
        status = zn_event_wait(&done, e->device->clock);
    if (status == ZN_OK)
        status = find_bad_param(e, unit, buffer, bad);
    zn_event_fini(&done);
    zn_device_free(e->device, ZN_TIER_HOST, ZN_KIND_BUFFERS, buffer, n_bytes);
    return status;
}

static zn_status find_first_bad(zn_engine *e, int *first)
{
    *first = -1;
    for (int u = 0; u < e->units.n_units; u++) {
        int bad = -1;
        if (is_on_nvme(e->options.offload.gradients))
            ZN_TRY(look_on_nvme(e, u, &bad));
        else
            ZN_TRY(find_bad_param(e, u, partition_at(e, &e->gradients, sizeof(float), keeps_gradients(e), u), &bad));
        if (bad >= 0 && (*first < 0 || bad < *first))
            *first = bad;
    }
    return ZN_OK;
}

zn_status verdict_reach(zn_engine *e, double loss_scale, struct zn_verdict *v)
{
    struct evidence mine = {.bad_param = -1};
    ZN_TRY(sum_partition(e, &mine.squares));
    ZN_TRY(sum_read(e, SUM_LOSS, &mine.loss));
    ZN_TRY(sum_clear(e, SUM_LOSS));
    if (mine.squares.n_bad)
        ZN_TRY(find_first_bad(e, &mine.bad_param));
    struct evidence *all = calloc((size_t)e->n_ranks, sizeof *all);
    if (!all)
        return zn_fail(ZN_ERR_MEMORY, "no memory for the verdict");
    zn_status status = zn_comm_exchange(e->comm, &mine, sizeof mine, all);
    zn_exact squares = {0};
    int bad = -1;
    for (int r = 0; status == ZN_OK && r < e->n_ranks; r++) {
        zn_exact_merge(&squares, &all[r].squares);
        v->loss += all[r].loss;
        if (all[r].bad_param >= 0 && (bad < 0 || all[r].bad_param < bad))
            bad = all[r].bad_param;
    }
    free(all);
    ZN_TRY(status);
    v->norm = sqrt(zn_exact_value(&squares)) / loss_scale;
    v->skipped = !isfinite(v->norm) || !isfinite(v->loss);
    if (bad >= 0)
        snprintf(v->reason, sizeof v->reason, "gradient of %s is not finite", e->module->params[bad].name);
    else if (v->skipped)
        snprintf(v->reason, sizeof v->reason, "loss is not finite");
    return ZN_OK;
}
