/* Where gradients go: written in place or into a slot, summed over ranks into the own partition, kept in
 * memory or on NVMe.
 *
 * Where whole gradients are kept (stages 0 and 1) and summed over ranks once a step, a gradient is
 * written in its place, and added to by later micro-batches; in the last micro-batch each unit is
 * reduced when its gradients are complete. Else, and for a unit that is reduced already (the second
 * use of a tied parameter), what a segment writes goes to a slot of the unit's size and is reduced
 * from there.
 *
 * An episode is what a segment writes into one unit; the recording counts the gradients of each, so
 * the reduction of a unit starts with its last one while backward goes on. Slots are places in one
 * region, planned by their lifetimes: a reduction has until the next unit is complete before anyone
 * waits for it, a write to NVMe as long again (ZeRO's C_B). */
#include "zero/gradients.h"

/* With one rank in fp32 a gradient is its own sum. */
static bool needs_reduction(const zn_engine *e)
{
    return e->n_ranks > 1 || e->options.type != ZN_F32;
}

bool gradients_on_nvme(const zn_engine *e)
{
    return is_on_nvme(e->options.offload.gradients);
}

/* In the vertical schedule a unit's gradients are complete, over all micro-batches, when its segment has
 * ended: nothing needs a place of its own for the step. */
bool writes_slots(const zn_engine *e)
{
    if (gradients_on_nvme(e) || gradients_leave(e))
        return true;
    return needs_reduction(e) && (!keeps_gradients(e) || e->options.reduce_every);
}

/* Where the states of a part's gradient are kept, for the place it is written to now. */
static unsigned char *state_of(zn_engine *e, const struct zn_part *part)
{
    bool again = e->unit_state[part->unit].in_again;
    return &e->gradient_state[part - e->units.parts + (again ? e->units.n_parts : 0)];
}

/* ---- Writing ---- */

static zn_status open_gradient(void *self, const zn_param *p, int64_t row, zn_addr *address)
{
    zn_engine *e = self;
    const struct zn_part *part = zn_units_row(&e->units, p, row);
    *address = 0;
    if (is_frozen(e, part))
        return ZN_OK;
    if (!e->unit_state[part->unit].open)
        ZN_TRY(start_episode(e, part->unit));
    unsigned char *state = state_of(e, part);
    if (*state == GRADIENT_EMPTY) {
        *state = GRADIENT_WRITING;
        *address = place_of(e, part);
        return ZN_OK;
    }
    *state = GRADIENT_ADDING;
    return open_beside(e, part, address);
}

static zn_status clear(zn_engine *e, zn_addr at, int64_t n_elements)
{
    if (n_elements == 0)
        return ZN_OK;
    return zn_run_zero(e->device, &(struct zn_zero_args){.dst = at, .n_bytes = n_elements * (int64_t)sizeof(float)});
}

/* Zeroes what nobody wrote: unused parameters and, in a slot, the padding. */
static zn_status clear_unwritten(zn_engine *e, int unit, zn_addr base, bool padding)
{
    const struct zn_unit *u = &e->units.units[unit];
    const unsigned char *states = e->gradient_state + (e->unit_state[unit].in_again ? e->units.n_parts : 0);
    int64_t end = 0;
    for (int i = 0; i < u->n_parts; i++) {
        const struct zn_part *part = &e->units.parts[u->first_part + i];
        int64_t begin = part->place - u->first;
        if (padding)
            ZN_TRY(clear(e, base + (zn_addr)end * sizeof(float), begin - end));
        if (states[u->first_part + i] == GRADIENT_EMPTY)
            ZN_TRY(clear(e, base + (zn_addr)begin * sizeof(float), part->n_elements));
        end = begin + part->n_elements;
    }
    return padding ? clear(e, base + (zn_addr)end * sizeof(float), u->n_elements - end) : ZN_OK;
}

