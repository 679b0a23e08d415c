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
#include <stdlib.h>

#include "base/size.h"
#include "zero/engine_private.h"

/* With one rank in fp32 a gradient is its own sum. */
static bool needs_reduction(const zn_engine *e)
{
    return e->n_ranks > 1 || e->options.type != ZN_F32;
}

static bool are_on_nvme(const zn_engine *e)
{
    return is_on_nvme(e->options.offload.gradients);
}

/* In the vertical schedule a unit's gradients are complete, over all micro-batches, when its segment has
 * ended: nothing needs a place of its own for the step. */
bool writes_slots(const zn_engine *e)
{
    if (are_on_nvme(e) || gradients_leave(e))
        return true;
    return needs_reduction(e) && (!keeps_gradients(e) || e->options.reduce_every);
}

/* ---- The way from a slot to where the gradient stays ---- */

static zn_status clear_squares(zn_engine *e, int unit)
{
    const struct zn_unit *u = &e->units.units[unit];
    return zn_run_zero(gradients_device(e),
                       &(struct zn_zero_args){.dst = e->squares.address + (zn_addr)u->first_part * sizeof(zn_exact),
                                              .n_bytes = u->n_parts * (int64_t)sizeof(zn_exact)});
}

zn_status squares_of_unit(zn_engine *e, int unit, zn_addr gradient)
{
    const struct zn_unit *u = &e->units.units[unit];
    ZN_TRY(clear_squares(e, unit));
    for (int i = 0; i < u->n_parts; i++) {
        const struct zn_part *part = &e->units.parts[u->first_part + i];
        struct zn_range own = zn_units_owned(&e->units, part, e->rank);
        int64_t at = part->place - u->first + own.first - e->rank * u->partition;
        if (own.n == 0)
            continue;
        ZN_TRY(zn_run_sum_squares(gradients_device(e),
                                  &(struct zn_sum_squares_args){
                                      .sum = e->squares.address + (zn_addr)(u->first_part + i) * sizeof(zn_exact),
                                      .src = gradient + (zn_addr)at * sizeof(float),
                                      .partial = e->partial.address,
                                      .n_elements = own.n}));
    }
    return ZN_OK;
}

/* Where the sum over ranks ends. */
static zn_addr sum_at(const zn_engine *e, int unit)
{
    const struct unit_state *us = &e->unit_state[unit];
    const struct zn_unit *u = &e->units.units[unit];
    if (!are_on_nvme(e) && !gradients_leave(e))
        return partition_at(e, &e->gradients, sizeof(float), keeps_gradients(e), unit);
    return us->prior ? us->prior : us->slot + (zn_addr)(e->rank * u->partition) * sizeof(float);
}

static uint64_t swap_at(const zn_engine *e, int unit)
{
    return e->swap_gradients.offset + (uint64_t)(e->units.units[unit].first / e->n_ranks) * sizeof(float);
}

static bool is_final(const zn_engine *e, const struct unit_state *us)
{
    return e->last_micro_batch && (us->episode < 0 || e->episodes[us->episode].is_last);
}

static bool is_first(const zn_engine *e, const struct unit_state *us)
{
    return us->episode < 0 || e->episodes[us->episode].is_first;
}

/* Micro-batches come one after the other and add to what is there. */
static bool accumulates(const zn_engine *e)
{
    return e->options.accumulate > 1 && !e->options.vertical;
}

/* Where the states of a part's gradient are kept, for the place it is written to now. */
static unsigned char *state_of(zn_engine *e, const struct zn_part *part)
{
    bool again = e->unit_state[part->unit].in_again;
    return &e->gradient_state[part - e->units.parts + (again ? e->units.n_parts : 0)];
}

static zn_status run_update(void *arg)
{
    struct unit_state *us = arg;
    zn_engine *e = us->engine;
    return optimizer_update_unit(e, (int)(us - e->unit_state), &us->update);
}

/* In backward: the update goes on beside the computing. A gradient that is not finite can no longer be skipped; the
 * verdict ends the run. */
static zn_status start_update(zn_engine *e, int unit, zn_addr gradient)
{
    struct unit_state *us = &e->unit_state[unit];
    us->update = (struct update){.device = e->host, .gradient = gradient, .lr = e->lr, .grad_scale = e->grad_scale};
    update_starts(e, unit);
    us->flight = FLIGHT_UPDATING;
    us->since = e->moment;
    ZN_TRY(zn_device_record(e->device, &us->written));
    ZN_TRY(zn_device_wait(e->host, &us->written));
    zn_event_reset(&us->done);
    if (e->updater)
        return zn_stream_submit(e->updater, &(struct zn_task){.run = run_update, .arg = us, .done = &us->done});
    ZN_TRY(run_update(us));
    return zn_device_record(e->host, &us->done);
}

/* ---- A device with memory of its own: gradients leave it ---- */

