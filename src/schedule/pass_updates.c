/* Where updates run beside the computing, this pass says how far they are issued along forward, when a unit's new parameters are
 * waited for, and when ranks that keep whole units send each other what they have updated. What there is of it is known at run time
 * alone (an update was skipped, the first step has none before it), so these instructions do nothing where nothing is pending. */
#include <stdlib.h>

#include "schedule/passes.h"

int updates_ahead(const struct zn_ground *g, int unit, int ahead)
{
    int n = unit + 1;
    for (; n < g->units->n_units && ahead > 0; n++)
        ahead -= g->units->units[n].is_trained;
    return n + ahead;
}

static zn_status no_memory(void)
{
    return zn_fail(ZN_ERR_MEMORY, "no memory for the program of a step");
}

static zn_status find_last_uses(struct update_pass *p)
{
    const struct zn_pass_trace *trace = &p->ground->trace->train;
    p->last_use = calloc((size_t)p->ground->units->n_units + 1, sizeof *p->last_use);
    if (!p->last_use)
        return no_memory();
    for (int i = 0; i < trace->n_points; i++)
        if (trace->points[i].kind == ZN_POINT_ACQUIRE)
            p->last_use[p->ground->units->parts[trace->points[i].index].unit] = i;
    return ZN_OK;
}

zn_status update_pass_start(struct update_pass *p, const struct zn_ground *ground, struct zn_writer *writer, bool is_last)
{
    *p = (struct update_pass){.ground = ground, .writer = writer, .furthest = -1, .last = -1,
                              .next_return = ground->units->n_units - 1};
    p->is_used = calloc((size_t)ground->units->n_units + 1, 1);
    if (!p->is_used)
        return no_memory();
    return is_last && zn_returns_in_backward(ground->placement) ? find_last_uses(p) : ZN_OK;
}

void update_pass_fini(struct update_pass *p)
{
    free(p->is_used);
    free(p->last_use);
    p->is_used = NULL;
    p->last_use = NULL;
}

/* A unit whose parameters are on NVMe is updated when they are written, which the optimizer pass learns as many chunks later as
 * it has buffers. */
void update_pass_follow(struct update_pass *p, int unit)
{
    const struct zn_placement *placement = p->ground->placement;
    if (unit > p->furthest) {
        p->furthest = unit;
        if (zn_may_have_updates_pending(placement))
            zn_emit_unit(p->writer, ZN_OP_ISSUE_UPDATES, updates_ahead(p->ground, unit, 1 + ZN_PIPELINE_BUFFERS));
        if (zn_publishes_updates(placement))
            zn_emit_unit(p->writer, ZN_OP_PUBLISH_TO, unit + 1);
    }
    if (placement->is_delayed && unit != p->last)
        zn_emit_unit(p->writer, ZN_OP_ADVANCE_UPDATE, unit);
    p->last = unit;
}

void update_pass_use(struct update_pass *p, int unit)
{
    if (p->is_used[unit] || !p->ground->units->units[unit].is_trained)
        return;
    p->is_used[unit] = true;
    if (zn_may_have_updates_pending(p->ground->placement))
        zn_emit_unit(p->writer, ZN_OP_WAIT_UPDATED, unit);
    if (zn_publishes_updates(p->ground->placement))
        zn_emit_unit(p->writer, ZN_OP_AWAIT_PUBLISHED, unit);
}

/* From the last unit to the first, as the delayed update goes: one that is not read in backward waits for those after it. All that
 * the segment computes is issued at this point. */
void update_pass_backward_end(struct update_pass *p)
{
    for (; p->last_use && p->next_return >= 0 && p->last_use[p->next_return] < p->writer->point; p->next_return--)
        if (p->ground->units->units[p->next_return].is_trained)
            zn_emit_unit(p->writer, ZN_OP_RETURN_UPDATED, p->next_return);
}

void update_pass_backward(struct update_pass *p)
{
    if (p->is_awaited || !zn_may_have_updates_pending(p->ground->placement))
        return;
    p->is_awaited = true;
    zn_emit_unit(p->writer, ZN_OP_WAIT_UPDATES, -1);
}
