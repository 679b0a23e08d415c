/* What is checked of a program as a whole, and the sections in their order. */
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "schedule/verify_private.h"

enum { ALIGNMENT = 4096 };

/* ---- Sections by themselves ---- */

static void enter(struct verifier *v, zn_section_id id)
{
    v->id = id;
    v->section = &v->plan->program.sections[id];
    v->trace = zn_section_trace(&v->plan->trace, id);
}

static zn_status check_points(const struct verifier *v)
{
    const struct zn_section *s = v->section;
    if (v->id != ZN_SECTION_FINISH && s->n_points != v->trace->n_points)
        return zn_fail(ZN_ERR_INTERNAL, "%d points, where the trace has %d", s->n_points, v->trace->n_points);
    for (int p = 0; p <= s->n_points; p++)
        if (s->first[p] < 0 || s->first[p] > (p < s->n_points ? s->first[p + 1] : s->n_instrs))
            return zn_fail(ZN_ERR_INTERNAL, "point %d has no range of instructions", p);
    return ZN_OK;
}

static zn_status add_spans(struct verifier *v)
{
    for (int i = 0; i < v->section->n_instrs; i++) {
        const struct zn_instr *instr = &v->section->instrs[i];
        zn_status status = verify_instr(v->plan, v->section, i, v->is_event_used);
        if (status == ZN_OK)
            status = order_add_span(&v->order, &instr->from);
        if (status == ZN_OK)
            status = order_add_span(&v->order, &instr->to);
        if (status != ZN_OK)
            return zn_add_context(status, "instruction %d (%s)", i, instr->op < ZN_N_OPS ? zn_op_name((zn_op)instr->op) : "?");
    }
    for (int p = 0; p < v->section->n_points; p++)
        ZN_TRY(order_add_span(&v->order, &v->section->address[p]));
    return ZN_OK;
}

/* Every section's; the spans of all are known before the first is followed. */
static zn_status check_sections(struct verifier *v)
{
    for (int id = 0; id < ZN_N_SECTIONS; id++) {
        enter(v, (zn_section_id)id);
        if (!v->section->first)
            continue;
        zn_status status = check_points(v);
        if (status == ZN_OK)
            status = add_spans(v);
        if (status != ZN_OK)
            return zn_add_context(status, "%s", zn_section_name((zn_section_id)id));
    }
    return verify_add_homes(v);
}

/* ---- Memory ---- */

/* Buffers that the passes have measured are used to their end. */
static zn_status check_memory(const struct verifier *v)
{
    static const zn_buffer_id measured[] = {ZN_BUFFER_TIED,    ZN_BUFFER_ADD,    ZN_BUFFER_SLOTS,      ZN_BUFFER_GATHERED,
                                            ZN_BUFFER_FETCHED, ZN_BUFFER_LANDED, ZN_BUFFER_CHECKPOINTS, ZN_BUFFER_EXCHANGE};
    const struct zn_buffer *buffers = v->plan->buffers;
    for (size_t i = 0; i < sizeof measured / sizeof measured[0]; i++) {
        const struct zn_buffer *b = &buffers[measured[i]];
        if (zn_round_up(v->order.end[measured[i]], ALIGNMENT) != b->n_bytes)
            return zn_fail(ZN_ERR_INTERNAL, "%s has %zu bytes, of which %llu are used", b->name, b->n_bytes,
                           (unsigned long long)v->order.end[measured[i]]);
    }
    for (int b = 0; b < ZN_N_BUFFERS; b++) {
        const struct zn_manifest_entry *e = zn_manifest_find(&v->plan->manifest, b);
        size_t n_bytes = e && e->tier == buffers[b].tier && e->kind == buffers[b].kind ? e->n_bytes : 0;
        if (n_bytes != buffers[b].n_bytes)
            return zn_fail(ZN_ERR_INTERNAL, "%s has %zu bytes, the manifest %zu", buffers[b].name, buffers[b].n_bytes, n_bytes);
    }
    return ZN_OK;
}

/* ---- Bytes between ranks ---- */

/* Uses of units, runs of acquires of the same one; and buckets, what one segment's backward writes into one unit. */
static void count_trace(struct verifier *v)
{
    int used = -1, n_segments = 1;
    size_t n = (size_t)v->plan->units.n_units * sizeof(int);
    memset(v->n_uses, 0, n);
    memset(v->n_buckets, 0, n);
    memset(v->segment_of, 0, n);
    for (int p = 0; p < v->trace->n_points; p++) {
        const struct zn_point *point = &v->trace->points[p];
        bool names_part = point->kind == ZN_POINT_ACQUIRE || point->kind == ZN_POINT_OPEN;
        int unit = names_part ? v->plan->units.parts[point->index].unit : -1;
        if (point->kind == ZN_POINT_ACQUIRE) {
            v->n_uses[unit] += unit != used;
            used = unit;
        } else if (point->kind == ZN_POINT_OPEN && v->segment_of[unit] != n_segments) {
            v->n_buckets[unit]++;
            v->segment_of[unit] = n_segments;
        } else if (point->kind == ZN_POINT_BACKWARD_END) {
            n_segments++;
        } else if (point->kind == ZN_POINT_FORWARD_END && point->index == v->plan->trace.n_segments - 1) {
            used = -1;
        }
    }
}

