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

zn_status update_pass_start(struct update_pass *p, const struct zn_ground *ground, struct zn_writer *writer)
{
    *p = (struct update_pass){.ground = ground, .writer = writer, .furthest = -1, .last = -1};
    p->is_used = calloc((size_t)ground->units->n_units + 1, 1);
    return p->is_used ? ZN_OK : zn_fail(ZN_ERR_MEMORY, "no memory for the program of a step");
}

void update_pass_fini(struct update_pass *p)
{
    free(p->is_used);
    p->is_used = NULL;
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

void update_pass_backward(struct update_pass *p)
{
    if (p->is_awaited || !zn_may_have_updates_pending(p->ground->placement))
        return;
    p->is_awaited = true;
    zn_emit_unit(p->writer, ZN_OP_WAIT_UPDATES, -1);
}
