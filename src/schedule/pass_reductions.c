/* Where gradients go: written in place or into a slot, summed over ranks into the own partition, kept in memory, taken to the
 * host, written to NVMe, or used up by an update in backward.
 *
 * Where whole gradients are kept (stages 0 and 1) and summed over ranks once a step, a gradient is written in its place and added
 * to by later micro-batches; in the last micro-batch each unit is reduced when its gradients are complete. Else, and for a unit
 * that is reduced already (the second use of a tied parameter), what a segment writes goes to a slot of the unit's size and is
 * reduced from there.
 *
 * A bucket is what a segment writes into one unit; the trace counts its gradients, so the reduction starts with the last of
 * them while backward goes on. Slots are places in one buffer, packed by their lifetimes: a reduction has until the next unit is
 * complete before anyone waits for it, a write to NVMe as long again (ZeRO's C_B). */
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "schedule/gradients.h"

/* A part's gradient in the present step. */
enum part_state {
    PART_EMPTY,   /* nothing of it was written */
    PART_WRITING, /* being written in its place */
    PART_ADDING,  /* a further piece is being written beside it, to be added */
    PART_WRITTEN
};

/* ---- Life ---- */

/* Units that a pass writes twice, where gradients are added up over micro-batches before they are summed: the second has a place
 * of its own, so that what is added to what does not depend on the schedule. */
static void place_tied(struct reduction_pass *p)
{
    const struct zn_placement *placement = placement_of(p);
    bool is_wanted = placement->trains && !placement->has_slots && !placement->reduces_every && placement->accumulates;
    for (int u = 0; u < p->ground->units->n_units; u++)
        p->tied_at[u] = -1;
    for (int i = 0; is_wanted && i < p->buckets->n; i++) {
        const struct bucket *bucket = &p->buckets->buckets[i];
        if (bucket->is_first || p->tied_at[bucket->unit] >= 0)
            continue;
        p->tied_at[bucket->unit] = p->tied_elements;
        p->tied_elements += gradient_unit(p, bucket->unit)->n_elements;
    }
}

zn_status reduction_pass_init(struct reduction_pass *p, const struct zn_ground *ground, const struct buckets *buckets)
{
    size_t n_units = (size_t)ground->units->n_units + 1, n_parts = (size_t)ground->units->n_parts + 1;
    *p = (struct reduction_pass){.ground = ground, .buckets = buckets};
    p->units = calloc(n_units, sizeof *p->units);
    p->part_state = calloc(n_parts, 2);
    p->add_offset = calloc(n_parts, sizeof *p->add_offset);
    p->tied_at = calloc(n_units, sizeof *p->tied_at);
    p->under_way = calloc(2 * n_units, sizeof *p->under_way);
    if (!p->units || !p->part_state || !p->add_offset || !p->tied_at || !p->under_way)
        return zn_fail(ZN_ERR_MEMORY, "no memory for the plan of gradients");
    place_tied(p);
    return ZN_OK;
}

void reduction_pass_fini(struct reduction_pass *p)
{
    free(p->units);
    free(p->part_state);
    free(p->add_offset);
    free(p->tied_at);
    free(p->under_way);
    *p = (struct reduction_pass){0};
}

void reduction_pass_start(struct reduction_pass *p, struct zn_writer *writer, struct update_pass *updates, zn_lifetimes *slots,
                          bool records, bool is_last_pass)
{
    p->writer = writer;
    p->updates = updates;
    p->is_last_pass = is_last_pass;
    p->next_bucket = 0;
    zn_arena_start(&p->slots, slots, records);
}

/* A piece of what is written now, from element `first` of the unit on. */
static void zero_elements(struct reduction_pass *p, int unit, int64_t first, int64_t n)
{
    struct zn_span span = gradient_written(p, unit);
    span.offset += (uint64_t)first * sizeof(float);
    span.n_bytes = (uint64_t)n * sizeof(float);
    gradient_zero(p, unit, span, 0);
}

/* Zeroes what nobody wrote: unused parameters and, in a slot, the padding. */
static void clear_unwritten(struct reduction_pass *p, int unit)
{
    const struct zn_unit *u = gradient_unit(p, unit);
    const struct unit_gradient *g = &p->units[unit];
    const unsigned char *states = p->part_state + (g->in_tied ? p->ground->units->n_parts : 0);
    bool with_padding = g->in_slot || g->in_tied;
    int64_t end = 0;
    for (int i = u->first_part; i < u->first_part + u->n_parts; i++) {
        const struct zn_part *part = &p->ground->units->parts[i];
        int64_t begin = part->place - u->first;
        if (with_padding)
            zero_elements(p, unit, end, begin - end);
        if (states[i] == PART_EMPTY)
            zero_elements(p, unit, begin, part->n_elements);
        end = begin + part->n_elements;
    }
    if (with_padding)
        zero_elements(p, unit, end, u->n_elements - end);
}