/* Sums the unit over ranks, from the slot or in place, into the own partition. */
static zn_status reduce_unit(zn_engine *e, int unit)
{
    const struct zn_unit *u = &e->units.units[unit];
    struct unit_state *us = &e->unit_state[unit];
    bool adds = us->reduced && !gradients_leave(e); /* else the host adds */
    us->reduced = true;
    const struct region *from = us->in_slot ? &e->slots : us->in_again ? &e->again : &e->gradients;
    size_t offset = us->in_slot ? us->slot_offset
                                : (size_t)(us->in_again ? e->again_at[unit] : u->first) * sizeof(float);
    ZN_TRY(clear_unwritten(e, unit, us->in_slot ? us->slot : from->address + offset, us->in_slot || us->in_again));
    if (us->prior && e->storage)
        ZN_TRY(zn_event_wait(&us->prior_read, e->device->clock));
    take_off(e, unit);
    if (!e->plan || u->n_elements == 0)
        return ZN_OK;
    struct zn_reduce reduce = {
        .tag = {ZN_COMM_REDUCE_GRAD, unit},
        .from = &from->shared,
        .offset = offset,
        .n_elements = u->partition,
        .wire = e->options.type,
        .to = pointer_of(sum_at(e, unit)),
        .adds = adds,
        .after = {&us->written},
    };
    zn_event_reset(&us->done);
    zn_status status = zn_device_record(e->device, &us->written);
    if (status == ZN_OK)
        status = zn_comm_reduce(e->comm, &reduce, &us->done);
    return submitted(e, status, &us->done);
}

/* One rank in fp32: what is in its place is the sum already. */
static zn_status end_in_place(zn_engine *e, int unit)
{
    struct unit_state *us = &e->unit_state[unit];
    zn_addr whole = e->gradients.address + (zn_addr)e->units.units[unit].first * sizeof(float);
    us->reduced = true;
    ZN_TRY(clear_unwritten(e, unit, whole, false));
    if (!e->options.in_backward)
        return ZN_OK;
    take_off(e, unit);
    zn_event_reset(&us->done);
    zn_event_set(&us->done, ZN_OK, NULL, zn_clock_now(e->device->clock));
    return ZN_OK;
}

/* The unit's last gradient of the episode is written. */
static zn_status complete(zn_engine *e, int unit)
{
    struct unit_state *us = &e->unit_state[unit];
    us->open = false;
    if (us->in_slot || (e->last_micro_batch && (needs_reduction(e) || us->in_again)))
        ZN_TRY(reduce_unit(e, unit));
    else if (e->last_micro_batch)
        ZN_TRY(end_in_place(e, unit));
    if (e->options.in_backward) /* the segment still uses the parameters */
        return ZN_OK;
    ZN_TRY(move_flights(e, 1));
    e->moment++;
    zn_arena_next_moment(&e->slot_arena);
    return ZN_OK;
}

static zn_status close_gradient(void *self, const zn_param *p, int64_t row)
{
    zn_engine *e = self;
    const struct zn_part *part = zn_units_row(&e->units, p, row);
    struct unit_state *us = &e->unit_state[part->unit];
    unsigned char *state = state_of(e, part);
    bool adds = *state == GRADIENT_ADDING;
    *state = GRADIENT_WRITTEN;
    if (adds) {
        if (--e->add_open == 0)
            e->add_used = 0;
        zn_addr sum = place_of(e, part);
        ZN_TRY(zn_run_add(e->device, &(struct zn_add_args){.y = sum,
                                                           .a = sum,
                                                           .b = e->add_address[part - e->units.parts],
                                                           .n_elements = part->n_elements}));
    }
    us->n_closes++;
    if (e->learning) {
        e->episodes[us->episode].n_closes = us->n_closes;
        return ZN_OK;
    }
    return us->n_closes == e->episodes[us->episode].n_closes ? complete(e, part->unit) : ZN_OK;
}

static zn_status segment_end(void *self, int segment, bool backward)
{
    zn_engine *e = self;
    if (!backward) {
        e->turn = segment == e->module->n_segments - 1;
        return ZN_OK;
    }
    for (int u = 0; e->learning && u < e->units.n_units; u++)
        e->unit_state[u].open = false;
    if (!e->options.in_backward || e->learning)
        return ZN_OK;
    ZN_TRY(move_flights(e, 1));
    e->moment++;
    zn_arena_next_moment(&e->slot_arena);
    return ZN_OK;
}

/* ---- Passes and steps ---- */

/* Slots begin again at their first place. The last micro-batch of a step uses the most of them; the others
 * use the same, or fewer. */
zn_status gradients_start_pass(zn_engine *e)
{
    zn_lifetimes *recorded = e->last_micro_batch && !e->learning ? e->slot_lifetimes : e->repeat_slots;
    zn_arena_start(&e->slot_arena, e->plan ? e->plan->slots : recorded, !e->plan);
    e->next_episode = 0;
    return ZN_OK;
}

/* What is still under way lives to the end of the pass. */
zn_status gradients_end_pass(zn_engine *e)
{
    for (int u = 0; u < e->units.n_units; u++)
        ZN_TRY(unit_land(e, u));
    return ZN_OK;
}

