/* The optimizer pass over all own chunks: while one is updated the next are read and the ones before are written. */
#include "zero/pipeline.h"

/* The slot for a chunk that comes soon: the one that has it, else the one whose last visit is longest ago. */
static struct slot *choose_slot(zn_engine *e, int chunk)
{
    struct slot *oldest = &e->pipeline.slots[0];
    for (int s = 0; s < ZN_PIPELINE_BUFFERS; s++) {
        struct slot *slot = &e->pipeline.slots[s];
        if (slot->chunk == chunk)
            return slot;
        if (slot->visit < oldest->visit)
            oldest = slot;
    }
    return oldest;
}

/* The last chunk of the unit is updated: when it is where it is read from, the unit is. */
static zn_status mark_unit(zn_engine *e, int unit, struct slot *slot, const struct update *update)
{
    struct unit_state *us = &e->unit_state[unit];
    if (update->delayed)
        return zn_returns_in_backward(e->placement) ? zn_device_record(update->device, &us->made) : ZN_OK;
    if (zn_is_swapped(&e->placement->parameters)) {
        slot->marks = unit;
        return ZN_OK;
    }
    us->marked = true;
    if (e->placement->returns_parameters) /* the copies before it have ended when it has */
        return zn_device_copy(e->device, ZN_LANE_BACK, &(struct zn_transfer){.done = &us->updated});
    return zn_device_record(update->device, &us->updated);
}

static int what_is_needed(const struct visit *visit)
{
    return visit->kind == VISIT_PREPARE ? HAS_STATES : visit->kind == VISIT_APPLY ? HAS_VALUES : HAS_ALL;
}

static zn_status start_visit(zn_engine *e, const struct visit *visit, const struct update *update, struct slot **chosen)
{
    int chunk = visit->chunk;
    struct slot *slot = choose_slot(e, chunk);
    slot->visit = ++e->pipeline.n_visited;
    *chosen = slot;
    ZN_TRY(slot_empty(e, slot, update->device));
    ZN_TRY(read_chunk(e, chunk, slot, what_is_needed(visit)));
    if (!update->gradient && visit->kind != VISIT_APPLY)
        return read_grad(e, chunk, slot, update);
    return ZN_OK;
}

static zn_status finish_visit(zn_engine *e, const struct visit *visit, struct slot *slot, const struct update *update)
{
    int chunk = visit->chunk;
    const struct chunk *c = &e->pipeline.chunks[chunk];
    bool swapped = chunk_needs_slot(e, chunk);
    for (int k = 0; swapped && k < N_TRANSFERS; k++) { /* also what the visit before wrote */
        if (slot->pending[k])
            ZN_TRY(zn_device_wait(update->device, &slot->done[k]));
        slot->pending[k] = false;
    }
    struct operands x = operands_of(e, chunk, slot);
    int64_t at = c->first - own_first(e, c->unit);
    if (update->gradient)
        x.grad = update->gradient + (zn_addr)at * sizeof(float);
    if (update->delayed && !zn_is_swapped(&e->placement->gradients))
        x.grad = own_at(e, ZN_BUFFER_PENDING, sizeof(float), e->placement->gradients.form, c->unit, at);
    if (update->delayed && !zn_is_swapped(&e->placement->parameters))
        x.copy = e->buffers[ZN_BUFFER_NEXT].base + (zn_addr)c->first * width_of_params(e);
    ZN_TRY(update_chunk(e, visit, &x, update));
    if (e->placement->type == ZN_F32 && x.copy && visit->kind != VISIT_PREPARE)
        ZN_TRY(narrow_values(update->device, x.copy, ZN_F32, x.param, c->n));
    if (!swapped)
        return ZN_OK;
    ZN_TRY(zn_device_record(update->device, &slot->computed));
    return write_chunk(e, chunk, slot, what_is_needed(visit), update->delayed);
}

static const struct visit *visit_at(const zn_engine *e, const struct optimizer_pass *s, int at)
{
    return &e->pipeline.visits[s->update.in_reverse ? s->first + s->n - 1 - at : s->first + at];
}

static int unit_at(const zn_engine *e, const struct optimizer_pass *s, int at)
{
    return e->pipeline.chunks[visit_at(e, s, at)->chunk].unit;
}

/* Where the step waits for the pass; one that runs beside it is no place of the step. */
static void tell_place(const zn_engine *e, const struct optimizer_pass *s)
{
    if (e->progress && s->n == e->pipeline.n_visits && !updates_beside(e) && !e->options.in_backward)
        zn_progress_place(e->progress, &(struct zn_step_place){.pass = "update", .segment = s->at + 1, .n_segments = s->n}, 1, 1);
}

zn_status optimizer_pass_to(zn_engine *e, struct optimizer_pass *s, int end)
{
    for (; s->at < end; s->at++) {
        tell_place(e, s);
        for (; s->started < s->n && s->started <= s->at + PIPELINE_AHEAD; s->started++) {
            const struct visit *next = visit_at(e, s, s->started);
            if (chunk_needs_slot(e, next->chunk))
                ZN_TRY(start_visit(e, next, &s->update, &s->ahead[s->started % (PIPELINE_AHEAD + 1)]));
        }
        struct slot *slot = s->ahead[s->at % (PIPELINE_AHEAD + 1)];
        const struct visit *visit = visit_at(e, s, s->at);
        int unit = unit_at(e, s, s->at);
        if (begins_applying(e, visit))
            ZN_TRY(transform_matrices(e, unit, s->update.device));
        ZN_TRY(finish_visit(e, visit, slot, &s->update));
        if (visit->kind == VISIT_PREPARE || (s->at < s->n - 1 && unit_at(e, s, s->at + 1) == unit))
            continue;
        ZN_TRY(mark_unit(e, unit, slot, &s->update));
        if (s->update.publishes && e->placement->states.form != ZN_WHOLE)
            ZN_TRY(publish_unit(e, unit));
    }
    return ZN_OK;
}

struct optimizer_pass optimizer_pass_over_all(const zn_engine *e, const struct update *update)
{
    return (struct optimizer_pass){.update = *update, .n = e->pipeline.n_visits};
}

zn_status optimizer_pass_through(zn_engine *e, struct optimizer_pass *s, int unit)
{
    const struct unit_state *us = &e->unit_state[unit];
    if (us->end_visit == us->first_visit)
        return ZN_OK;
    return optimizer_pass_to(e, s, s->update.in_reverse ? s->n - us->first_visit : us->end_visit);
}

zn_status optimizer_update_unit(zn_engine *e, int unit, const struct update *update)
{
    const struct unit_state *us = &e->unit_state[unit];
    struct optimizer_pass s = {.update = *update, .first = us->first_visit, .n = us->end_visit - us->first_visit};
    return optimizer_pass_to(e, &s, s.n);
}