/* How often the placement sums a unit over ranks in the section. */
static int expected_reductions(const struct verifier *v, int unit)
{
    const struct zn_placement *p = &v->plan->placement;
    int n = v->n_buckets[unit];
    bool is_forward = v->id == ZN_SECTION_EVALUATE || v->id == ZN_SECTION_REFERENCE;
    if (is_forward || v->plan->units.units[unit].n_elements == 0 || !v->plan->units.units[unit].is_trained)
        return 0;
    if (v->id == ZN_SECTION_FINISH)
        return n == 0 && p->reduces_gradients && !p->has_slots;
    if (p->has_slots)
        return n;
    if (p->reduces_every || (v->id != ZN_SECTION_ONLY && v->id != ZN_SECTION_LAST))
        return 0;
    return p->reduces_gradients || n == 0 ? n : n - 1; /* one rank's first is its sum */
}

static zn_status check_bytes(const struct verifier *v)
{
    const struct zn_placement *p = &v->plan->placement;
    bool gathers_sums = v->id == ZN_SECTION_FINISH && p->states.form == ZN_WHOLE && p->n_ranks > 1;
    for (int u = 0; u < v->plan->units.n_units; u++) {
        bool has_elements = v->plan->units.units[u].n_elements > 0 && v->plan->units.units[u].is_trained;
        if (v->n_reductions[u] != expected_reductions(v, u))
            return zn_fail(ZN_ERR_INTERNAL, "unit %d is reduced %d times, not %d", u, v->n_reductions[u],
                           expected_reductions(v, u));
        if (v->id == ZN_SECTION_FINISH ? v->n_gathers[u] != (gathers_sums && has_elements) : v->n_gathers[u] > v->n_uses[u])
            return zn_fail(ZN_ERR_INTERNAL, "unit %d is gathered %d times for %d uses", u, v->n_gathers[u], v->n_uses[u]);
    }
    return ZN_OK;
}

/* ---- All of it ---- */

static zn_status follow(struct verifier *v, zn_section_id id)
{
    enter(v, id);
    if (!v->section->first)
        return ZN_OK;
    memset(v->n_gathers, 0, (size_t)v->plan->units.n_units * sizeof(int));
    memset(v->n_reductions, 0, (size_t)v->plan->units.n_units * sizeof(int));
    count_trace(v);
    zn_status status = verify_section(v);
    if (status == ZN_OK)
        status = check_bytes(v);
    return status == ZN_OK ? ZN_OK : zn_add_context(status, "%s", zn_section_name(id));
}

/* Tasks of a step: two for an offload, a middle micro-batch counted twice; and three of each unit's update before it. */
static int n_tasks(const zn_engine_plan *plan)
{
    int n = 3 * plan->units.n_units;
    for (int id = 0; id < ZN_N_SECTIONS; id++)
        n += 4 * plan->program.sections[id].n_instrs;
    return n;
}

static zn_status verify(struct verifier *v)
{
    static const zn_section_id step[] = {ZN_SECTION_REFERENCE, ZN_SECTION_REFERENCE, ZN_SECTION_ONLY, ZN_SECTION_FIRST,
                                         ZN_SECTION_MIDDLE,    ZN_SECTION_MIDDLE,    ZN_SECTION_LAST, ZN_SECTION_FINISH};
    ZN_TRY(check_sections(v));
    ZN_TRY(check_memory(v));
    ZN_TRY(order_start(&v->order, n_tasks(v->plan)));
    ZN_TRY(verify_start(v));
    for (size_t i = 0; i < sizeof step / sizeof step[0]; i++)
        ZN_TRY(follow(v, step[i]));
    ZN_TRY(order_start(&v->order, n_tasks(v->plan)));
    ZN_TRY(verify_start(v));
    ZN_TRY(follow(v, ZN_SECTION_REFERENCE));
    return follow(v, ZN_SECTION_EVALUATE);
}

/* One array of numbers holds all that are by unit. */
static zn_status verifier_init(struct verifier *v, const zn_engine_plan *plan)
{
    size_t n_units = (size_t)plan->units.n_units, n_parts = (size_t)plan->units.n_parts;
    int most = 0;
    *v = (struct verifier){.plan = plan};
    order_init(&v->order, plan);
    for (int id = 0; id < ZN_N_SECTIONS; id++)
        most = plan->program.sections[id].n_instrs > most ? plan->program.sections[id].n_instrs : most;
    v->is_event_used = calloc((size_t)plan->program.n_events + 1, sizeof *v->is_event_used);
    v->task_of = calloc((size_t)most + 1, sizeof *v->task_of);
    v->open = calloc(n_parts + 1, sizeof *v->open);
    v->update_of = calloc(9 * n_units + 1, sizeof *v->update_of);
    if (!v->is_event_used || !v->task_of || !v->open || !v->update_of)
        return zn_fail(ZN_ERR_MEMORY, "no memory to verify the program");
    int **by_unit[] = {&v->offload_of, &v->published_by, &v->n_gathers,  &v->n_reductions,
                       &v->n_squares,  &v->n_uses,       &v->n_buckets, &v->segment_of};
    for (size_t i = 0; i < sizeof by_unit / sizeof by_unit[0]; i++)
        *by_unit[i] = v->update_of + (i + 1) * n_units;
    for (size_t i = 0; i < n_parts; i++)
        v->open[i] = ZN_NO_SPAN;
    return ZN_OK;
}

static void verifier_fini(struct verifier *v)
{
    order_fini(&v->order);
    free(v->is_event_used);
    free(v->task_of);
    free(v->open);
    free(v->update_of);
}

zn_status zn_program_verify(const zn_engine_plan *plan)
{
    struct verifier v;
    zn_status status = verifier_init(&v, plan);
    if (status == ZN_OK)
        status = verify(&v);
    verifier_fini(&v);
    return status == ZN_ERR_INTERNAL ? zn_add_context(status, "the program of a step is wrong") : status;
}
