/* The way of a unit's gradient from where it was written to where it stays: summed over ranks, then written to NVMe, taken to
 * the host, or used up by an update in backward. Moments count completed units; by them, never by time, the engine
 * waits, so all ranks do so in the same order. */
#include "zero/gradients.h"

zn_status clear_squares(zn_engine *e, int unit)
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
zn_addr sum_at(const zn_engine *e, int unit)
{
    const struct unit_state *us = &e->unit_state[unit];
    const struct zn_unit *u = &e->units.units[unit];
    if (!gradients_on_nvme(e) && !gradients_leave(e))
        return partition_at(e, &e->gradients, sizeof(float), keeps_gradients(e), unit);
    return us->prior ? us->prior : us->slot + (zn_addr)(e->rank * u->partition) * sizeof(float);
}

uint64_t swap_at(const zn_engine *e, int unit)
{
    return e->swap_gradients.offset + (uint64_t)(e->units.units[unit].first / e->n_ranks) * sizeof(float);
}

static zn_status run_update(void *arg)
{
    struct unit_state *us = arg;
    zn_engine *e = us->engine;
    return optimizer_update_unit(e, (int)(us - e->unit_state), &us->update);
}

/* In backward: the update goes on beside the computing. A gradient that is not finite can no longer be skipped; the
 * verdict ends the run. */
zn_status start_update(zn_engine *e, int unit, zn_addr gradient)
{
    struct unit_state *us = &e->unit_state[unit];
    us->update = (struct update){.device = e->host, .gradient = gradient, .lr = e->lr, .grad_scale = e->grad_scale};
    us->update_absent = us->absent;
    update_starts(e, unit);
    us->flight = FLIGHT_UPDATING;
    us->since = e->moment;
    zn_event_reset(&us->done);
    zn_status status = zn_device_record(e->device, &us->written);
    if (status == ZN_OK)
        status = zn_device_wait(e->host, &us->written);
    if (status == ZN_OK && e->updater)
        status = zn_stream_submit(e->updater, &(struct zn_task){.run = run_update, .arg = us, .done = &us->done});
    else if (status == ZN_OK)
        status = run_update(us);
    if (status == ZN_OK && !e->updater)
        status = zn_device_record(e->host, &us->done);
    return submitted(e, status, &us->done);
}

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
    if (!gradients_on_nvme(e) && !updates)
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
    zn_event_reset(&us->done);
    zn_status status = zn_device_record(e->device, &us->written);
    if (status == ZN_OK)
        status = zn_storage_write(e->storage, swap_at(e, unit), pointer_of(gradient),
                                  (size_t)e->units.units[unit].partition * sizeof(float), &us->written, &us->done);
    return submitted(e, status, &us->done);
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
void take_off(zn_engine *e, int unit)
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
zn_status move_flights(zn_engine *e, int64_t age)
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

zn_status unit_land(zn_engine *e, int unit)
{
    struct unit_state *us = &e->unit_state[unit];
    bool flew = us->flight != FLIGHT_NONE;
    while (us->flight != FLIGHT_NONE)
        ZN_TRY(step_flight(e, unit));
    if (flew)
        forget_landed(e);
    return ZN_OK;
}