/* One rank's are rounded to the working precision and need no more. */
static zn_dtype leaving_type(const zn_engine *e)
{
    return e->n_ranks == 1 ? e->options.type : ZN_F32;
}

static zn_addr half_of(const struct region *region, int half)
{
    return region->address + (zn_addr)half * (region->n_bytes / 2);
}

static zn_status widen(zn_engine *e, zn_addr to, zn_addr from, zn_dtype type, int64_t n)
{
    if (type == ZN_F32)
        return zn_run_copy(e->host, &(struct zn_copy_args){.dst = to, .src = from, .n_bytes = n * (int64_t)sizeof(float)});
    return zn_run_cast(e->host, &(struct zn_cast_args){
                                    .dst = to, .src = from, .dst_type = ZN_F32, .src_type = type, .n_elements = n});
}

/* The host adds what arrives to what it has of this step, in memory or from NVMe. */
static zn_status take_in(zn_engine *e, int unit)
{
    struct unit_state *us = &e->unit_state[unit];
    int64_t n = e->units.units[unit].partition;
    zn_addr wide = half_of(&e->widened, us->half);
    zn_addr home = are_on_nvme(e) ? wide : partition_at(e, &e->gradients, sizeof(float), false, unit);
    ZN_TRY(zn_device_wait(e->host, &us->done));
    ZN_TRY(widen(e, us->adds ? wide : home, half_of(&e->unpack, us->half), leaving_type(e), n));
    if (us->adds && are_on_nvme(e))
        ZN_TRY(zn_device_wait(e->host, &us->prior_read));
    if (us->adds)
        ZN_TRY(zn_run_add(e->host, &(struct zn_add_args){.y = home,
                                                         .a = are_on_nvme(e) ? half_of(&e->earlier, us->half) : home,
                                                         .b = wide,
                                                         .n_elements = n}));
    if (us->final)
        ZN_TRY(squares_of_unit(e, unit, home));
    if (us->final && e->options.in_backward) {
        us->update.gradient = home;
        ZN_TRY(optimizer_update_unit(e, unit, &us->update));
    } else if (are_on_nvme(e)) {
        ZN_TRY(zn_device_record(e->host, &us->taken));
        return zn_storage_write(e->storage, swap_at(e, unit), pointer_of(home), (size_t)n * sizeof(float), &us->taken,
                                &us->stored);
    }
    return zn_device_record(e->host, &us->stored);
}

/* Whoever waits for it hears of a failure. */
static zn_status run_take_in(void *arg)
{
    struct unit_state *us = arg;
    zn_status status = take_in(us->engine, (int)(us - us->engine->unit_state));
    if (status != ZN_OK)
        zn_event_set(&us->stored, status, zn_error_message(), zn_clock_now(us->engine->host->clock));
    return status;
}

static zn_status wait_stored(zn_engine *e, int unit)
{
    struct unit_state *us = &e->unit_state[unit];
    if (!us->storing)
        return ZN_OK;
    us->storing = false;
    return zn_event_wait(&us->stored, e->device->clock);
}

/* A half of the buffers is in use until the host has stored what came through it. */
static zn_status take_half(zn_engine *e, int unit)
{
    int half = e->next_leave;
    if (e->leaving[half] >= 0)
        ZN_TRY(wait_stored(e, e->leaving[half]));
    ZN_TRY(wait_stored(e, unit));
    e->next_leave = 1 - half;
    e->leaving[half] = unit;
    e->unit_state[unit].half = half;
    return ZN_OK;
}

/* ZeRO-Offload: the sum leaves the device while backward goes on. */
static zn_status leave_device(zn_engine *e, int unit, zn_addr sum)
{
    struct unit_state *us = &e->unit_state[unit];
    zn_dtype type = leaving_type(e);
    size_t n = (size_t)e->units.units[unit].partition;
    bool packs = e->pack.n_bytes > 0;
    ZN_TRY(take_half(e, unit));
    us->adds = us->arrived;
    us->final = is_final(e, us);
    us->arrived = true;
    us->update = (struct update){.device = e->host, .lr = e->lr, .grad_scale = e->grad_scale};
    if (us->adds && are_on_nvme(e)) {
        zn_event_reset(&us->prior_read);
        ZN_TRY(zn_storage_read(e->storage, swap_at(e, unit), pointer_of(half_of(&e->earlier, us->half)), n * sizeof(float),
                               NULL, &us->prior_read));
    }
    if (packs)
        ZN_TRY(zn_run_cast(e->device, &(struct zn_cast_args){.dst = half_of(&e->pack, us->half),
                                                             .src = sum,
                                                             .dst_type = type,
                                                             .src_type = ZN_F32,
                                                             .n_elements = (int64_t)n}));
    ZN_TRY(zn_device_record(e->device, &us->written));
    ZN_TRY(zn_device_copy_out(e->device, &(struct zn_transfer){.to = half_of(&e->unpack, us->half),
                                                               .from = packs ? half_of(&e->pack, us->half) : sum,
                                                               .n_bytes = n * zn_dtype_bytes(type),
                                                               .after = {&us->written},
                                                               .done = &us->done}));
    zn_event_reset(&us->stored);
    if (us->final && e->options.in_backward)
        update_starts(e, unit);
    us->storing = true;
    if (e->updater)
        return zn_stream_submit(e->updater, &(struct zn_task){.run = run_take_in, .arg = us});
    return run_take_in(us);
}

