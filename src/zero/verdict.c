/* The verdict: one small exchange ends backward. Every rank brings the exact sum of squares of its
 * partition, its loss and its first tensor that is not finite; all add them, so all come to the same
 * norm and the same decision, whatever the stage, the tiles and the number of ranks. Of what several ranks of a tensor-parallel
 * group have alike the first brings it: the loss, and parameters that each holds. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/exact.h"
#include "zero/engine_private.h"

struct evidence {
    zn_exact squares;
    double loss[ZN_N_PAIR_SUMS];
    int bad_param; /* the first whose gradient is not finite, or -1 */
};

/* Adds the squares that were taken part by part, and finds the first parameter of which one is not finite. */
static zn_status sum_partition(zn_engine *e, struct evidence *mine)
{
    int n = e->units->n_parts;
    zn_exact *all = calloc((size_t)n + 1, sizeof *all);
    if (!all)
        return zn_fail(ZN_ERR_MEMORY, "no memory for the verdict");
    zn_status status = zn_device_read(gradients_device(e), all, e->buffers[ZN_BUFFER_SQUARES].base, (size_t)n * sizeof *all);
    for (int i = 0; i < n && status == ZN_OK; i++) {
        int param = e->units->parts[i].param;
        if (!is_trained(e, e->units->parts[i].unit))
            continue;
        if (e->module->params[param].slice.copy == 0)
            zn_exact_merge(&mine->squares, &all[i]);
        if (all[i].n_bad && (mine->bad_param < 0 || param < mine->bad_param))
            mine->bad_param = param;
    }
    free(all);
    return status;
}

zn_status verdict_reach(zn_engine *e, double loss_scale, struct zn_verdict *v)
{
    struct evidence mine = {.bad_param = -1};
    ZN_TRY(sum_partition(e, &mine));
    ZN_TRY(sums_take(e, ZN_SUM_LOSS, mine.loss));
    if (e->slice > 0)
        memset(mine.loss, 0, sizeof mine.loss);
    int n_ranks = zn_comm_n_ranks(e->world);
    struct evidence *all = calloc((size_t)n_ranks, sizeof *all);
    if (!all)
        return zn_fail(ZN_ERR_MEMORY, "no memory for the verdict");
    zn_status status = zn_comm_exchange(e->world, &mine, sizeof mine, all);
    zn_exact squares = {0};
    int bad = -1;
    for (int r = 0; status == ZN_OK && r < n_ranks; r++) {
        zn_exact_merge(&squares, &all[r].squares);
        v->loss += all[r].loss[0];
        v->n_right += all[r].loss[1];
        v->margins += all[r].loss[2];
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
