/* The way of a summed gradient to where it stays: in memory, on NVMe, in the host's memory (ZeRO-Offload), or into an update in
 * backward. Each part of the way has until the next unit is complete before anyone waits for it. */
#include "schedule/gradients.h"

static bool is_final(const struct reduction_pass *p, const struct unit_gradient *g)
{
    return p->is_last_pass && (g->bucket < 0 || p->buckets->buckets[g->bucket].is_last);
}

void gradient_enter(struct reduction_pass *p, int unit, enum progress progress, int done)
{
    struct unit_gradient *g = &p->units[unit];
    g->progress = progress;
    g->since = p->n_completed;
    g->done = done;
}

/* Enters the unit among those under way, in the order of units. */
void gradient_depart(struct reduction_pass *p, int unit, int done)
{
    gradient_enter(p, unit, REDUCING, done);
    int at = p->n_under_way++;
    for (; at > 0 && p->under_way[at - 1] > unit; at--)
        p->under_way[at] = p->under_way[at - 1];
    p->under_way[at] = unit;
}

void gradient_update(struct reduction_pass *p, int unit, struct zn_span gradient)
{
    gradient_enter(p, unit, UPDATING, gradient_emit(p, ZN_OP_UPDATE, unit, ZN_NO_SPAN, gradient, ZN_AFTER_COMPUTE));
}

/* ZeRO-Offload: the sum leaves the device while backward goes on. */
static void offload(struct reduction_pass *p, int unit)
{
    struct unit_gradient *g = &p->units[unit];
    int flags = ZN_AFTER_COMPUTE | (g->has_arrived ? ZN_ADDS : 0) | (is_final(p, g) ? ZN_FINAL : 0);
    g->has_arrived = true;
    gradient_enter(p, unit, STORING, gradient_emit(p, ZN_OP_OFFLOAD, unit, gradient_home(p, unit), gradient_sum(p, unit), flags));
}

/* The sum over ranks is there. */
static void store_sum(struct reduction_pass *p, int unit)
{
    struct unit_gradient *g = &p->units[unit];
    bool has_elements = gradient_unit(p, unit)->n_elements > 0;
    if (placement_of(p)->offloads_gradients) {
        gradient_enter(p, unit, STORING, -1);
        if (has_elements)
            offload(p, unit);
        return;
    }
    bool updates = placement_of(p)->updates_in_backward && is_final(p, g);
    g->progress = IDLE;
    if (!gradients_on_nvme(p) && !updates)
        return;
    struct zn_span sum = gradient_sum(p, unit);
    if (is_final(p, g))
        gradient_take_squares(p, unit, sum);
    if (updates)
        gradient_update(p, unit, sum);
    else
        gradient_enter(p, unit, STORING, gradient_emit(p, ZN_OP_WRITE, unit, gradient_home(p, unit), sum, ZN_AFTER_COMPUTE));
}

static void go_on(struct reduction_pass *p, int unit)
{
    struct unit_gradient *g = &p->units[unit];
    if (gradient_unit(p, unit)->n_elements > 0)
        zn_emit_wait(p->writer, g->done);
    if (g->in_slot) /* the memory was in use until now */
        zn_arena_touch(&p->slots, g->slot_block);
    if (g->has_prior)
        zn_arena_touch(&p->slots, g->prior_block);
    if (g->progress == REDUCING) {
        store_sum(p, unit);
        return;
    }
    bool is_updated = g->progress == UPDATING;
    g->progress = IDLE;
    if (is_updated && placement_of(p)->states.form != ZN_WHOLE)
        zn_emit_unit(p->writer, ZN_OP_PUBLISH, unit);
}

static void forget_idle(struct reduction_pass *p)
{
    int n = 0;
    for (int i = 0; i < p->n_under_way; i++) {
        if (p->units[p->under_way[i]].progress != IDLE)
            p->under_way[n++] = p->under_way[i];
    }
    p->n_under_way = n;
}

/* Brings all that entered their present part a unit ago a part further, in the order of units. Completed units count, never
 * time: all ranks wait for the same. One rank's sums need no time. */
void gradients_advance(struct reduction_pass *p)
{
    for (int i = 0; i < p->n_under_way; i++) {
        int unit = p->under_way[i];
        struct unit_gradient *g = &p->units[unit];
        int64_t age = placement_of(p)->n_ranks == 1 ? 0 : 1;
        if (g->progress == REDUCING && g->since <= p->n_completed - age)
            go_on(p, unit);
        if (g->progress >= STORING && g->since <= p->n_completed - 1)
            go_on(p, unit);
    }
    forget_idle(p);
    p->n_completed++;
    zn_arena_next_point(&p->slots);
}

/* The unit's gradient is where it stays. */
void gradient_settle(struct reduction_pass *p, int unit)
{
    struct unit_gradient *g = &p->units[unit];
    bool was_under_way = g->progress != IDLE;
    while (g->progress != IDLE)
        go_on(p, unit);
    if (was_under_way)
        forget_idle(p);
}