/* A unit that no segment used in this step: its gradient is zero, and it is updated like the others. */
static zn_status finish_unit(zn_engine *e, int unit)
{
    const struct zn_unit *u = &e->units.units[unit];
    struct unit_state *us = &e->unit_state[unit];
    if (us->reduced)
        return ZN_OK;
    us->in_slot = us->in_again = false;
    us->prior = 0;
    us->episode = -1;
    if (gradients_on_nvme(e)) {
        us->absent = true;
        ZN_TRY(clear_squares(e, unit));
        return e->options.in_backward ? start_update(e, unit, 0) : ZN_OK;
    }
    if (needs_reduction(e) && !writes_slots(e))
        return reduce_unit(e, unit);
    zn_addr own = partition_at(e, &e->gradients, sizeof(float), keeps_gradients(e), unit);
    ZN_TRY(zn_run_zero(gradients_device(e),
                       &(struct zn_zero_args){.dst = own, .n_bytes = u->partition * (int64_t)sizeof(float)}));
    if (!e->options.in_backward && !gradients_leave(e))
        return ZN_OK;
    ZN_TRY(squares_of_unit(e, unit, own));
    return e->options.in_backward ? start_update(e, unit, own) : ZN_OK;
}

/* At stage 0 every rank updates everything and needs all sums. */
static zn_status gather_sums(zn_engine *e, int unit)
{
    const struct zn_unit *u = &e->units.units[unit];
    struct unit_state *us = &e->unit_state[unit];
    if (!keeps_optimizer(e) || e->n_ranks == 1 || !e->plan || u->n_elements == 0)
        return ZN_OK;
    zn_addr whole = e->gradients.address + (zn_addr)u->first * sizeof(float);
    struct zn_gather gather = {
        .tag = {ZN_COMM_GATHER_GRAD, unit},
        .from = &e->gradients.shared,
        .offset = (size_t)(u->first + e->rank * u->partition) * sizeof(float),
        .n_bytes = (size_t)u->partition * sizeof(float),
        .to = pointer_of(whole),
    };
    zn_event_reset(&us->done);
    ZN_TRY(zn_comm_gather(e->comm, &gather, &us->done));
    us->flight = FLIGHT_WRITING;
    return ZN_OK;
}

zn_status gradients_finish(zn_engine *e)
{
    for (int u = 0; u < e->units.n_units; u++) /* nothing else is at work on the host from here on */
        ZN_TRY(wait_stored(e, u));
    for (int u = 0; u < e->units.n_units; u++)
        ZN_TRY(finish_unit(e, u));
    for (int u = 0; u < e->units.n_units; u++) {
        ZN_TRY(unit_land(e, u));
        ZN_TRY(gather_sums(e, u));
    }
    ZN_TRY(gradients_end_pass(e));
    if (e->options.in_backward)
        ZN_TRY(updates_end(e));
    for (int u = 0; u < e->units.n_units; u++)
        e->unit_state[u].reduced = e->unit_state[u].arrived = false;
    for (int i = 0; i < 2 * e->units.n_parts; i++)
        e->gradient_state[i] = GRADIENT_EMPTY;
    return ZN_OK;
}

/* ---- Hooks ---- */

static int64_t tile_rows(void *self, const zn_param *p)
{
    return ((const zn_engine *)self)->units.tile_rows[p->index];
}

static zn_status acquire(void *self, const zn_param *p, int64_t row, zn_addr *address)
{
    return gathers_acquire(self, zn_units_row(&((const zn_engine *)self)->units, p, row), address);
}

static zn_addr constant(void *self, const zn_constant *c)
{
    const zn_engine *e = self;
    return e->constants[c->index].address;
}

static zn_status save(void *self, int64_t index, zn_addr from, int64_t n_elements)
{
    return activations_save(self, index, from, n_elements);
}

static zn_status prefetch(void *self, int64_t index, int64_t n_elements)
{
    return activations_prefetch(self, index, n_elements);
}

static zn_status load(void *self, int64_t index, zn_addr to, int64_t n_elements)
{
    return activations_load(self, index, to, n_elements);
}

const struct zn_param_hooks zn_engine_hooks = {.tile_rows = tile_rows,
                                               .acquire = acquire,
                                               .open_gradient = open_gradient,
                                               .close_gradient = close_gradient,
                                               .constant = constant,
                                               .segment_end = segment_end,
                                               .save = save,
                                               .prefetch = prefetch,
                                               .load = load};
