/* Values of parameters for the operators: kept whole, persistent, or gathered along the trace as the plan of gathers says. Own
 * partitions that are not where they are gathered from are read or copied there first; one rank's come straight into their place. */
#include <stdlib.h>

#include "schedule/passes.h"

static const struct zn_unit *unit_at(const struct zn_ground *g, int unit)
{
    return &g->units->units[unit];
}

static uint64_t partition_bytes(const struct zn_ground *g, int unit)
{
    return zn_unit_bytes(unit_at(g, unit)) / (uint64_t)g->placement->n_ranks;
}

zn_status gathers_of_trace(const struct zn_ground *g, const struct zn_pass_trace *pass, zn_gathers *gathers)
{
    bool turns = false;
    for (int i = 0; i < pass->n_points; i++) {
        const struct zn_point *point = &pass->points[i];
        if (point->kind == ZN_POINT_FORWARD_END)
            turns = point->index == g->trace->n_segments - 1;
        if (point->kind != ZN_POINT_ACQUIRE)
            continue;
        int unit = g->units->parts[point->index].unit, first = zn_units_joined(g->units, unit);
        ZN_TRY(zn_gathers_use(gathers, first, unit - first, turns));
        turns = false;
    }
    return ZN_OK;
}

zn_status gather_pass_start(struct gather_pass *p, const struct zn_ground *ground, const zn_gathers *plan, struct zn_writer *writer)
{
    size_t n = ZN_MAX_JOINED * (size_t)plan->n_gathers + 1;
    *p = (struct gather_pass){.ground = ground, .plan = plan, .writer = writer, .position = -1};
    p->gathered = calloc(n, sizeof *p->gathered);
    p->fetched = calloc(n, sizeof *p->fetched);
    p->is_waited_for = calloc(n, sizeof *p->is_waited_for);
    if (!p->gathered || !p->fetched || !p->is_waited_for)
        return zn_fail(ZN_ERR_MEMORY, "no memory for the program of a step");
    return ZN_OK;
}

void gather_pass_fini(struct gather_pass *p)
{
    free(p->gathered);
    free(p->fetched);
    free(p->is_waited_for);
    *p = (struct gather_pass){0};
}

/* Whoever reads a unit's parameters does not wait for ever: its update is issued. */
static void issue_update(struct gather_pass *p, int unit)
{
    const struct zn_placement *placement = p->ground->placement;
    int n = updates_ahead(p->ground, unit, ZN_PIPELINE_BUFFERS);
    if (n <= p->issued || !unit_at(p->ground, unit)->is_trained ||
        !(placement->updates_beside || placement->updates_in_backward || placement->is_delayed))
        return;
    p->issued = n;
    zn_emit_unit(p->writer, ZN_OP_ISSUE_UPDATES, n);
}

static int bring(struct gather_pass *p, zn_op op, int unit, struct zn_span to, struct zn_span from, int flags, int after)
{
    return zn_emit(p->writer, (struct zn_instr){.op = (uint8_t)op,
                                                .flags = (uint8_t)flags,
                                                .unit = unit,
                                                .after = after,
                                                .from = from,
                                                .to = to});
}

/* Where own partitions stay: in memory, or in the swap. */
static struct zn_span home(const struct gather_pass *p, int unit)
{
    return zn_span_of_own_values(p->ground->placement, p->ground->units, unit_at(p->ground, unit));
}

/* A unit of a gather: those that are joined are gathered side by side, but for what is always there or not used. */
struct member {
    int unit, index;               /* index: among gathered and fetched */
    uint64_t offset, fetch_offset; /* in the regions */
};

static bool next_member(const struct gather_pass *p, int g, struct member *m)
{
    const struct zn_ground *ground = p->ground;
    const struct zn_gather_plan *plan = &p->plan->gathers[g];
    if (m->unit < 0) {
        *m = (struct member){
            .unit = plan->unit - 1, .index = ZN_MAX_JOINED * g - 1, .offset = plan->offset, .fetch_offset = plan->fetch_offset};
    } else {
        m->offset += zn_unit_bytes(unit_at(ground, m->unit));
        m->fetch_offset += partition_bytes(ground, m->unit);
    }
    do {
        m->unit++;
        m->index++;
    } while (m->unit < plan->unit + ZN_MAX_JOINED &&
             (!(plan->members & 1 << (m->unit - plan->unit)) || ground->persistent_at[m->unit] >= 0));
    return m->unit < plan->unit + ZN_MAX_JOINED;
}

static struct zn_span partition_in(const struct gather_pass *p, zn_buffer_id buffer, const struct member *m)
{
    return (struct zn_span){(int16_t)buffer, false, m->fetch_offset, partition_bytes(p->ground, m->unit)};
}

static struct zn_span whole_in_gathered(const struct gather_pass *p, const struct member *m)
{
    return (struct zn_span){ZN_BUFFER_GATHERED, false, m->offset, zn_unit_bytes(unit_at(p->ground, m->unit))};
}

/* A frozen unit is not updated. */
static int after_both(const struct gather_pass *p, int unit)
{
    return ZN_AFTER_COMPUTE | (unit_at(p->ground, unit)->is_trained ? ZN_AFTER_UPDATED : 0);
}