/* ---- Sums over ranks ---- */

/* The sum over ranks is there. */
static zn_status land(zn_engine *e, int unit)
{
    struct unit_state *us = &e->unit_state[unit];
    if (gradients_leave(e)) {
        us->flight = FLIGHT_WRITING;
        us->since = e->moment;
        if (!e->plan || e->units.units[unit].n_elements == 0)
            return ZN_OK;
        zn_status left = leave_device(e, unit, sum_at(e, unit));
        if (left != ZN_OK)
            us->flight = FLIGHT_NONE; /* nothing is under way that could be waited for */
        return left;
    }
    bool final = is_final(e, us), updates = e->options.in_backward && final;
    us->flight = FLIGHT_NONE;
    if (!are_on_nvme(e) && !updates)
        return ZN_OK;
    zn_addr gradient = sum_at(e, unit);
    if (final)
        ZN_TRY(squares_of_unit(e, unit, gradient));
    if (updates)
        return start_update(e, unit, gradient);
    us->flight = FLIGHT_WRITING;
    us->since = e->moment;
    if (!e->storage)
        return ZN_OK;
    ZN_TRY(zn_device_record(e->device, &us->written));
    zn_event_reset(&us->done);
    return zn_storage_write(e->storage, swap_at(e, unit), pointer_of(gradient),
                            (size_t)e->units.units[unit].partition * sizeof(float), &us->written, &us->done);
}

static zn_status step_flight(zn_engine *e, int unit)
{
    struct unit_state *us = &e->unit_state[unit];
    if (e->plan && e->units.units[unit].n_elements > 0)
        ZN_TRY(zn_device_wait(e->device, &us->done));
    if (us->in_slot) /* the memory was in use until now */
        zn_arena_touch(&e->slot_arena, us->slot_block);
    if (us->prior)
        zn_arena_touch(&e->slot_arena, us->prior_block);
    if (us->flight == FLIGHT_REDUCING)
        return land(e, unit);
    bool updated = us->flight == FLIGHT_UPDATING;
    us->flight = FLIGHT_NONE;
    return updated && !keeps_optimizer(e) ? publish_unit(e, unit) : ZN_OK;
}

/* Enters the unit among those under way, in the order of units. */
static void take_off(zn_engine *e, int unit)
{
    struct unit_state *us = &e->unit_state[unit];
    us->flight = FLIGHT_REDUCING;
    us->since = e->moment;
    int at = e->n_flying++;
    for (; at > 0 && e->flying[at - 1] > unit; at--)
        e->flying[at] = e->flying[at - 1];
    e->flying[at] = unit;
}

static void forget_landed(zn_engine *e)
{
    int n = 0;
    for (int i = 0; i < e->n_flying; i++) {
        if (e->unit_state[e->flying[i]].flight != FLIGHT_NONE)
            e->flying[n++] = e->flying[i];
    }
    e->n_flying = n;
}

/* Brings all that entered its present part at least `age` moments ago a part further, in the order of units:
 * the same on every rank. One rank's sums need no time. */
static zn_status move_flights(zn_engine *e, int64_t age)
{
    for (int i = 0; i < e->n_flying; i++) {
        int u = e->flying[i];
        struct unit_state *us = &e->unit_state[u];
        int64_t reducing = e->n_ranks == 1 ? 0 : age;
        if (us->flight == FLIGHT_REDUCING && us->since <= e->moment - reducing)
            ZN_TRY(step_flight(e, u));
        if (us->flight >= FLIGHT_WRITING && us->since <= e->moment - age)
            ZN_TRY(step_flight(e, u));
    }
    forget_landed(e);
    return ZN_OK;
}

static zn_status unit_land(zn_engine *e, int unit)
{
    struct unit_state *us = &e->unit_state[unit];
    bool flew = us->flight != FLIGHT_NONE;
    while (us->flight != FLIGHT_NONE)
        ZN_TRY(step_flight(e, unit));
    if (flew)
        forget_landed(e);
    return ZN_OK;
}

/* ---- Writing ---- */