/* ---- Buckets as they are written ---- */

static zn_status take_slot(struct reduction_pass *p, size_t n_bytes, int64_t *block, uint64_t *offset)
{
    size_t at;
    ZN_TRY(zn_arena_take(&p->slots, n_bytes, block, &at));
    *offset = at;
    return ZN_OK;
}

static zn_status open_slot(struct reduction_pass *p, int unit)
{
    struct unit_gradient *g = &p->units[unit];
    const struct zn_unit *u = gradient_unit(p, unit);
    bool is_first = p->buckets->buckets[g->bucket].is_first;
    ZN_TRY(take_slot(p, gradient_bytes(p, unit), &g->slot_block, &g->slot));
    g->has_prior = false;
    memset(p->part_state + u->first_part, PART_EMPTY, (size_t)u->n_parts);
    if (!gradients_on_nvme(p) || placement_of(p)->offloads_gradients || (is_first && !placement_of(p)->accumulates))
        return ZN_OK;
    ZN_TRY(take_slot(p, (size_t)u->partition * sizeof(float), &g->prior_block, &g->prior));
    if (!g->is_reduced)
        return ZN_OK;
    g->has_prior = true;
    g->prior_read = gradient_emit(p, ZN_OP_READ, unit, gradient_sum(p, unit), gradient_home(p, unit), ZN_AFTER_COMPUTE);
    return ZN_OK;
}

static zn_status start_bucket(struct reduction_pass *p, int unit)
{
    struct unit_gradient *g = &p->units[unit];
    const struct zn_placement *placement = placement_of(p);
    update_pass_backward(p->updates);
    gradient_settle(p, unit);
    g->is_open = true;
    g->n_closes = 0;
    g->bucket = p->next_bucket++;
    const struct bucket *bucket = &p->buckets->buckets[g->bucket];
    bool is_second = !placement->has_slots && !bucket->is_first && !placement->reduces_every;
    g->in_tied = is_second && placement->accumulates;
    g->in_slot = !g->in_tied && (placement->has_slots || is_second);
    return g->in_slot ? open_slot(p, unit) : ZN_OK;
}

static unsigned char *state_of(struct reduction_pass *p, int part)
{
    int unit = p->ground->units->parts[part].unit;
    return &p->part_state[part + (p->units[unit].in_tied ? p->ground->units->n_parts : 0)];
}

static struct zn_span span_of_part(const struct reduction_pass *p, int index)
{
    const struct zn_part *part = &p->ground->units->parts[index];
    struct zn_span span = gradient_written(p, part->unit);
    span.offset += (uint64_t)(part->place - gradient_unit(p, part->unit)->first) * sizeof(float);
    span.n_bytes = (uint64_t)part->n_elements * sizeof(float);
    return span;
}

static struct zn_span add_span(const struct reduction_pass *p, int part)
{
    return (struct zn_span){ZN_BUFFER_ADD, false, p->add_offset[part],
                            (uint64_t)p->ground->units->parts[part].n_elements * sizeof(float)};
}

/* An operator may have several gradients open at once (weight and bias): what is added lies side by side. */
zn_status reduction_pass_open(struct reduction_pass *p, int part)
{
    int unit = p->ground->units->parts[part].unit;
    if (!p->units[unit].is_open)
        ZN_TRY(start_bucket(p, unit));
    unsigned char *state = state_of(p, part);
    if (*state == PART_EMPTY) {
        *state = PART_WRITING;
        zn_writer_bind(p->writer, span_of_part(p, part));
        return ZN_OK;
    }
    *state = PART_ADDING;
    p->add_offset[part] = p->add_used;
    p->n_add_open++;
    p->add_used += zn_round_up((size_t)p->ground->units->parts[part].n_elements * sizeof(float), ZN_BLOCK_ALIGNMENT);
    p->add_bytes = p->add_used > p->add_bytes ? p->add_used : p->add_bytes;
    zn_writer_bind(p->writer, add_span(p, part));
    return ZN_OK;
}

/* Sums the unit over ranks, from the slot or in place, into the own partition. */
static void reduce(struct reduction_pass *p, int unit)
{
    struct unit_gradient *g = &p->units[unit];
    bool adds = g->is_reduced && !placement_of(p)->offloads_gradients; /* else the host adds */
    g->is_reduced = true;
    clear_unwritten(p, unit);
    if (g->has_prior)
        zn_emit(p->writer, (struct zn_instr){
                               .op = ZN_OP_AWAIT, .unit = unit, .after = g->prior_read, .from = ZN_NO_SPAN, .to = ZN_NO_SPAN});
    int done = -1;
    if (gradient_unit(p, unit)->n_elements > 0)
        done = gradient_emit(p, ZN_OP_REDUCE, unit, gradient_sum(p, unit), gradient_written(p, unit), ZN_AFTER_COMPUTE | (adds ? ZN_ADDS : 0));
    gradient_depart(p, unit, done);
}