/* Brings the own partition to where it is gathered from; for one rank on a discrete device, as far as the host. */
static void fetch(struct gather_pass *p, const struct member *m)
{
    const struct zn_placement *placement = p->ground->placement;
    bool is_swapped = zn_is_swapped(&placement->parameters), to_host = placement->copies_parameters && is_swapped;
    struct zn_span fetched = partition_in(p, ZN_BUFFER_FETCHED, m), landed = partition_in(p, ZN_BUFFER_LANDED, m);
    int *done = &p->fetched[m->index];
    issue_update(p, m->unit);
    if (!is_swapped) {
        *done = bring(p, ZN_OP_COPY_IN, m->unit, fetched, home(p, m->unit), after_both(p, m->unit), -1);
        return;
    }
    *done = bring(p, ZN_OP_READ, m->unit, to_host ? landed : fetched, home(p, m->unit), after_both(p, m->unit), -1);
    if (to_host && placement->n_ranks > 1)
        *done = bring(p, ZN_OP_COPY_IN, m->unit, fetched, landed, 0, *done);
}

/* One rank has the whole unit: it comes straight into its place. */
static int bring_whole(struct gather_pass *p, const struct member *m)
{
    const struct zn_placement *placement = p->ground->placement;
    struct zn_span to = whole_in_gathered(p, m);
    if (!placement->copies_parameters)
        return bring(p, ZN_OP_READ, m->unit, to, home(p, m->unit), after_both(p, m->unit), -1);
    if (!zn_is_swapped(&placement->parameters))
        return bring(p, ZN_OP_COPY_IN, m->unit, to, home(p, m->unit), after_both(p, m->unit), -1);
    return bring(p, ZN_OP_COPY_IN, m->unit, to, partition_in(p, ZN_BUFFER_LANDED, m), ZN_AFTER_COMPUTE, p->fetched[m->index]);
}

static void gather(struct gather_pass *p, const struct member *m)
{
    const struct zn_placement *placement = p->ground->placement;
    bool fetches = placement->fetches_parameters;
    issue_update(p, m->unit);
    if (placement->n_ranks == 1)
        p->gathered[m->index] = bring_whole(p, m);
    else
        p->gathered[m->index] = bring(p, ZN_OP_GATHER, m->unit, whole_in_gathered(p, m),
                                      fetches ? partition_in(p, ZN_BUFFER_FETCHED, m) : home(p, m->unit),
                                      fetches ? ZN_AFTER_COMPUTE : after_both(p, m->unit),
                                      fetches ? p->fetched[m->index] : -1);
}

static void run_members(struct gather_pass *p, int g, void (*run)(struct gather_pass *, const struct member *))
{
    struct member m = {.unit = -1};
    while (next_member(p, g, &m))
        run(p, &m);
}

static void wait_for_member(struct gather_pass *p, const struct member *m)
{
    zn_emit_wait(p->writer, p->gathered[m->index]);
}

/* Moves along the uses to this one and issues what the plan issues by now. */
static zn_status advance(struct gather_pass *p, int unit)
{
    const zn_gathers *plan = p->plan;
    unit = zn_units_joined(p->ground->units, unit);
    bool is_same = p->position >= 0 && !p->turns && plan->units[p->position] == unit;
    p->turns = false;
    p->position += !is_same;
    if (p->position >= plan->n_uses || plan->units[p->position] != unit)
        return zn_fail(ZN_ERR_INTERNAL, "the plan of gathers left the trace at use %d (unit %d)", p->position, unit);
    for (; p->ground->placement->fetches_parameters && p->next_fetch < plan->n_gathers &&
           plan->gathers[p->next_fetch].fetch <= p->position;
         p->next_fetch++)
        run_members(p, p->next_fetch, fetch);
    for (; p->next_gather < plan->n_gathers && plan->gathers[p->next_gather].issue <= p->position; p->next_gather++)
        run_members(p, p->next_gather, gather);
    return ZN_OK;
}

void gather_pass_forward_end(struct gather_pass *p, int segment)
{
    p->turns = segment == p->ground->trace->n_segments - 1;
}

/* The part of a unit that lies at `unit_span`. */
static struct zn_span span_of_part(const struct zn_ground *g, const struct zn_part *part, struct zn_span unit_span)
{
    const struct zn_unit *unit = unit_at(g, part->unit);
    uint64_t in_unit = zn_dtype_size(unit->type, part->place - unit->first);
    return (struct zn_span){unit_span.buffer, false, unit_span.offset + in_unit, zn_dtype_size(unit->type, part->n_elements)};
}

static struct zn_span persistent_span(const struct zn_ground *g, int unit)
{
    return (struct zn_span){ZN_BUFFER_PERSISTENT, false, (uint64_t)g->persistent_at[unit], zn_unit_bytes(unit_at(g, unit))};
}

zn_status gather_pass_acquire(struct gather_pass *p, int index)
{
    const struct zn_ground *g = p->ground;
    const struct zn_part *part = &g->units->parts[index];
    int unit = part->unit;
    if (!g->placement->gathers_parameters) {
        zn_writer_bind(p->writer, span_of_part(g, part, zn_span_of_values(g->units, unit_at(g, unit))));
        return ZN_OK;
    }
    ZN_TRY(advance(p, unit));
    if (g->persistent_at[unit] >= 0) {
        zn_writer_bind(p->writer, span_of_part(g, part, persistent_span(g, unit)));
        return ZN_OK;
    }
    int at = p->plan->gather_of[p->position];
    struct member m = {.unit = -1};
    if (!p->is_waited_for[at]) /* for all of them: what they were fetched to is used again from here on */
        run_members(p, at, wait_for_member);
    p->is_waited_for[at] = true;
    while (next_member(p, at, &m) && m.unit != unit)
        ;
    zn_writer_bind(p->writer, span_of_part(g, part, whole_in_gathered(p, &m)));
    return ZN_OK;
}