static zn_status open_slot(zn_engine *e, int unit)
{
    const struct zn_unit *u = &e->units.units[unit];
    struct unit_state *us = &e->unit_state[unit];
    ZN_TRY(zn_arena_take(&e->slot_arena, (size_t)u->n_elements * sizeof(float), &us->slot_block,
                         &us->slot_offset));
    us->slot = (e->plan ? e->slots.address : e->ids.address) + us->slot_offset;
    us->prior = 0;
    for (int i = 0; i < u->n_parts; i++)
        e->gradient_state[u->first_part + i] = GRADIENT_EMPTY;
    if (!are_on_nvme(e) || gradients_leave(e) || (is_first(e, us) && !accumulates(e)))
        return ZN_OK;
    size_t offset, n_bytes = (size_t)u->partition * sizeof(float);
    ZN_TRY(zn_arena_take(&e->slot_arena, n_bytes, &us->prior_block, &offset));
    if (!us->reduced)
        return ZN_OK;
    us->prior = (e->plan ? e->slots.address : e->ids.address) + offset;
    if (!e->storage)
        return ZN_OK;
    ZN_TRY(zn_device_record(e->device, &us->written));
    zn_event_reset(&us->prior_read);
    return zn_storage_read(e->storage, swap_at(e, unit), pointer_of(us->prior), n_bytes, &us->written, &us->prior_read);
}

static zn_status learn_episode(zn_engine *e, int unit)
{
    if (e->n_episodes == e->episodes_capacity) {
        int capacity = e->episodes_capacity ? 2 * e->episodes_capacity : 64;
        struct zn_episode *grown = realloc(e->episodes, (size_t)capacity * sizeof *grown);
        if (!grown)
            return zn_fail(ZN_ERR_MEMORY, "no memory for the plan of gradients");
        e->episodes = grown;
        e->episodes_capacity = capacity;
    }
    struct unit_state *us = &e->unit_state[unit];
    if (us->n_learned > 0)
        e->episodes[us->last_learned].is_last = false;
    us->last_learned = e->n_episodes;
    e->episodes[e->n_episodes++] = (struct zn_episode){.unit = unit, .is_first = us->n_learned++ == 0, .is_last = true};
    return ZN_OK;
}

/* Where sums are taken once a step, the second use of a unit in a pass has a place of its own, so that what is
 * added to what does not depend on the schedule. */
static zn_status start_episode(zn_engine *e, int unit)
{
    struct unit_state *us = &e->unit_state[unit];
    ZN_TRY(updates_await(e)); /* they may still read what is written now */
    ZN_TRY(unit_land(e, unit));
    us->open = true;
    us->absent = false;
    us->n_closes = 0;
    us->episode = e->next_episode++;
    if (e->learning) {
        us->slot = e->ids.address; /* on sim any address serves */
        ZN_TRY(learn_episode(e, unit));
    }
    if (us->episode >= e->n_episodes || e->episodes[us->episode].unit != unit)
        return zn_fail(ZN_ERR_INTERNAL, "the program left its plan at the gradients of unit %d", unit);
    bool second = !writes_slots(e) && !is_first(e, us) && !e->options.reduce_every;
    us->in_again = second && accumulates(e) && !e->learning;
    us->in_slot = !us->in_again && (writes_slots(e) || second);
    return us->in_slot && !e->learning ? open_slot(e, unit) : ZN_OK;
}

/* The place of a part's gradient in the present episode. */
static zn_addr place_of(const zn_engine *e, const struct zn_part *part)
{
    const struct unit_state *us = &e->unit_state[part->unit];
    zn_addr offset = (zn_addr)(part->place - e->units.units[part->unit].first) * sizeof(float);
    if (us->in_again)
        return e->plan ? e->again.address + (zn_addr)e->again_at[part->unit] * sizeof(float) + offset : e->ids.address;
    return us->in_slot ? us->slot + offset : whole_at(e, &e->gradients, sizeof(float), part, 0);
}

/* An operator may have several gradients open at once (weight and bias): they lie side by side. */
static zn_status open_beside(zn_engine *e, const struct zn_part *part, zn_addr *address)
{
    size_t begin = e->add_used;
    e->add_used += zn_round_up((size_t)part->n_elements * sizeof(float), ZN_BLOCK_ALIGNMENT);
    if (!e->plan && e->add_used > e->add_bytes)
        e->add_bytes = e->add_used;
    if (e->add_used > e->add_bytes)
        return zn_fail(ZN_ERR_INTERNAL, "gradients to add need %zu bytes, planned are %zu", e->add_used, e->add_bytes);
    e->add_open++;
    *address = (e->plan ? e->add.address : e->ids.address) + begin;
    e->add_address[part - e->units.parts] = *address;
    return ZN_OK;
}

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
    ZN_TRY(zn_device_record(e->device, &us->written));
    zn_event_reset(&us->done);
    return zn_comm_reduce(e->comm, &reduce, &us->done);
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
    if (are_on_nvme(e)) {
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
