/* Values of parameters for the operators: kept whole, persistent, or gathered along the trace as the plan of gathers says. Own
 * partitions that are not where they are gathered from are read or copied there first; one rank's come straight into their place. */
#include <stdlib.h>

#include "schedule/passes.h"

static const struct zn_unit *unit_at(const struct zn_ground *g, int unit)
{
    return &g->units->units[unit];
}

static size_t width(const struct zn_ground *g)
{
    return zn_dtype_bytes(g->placement->type);
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
        ZN_TRY(zn_gathers_use(gathers, g->units->parts[point->index].unit, turns));
        turns = false;
    }
    return ZN_OK;
}

zn_status gather_pass_start(struct gather_pass *p, const struct zn_ground *ground, const zn_gathers *plan, struct zn_writer *writer)
{
    size_t n = (size_t)plan->n_gathers + 1;
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
    int n = unit + 1 + ZN_PIPELINE_BUFFERS;
    if (n <= p->issued || !(placement->updates_beside || placement->updates_in_backward || placement->is_delayed))
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
    const struct zn_ground *g = p->ground;
    return zn_span_of_partition(g->placement, unit_at(g, unit), ZN_BUFFER_PARAMETERS, ZN_PARTITION, width(g));
}

static struct zn_span partition_in(const struct gather_pass *p, zn_buffer_id buffer, const struct zn_gather_plan *g)
{
    uint64_t n_bytes = (uint64_t)unit_at(p->ground, g->unit)->partition * width(p->ground);
    return (struct zn_span){(int16_t)buffer, false, g->fetch_offset, n_bytes};
}

static struct zn_span whole_in_gathered(const struct gather_pass *p, const struct zn_gather_plan *g)
{
    uint64_t n_bytes = (uint64_t)unit_at(p->ground, g->unit)->n_elements * width(p->ground);
    return (struct zn_span){ZN_BUFFER_GATHERED, false, g->offset, n_bytes};
}

enum { AFTER_BOTH = ZN_AFTER_COMPUTE | ZN_AFTER_UPDATED };

/* Brings the own partition to where it is gathered from; for one rank on a discrete device, as far as the host. */
static void fetch(struct gather_pass *p, int g)
{
    const struct zn_placement *placement = p->ground->placement;
    const struct zn_gather_plan *plan = &p->plan->gathers[g];
    bool is_swapped = zn_is_swapped(&placement->parameters), to_host = placement->copies_parameters && is_swapped;
    struct zn_span fetched = partition_in(p, ZN_BUFFER_FETCHED, plan), landed = partition_in(p, ZN_BUFFER_LANDED, plan);
    issue_update(p, plan->unit);
    if (!is_swapped) {
        p->fetched[g] = bring(p, ZN_OP_COPY_IN, plan->unit, fetched, home(p, plan->unit), AFTER_BOTH, -1);
        return;
    }
    p->fetched[g] = bring(p, ZN_OP_READ, plan->unit, to_host ? landed : fetched, home(p, plan->unit), AFTER_BOTH, -1);
    if (to_host && placement->n_ranks > 1)
        p->fetched[g] = bring(p, ZN_OP_COPY_IN, plan->unit, fetched, landed, 0, p->fetched[g]);
}

/* One rank has the whole unit: it comes straight into its place. */
static int bring_whole(struct gather_pass *p, int g)
{
    const struct zn_placement *placement = p->ground->placement;
    const struct zn_gather_plan *plan = &p->plan->gathers[g];
    struct zn_span to = whole_in_gathered(p, plan);
    if (!placement->copies_parameters)
        return bring(p, ZN_OP_READ, plan->unit, to, home(p, plan->unit), AFTER_BOTH, -1);
    if (!zn_is_swapped(&placement->parameters))
        return bring(p, ZN_OP_COPY_IN, plan->unit, to, home(p, plan->unit), AFTER_BOTH, -1);
    return bring(p, ZN_OP_COPY_IN, plan->unit, to, partition_in(p, ZN_BUFFER_LANDED, plan), ZN_AFTER_COMPUTE, p->fetched[g]);
}

static void gather(struct gather_pass *p, int g)
{
    const struct zn_placement *placement = p->ground->placement;
    const struct zn_gather_plan *plan = &p->plan->gathers[g];
    bool fetches = placement->fetches_parameters;
    issue_update(p, plan->unit);
    if (placement->n_ranks == 1)
        p->gathered[g] = bring_whole(p, g);
    else
        p->gathered[g] = bring(p, ZN_OP_GATHER, plan->unit, whole_in_gathered(p, plan),
                               fetches ? partition_in(p, ZN_BUFFER_FETCHED, plan) : home(p, plan->unit),
                               fetches ? ZN_AFTER_COMPUTE : AFTER_BOTH, fetches ? p->fetched[g] : -1);
}

/* Moves along the uses to this one and issues what the plan issues by now. */
static zn_status advance(struct gather_pass *p, int unit)
{
    const zn_gathers *plan = p->plan;
    bool is_same = p->position >= 0 && !p->turns && plan->units[p->position] == unit;
    p->turns = false;
    p->position += !is_same;
    if (p->position >= plan->n_uses || plan->units[p->position] != unit)
        return zn_fail(ZN_ERR_INTERNAL, "the plan of gathers left the trace at use %d (unit %d)", p->position, unit);
    for (; p->ground->placement->fetches_parameters && p->next_fetch < plan->n_gathers &&
           plan->gathers[p->next_fetch].fetch <= p->position;
         p->next_fetch++)
        fetch(p, p->next_fetch);
    for (; p->next_gather < plan->n_gathers && plan->gathers[p->next_gather].issue <= p->position; p->next_gather++)
        gather(p, p->next_gather);
    return ZN_OK;
}

void gather_pass_forward_end(struct gather_pass *p, int segment)
{
    p->turns = segment == p->ground->trace->n_segments - 1;
}

static struct zn_span span_of_part(const struct zn_ground *g, const struct zn_part *part, zn_buffer_id buffer, uint64_t element)
{
    return (struct zn_span){(int16_t)buffer, false, element * width(g), (uint64_t)part->n_elements * width(g)};
}

zn_status gather_pass_acquire(struct gather_pass *p, int index)
{
    const struct zn_ground *g = p->ground;
    const struct zn_part *part = &g->units->parts[index];
    int unit = part->unit;
    uint64_t in_unit = (uint64_t)(part->place - unit_at(g, unit)->first);
    if (!g->placement->gathers_parameters) {
        zn_writer_bind(p->writer, span_of_part(g, part, ZN_BUFFER_PARAMETERS, (uint64_t)part->place));
        return ZN_OK;
    }
    ZN_TRY(advance(p, unit));
    if (g->persistent_at[unit] >= 0) {
        zn_writer_bind(p->writer, span_of_part(g, part, ZN_BUFFER_PERSISTENT, (uint64_t)g->persistent_at[unit] + in_unit));
        return ZN_OK;
    }
    int at = p->plan->gather_of[p->position];
    if (!p->is_waited_for[at])
        zn_emit_wait(p->writer, p->gathered[at]);
    p->is_waited_for[at] = true;
    struct zn_span span = span_of_part(g, part, ZN_BUFFER_GATHERED, in_unit);
    span.offset += p->plan->gathers[at].offset;
    zn_writer_bind(p->writer, span);
    return ZN_OK;
}