/* One rank in fp32: what is in its place is the sum already. */
static void end_in_place(struct reduction_pass *p, int unit)
{
    p->units[unit].is_reduced = true;
    clear_unwritten(p, unit);
    if (placement_of(p)->updates_in_backward)
        gradient_depart(p, unit, -1);
}

static void complete(struct reduction_pass *p, int unit)
{
    struct unit_gradient *g = &p->units[unit];
    g->is_open = false;
    if (g->in_slot || (p->is_last_pass && (placement_of(p)->reduces_gradients || g->in_tied)))
        reduce(p, unit);
    else if (p->is_last_pass)
        end_in_place(p, unit);
    if (!placement_of(p)->updates_in_backward) /* else the segment still uses the parameters */
        gradients_advance(p);
}

zn_status reduction_pass_close(struct reduction_pass *p, int part)
{
    int unit = p->ground->units->parts[part].unit;
    struct unit_gradient *g = &p->units[unit];
    unsigned char *state = state_of(p, part);
    if (*state == PART_ADDING) {
        if (--p->n_add_open == 0)
            p->add_used = 0;
        gradient_emit(p, ZN_OP_ADD, unit, span_of_part(p, part), add_span(p, part), 0);
    }
    *state = PART_WRITTEN;
    if (++g->n_closes == p->buckets->buckets[g->bucket].n_closes)
        complete(p, unit);
    return ZN_OK;
}

void reduction_pass_backward_end(struct reduction_pass *p)
{
    if (placement_of(p)->updates_in_backward)
        gradients_advance(p);
}

/* What is still under way lives to the end of the pass. */
void reduction_pass_end(struct reduction_pass *p)
{
    for (int u = 0; u < p->ground->units->n_units; u++)
        gradient_settle(p, u);
}

/* ---- The end of a step ---- */

/* A unit that no segment used in this step: its gradient is zero, and it is updated like the others. */
static void finish_unit(struct reduction_pass *p, int unit)
{
    const struct zn_placement *placement = placement_of(p);
    struct unit_gradient *g = &p->units[unit];
    if (g->is_reduced || !gradient_unit(p, unit)->is_trained)
        return;
    g->in_slot = g->in_tied = g->has_prior = false;
    g->bucket = -1;
    if (gradients_on_nvme(p)) {
        gradient_zero(p, unit, gradient_squares(p, unit), gradient_on_home(p));
        if (placement->updates_in_backward)
            gradient_update(p, unit, ZN_NO_SPAN);
        return;
    }
    if (placement->reduces_gradients && !placement->has_slots) {
        reduce(p, unit);
        return;
    }
    gradient_zero(p, unit, gradient_home(p, unit), gradient_on_home(p));
    if (placement->updates_in_backward || placement->offloads_gradients)
        gradient_take_squares(p, unit, gradient_home(p, unit));
    if (placement->updates_in_backward)
        gradient_update(p, unit, gradient_home(p, unit));
}

/* At stage 0 every rank updates everything and needs all sums. */
static void gather_sums(struct reduction_pass *p, int unit)
{
    const struct zn_placement *placement = placement_of(p);
    if (placement->states.form != ZN_WHOLE || placement->n_ranks == 1 || !gradient_unit(p, unit)->is_trained ||
        gradient_unit(p, unit)->n_elements == 0)
        return;
    struct zn_span whole = zn_span_of_unit(gradient_unit(p, unit), ZN_BUFFER_GRADIENTS, sizeof(float));
    gradient_enter(p, unit, STORING, gradient_emit(p, ZN_OP_GATHER_SUMS, unit, whole, gradient_home(p, unit), ZN_AFTER_COMPUTE));
}

/* Squares of gradients that went away, or were used up in backward, were taken on their way. */
static bool are_squares_taken(const struct reduction_pass *p)
{
    return gradients_on_nvme(p) || placement_of(p)->offloads_gradients || placement_of(p)->updates_in_backward;
}

void reduction_pass_finish(struct reduction_pass *p, struct zn_writer *writer)
{
    int n_units = p->ground->units->n_units;
    p->writer = writer;
    p->updates = NULL;
    for (int u = 0; u < n_units && placement_of(p)->offloads_gradients; u++) /* nothing else is at work on the host from here on */
        if (gradient_unit(p, u)->is_trained)
            zn_emit_unit(writer, ZN_OP_AWAIT_OFFLOAD, u);
    for (int u = 0; u < n_units; u++)
        finish_unit(p, u);
    for (int u = 0; u < n_units; u++) {
        gradient_settle(p, u);
        gather_sums(p, u);
    }
    reduction_pass_end(p);
    if (placement_of(p)->updates_in_backward)
        zn_emit_unit(writer, ZN_OP_END_UPDATES, -1);
    for (int u = 0; u < n_units && !are_squares_taken(p); u++)
        if (gradient_unit(p, u)->is_trained)
            gradient_take_squares(p, u, gradient_home(p, u));
}
