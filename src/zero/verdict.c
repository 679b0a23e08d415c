/* The verdict: one small exchange ends backward. Every rank brings the sum of squares of its
 * partition, its loss and its first tensor that is not finite; all add them in rank order, so all
 * come to the same norm and the same decision, at every stage. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "zero/engine_private.h"

struct evidence {
    double squares, loss;
    int bad_param; /* the first whose gradient is not finite, or -1 */
};

static zn_status add_squares(zn_engine *e, zn_addr src, int64_t n_elements)
{
    return zn_run_sum_squares(e->device, &(struct zn_sum_squares_args){.sum = sum_address(e, SUM_NORM),
                                                                       .src = src,
                                                                       .partial = e->partial.address,
                                                                       .n_elements = n_elements});
}

/* Unit by unit, in order; padding is zero and adds nothing. */
static zn_status sum_partition(zn_engine *e, double *squares)
{
    ZN_TRY(sum_clear(e, SUM_NORM));
    for (int u = 0; u < e->units.n_units; u++)
        ZN_TRY(add_squares(e, partition_at(e, &e->gradients, sizeof(float), keeps_gradients(e), u),
                           e->units.units[u].partition));
    return sum_read(e, SUM_NORM, squares);
}

static zn_status find_bad_param(zn_engine *e, int *bad)
{
    *bad = -1;
    for (int i = 0; i < e->module->n_params && *bad < 0; i++) {
        const zn_param *p = &e->module->params[i];
        struct zn_range own = zn_units_owned(&e->units, p, e->rank);
        double sum;
        if (own.n == 0)
            continue;
        zn_addr at = keeps_gradients(e) ? whole_at(e, &e->gradients, sizeof(float), p, own.first)
                                        : owned_at(e, &e->gradients, sizeof(float), p, own.first);
        ZN_TRY(sum_clear(e, SUM_NORM));
        ZN_TRY(add_squares(e, at, own.n));
        ZN_TRY(sum_read(e, SUM_NORM, &sum));
        if (!isfinite(sum))
            *bad = i;
    }
    return ZN_OK;
}

zn_status verdict_reach(zn_engine *e, double loss_scale, struct zn_verdict *v)
{
    struct evidence mine = {.bad_param = -1};
    ZN_TRY(sum_partition(e, &mine.squares));
    ZN_TRY(sum_read(e, SUM_LOSS, &mine.loss));
    ZN_TRY(sum_clear(e, SUM_LOSS));
    if (!isfinite(mine.squares))
        ZN_TRY(find_bad_param(e, &mine.bad_param));
    struct evidence *all = calloc((size_t)e->n_ranks, sizeof *all);
    if (!all)
        return zn_fail(ZN_ERR_MEMORY, "no memory for the verdict");
    zn_status status = zn_comm_exchange(e->comm, &mine, sizeof mine, all);
    double squares = 0;
    int bad = -1;
    for (int r = 0; status == ZN_OK && r < e->n_ranks; r++) {
        squares += all[r].squares;
        v->loss += all[r].loss;
        if (all[r].bad_param >= 0 && (bad < 0 || all[r].bad_param < bad))
            bad = all[r].bad_param;
    }
    free(all);
    ZN_TRY(status);
    v->norm = sqrt(squares) / loss_scale;
    v->skipped = !isfinite(v->norm) || !isfinite(v->loss);
    if (bad >= 0)
        snprintf(v->reason, sizeof v->reason, "gradient of %s is not finite", e->module->params[bad].name);
    else if (v->skipped)
        snprintf(v->reason, sizeof v->reason, "loss is not finite");
    return ZN_OK;
}
