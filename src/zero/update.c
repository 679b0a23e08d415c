/* When updates run.
 *
 * In memory, at once after the verdict. Where the optimizer waits for drives or for a link, on the host's device beside
 * the next forward, unit after unit in the order in which forward needs them: a unit's `updated` holds up whoever reads
 * its parameters, and nothing else. It is issued some units ahead of the device, not all at once, so that what forward
 * reads is not asked for after all of it. A delayed update (ZeRO-Offload) goes on beside all of the next step and puts the new
 * parameters into `next`; they take the place of the present ones when the step ends. To a discrete device of one rank they return
 * while backward goes on, each unit's after its last use: then the link is busy both ways at once.
 *
 * On a real machine a thread of its own runs the updates; in virtual time the host's stream has them. */
#include "zero/engine_private.h"

enum { RETURNS_AHEAD = 2 /* units that the host updates before backward comes to them */ };

bool updates_beside(const zn_engine *e)
{
    return e->host != e->device && e->placement->updates_beside;
}

bool needs_updater(const zn_engine *e)
{
    return e->host != e->device && zn_placement_wants_host(&e->options) && !e->device->clock->is_virtual;
}

void update_starts(zn_engine *e, int unit)
{
    struct unit_state *us = &e->unit_state[unit];
    if (own_count(e, unit) == 0 || !is_trained(e, unit))
        return; /* no chunk will say that it is done */
    us->marked = false;
    zn_event_reset(&us->updated);
}

/* Whoever waits for a unit hears of a failure. */
static zn_status fail_units(zn_engine *e, zn_status status)
{
    for (int u = 0; u < e->units->n_units; u++) {
        struct unit_state *us = &e->unit_state[u];
        if (e->updates.pass.update.delayed) {
            zn_event_set(&us->made, status, zn_error_message(), zn_clock_now(e->device->clock));
            continue;
        }
        if (!us->marked)
            zn_event_set(&us->updated, status, zn_error_message(), zn_clock_now(e->device->clock));
        us->marked = true;
    }
    return status;
}

/* The optimizer pass as far as the end of a unit. */
static zn_status run_part(void *arg)
{
    struct unit_state *us = arg;
    zn_engine *e = us->engine;
    struct optimizer_pass *s = &e->updates.pass;
    zn_status status = ZN_OK;
    if (s->update.delayed) /* `next` is free again */
        status = e->updater ? zn_ticket_wait(us->returned, e->device->clock) : zn_device_wait(e->host, &us->updated);
    if (status == ZN_OK)
        status = optimizer_pass_through(e, s, (int)(us - e->unit_state));
    if (status == ZN_OK && s->at == s->n)
        status = pipeline_mark(e, s->update.device);
    return status == ZN_OK ? ZN_OK : fail_units(e, status);
}

/* Up to so many units are issued, in the direction of the optimizer pass. */
static zn_status issue(zn_engine *e, int n)
{
    int n_units = e->units->n_units;
    for (; e->updates.n_issued < n && e->updates.n_issued < n_units; e->updates.n_issued++) {
        int unit = e->updates.pass.update.in_reverse ? n_units - 1 - e->updates.n_issued : e->updates.n_issued;
        if (!is_trained(e, unit))
            continue;
        if (!e->updater || updates_exchange(e))
            ZN_TRY(run_part(&e->unit_state[unit]));
        else
            ZN_TRY(zn_stream_submit(e->updater, &(struct zn_task){.run = run_part, .arg = &e->unit_state[unit]}));
    }
    return ZN_OK;
}

/* The next uses wait for each unit, and the ranks that keep whole units send each other their parts. */
static void expect_units(zn_engine *e)
{
    for (int u = 0; u < e->units->n_units; u++)
        update_starts(e, u);
    e->updates.is_running = true;
    e->updates.next_publish = 0;
}

/* Whether this optimizer pass goes from the last chunk to the first: every second, where there are buffers. */
static bool turn(zn_engine *e)
{
    bool in_reverse = e->updates.reverses;
    e->updates.reverses = !in_reverse && e->buffers[ZN_BUFFER_PIPELINE].n_bytes > 0 && !zn_optimizer_is_by_matrix(e->options.optimizer);
    return in_reverse;
}

/* What the host does comes after what the device has done. */
static zn_status start_issuing(zn_engine *e, int n)
{
    e->updates.n_issued = 0;
    ZN_TRY(zn_device_record(e->device, &e->updates.before_pass));
    ZN_TRY(zn_device_wait(e->host, &e->updates.before_pass));
    return issue(e, n);
}

/* Backward of the next step may be issued while the update still reads this step's gradients. */
static void keep_absent(zn_engine *e)
{
    for (int u = 0; u < e->units->n_units; u++)
        e->unit_state[u].update_absent = !e->plan->is_used[u];
}

static zn_status apply(zn_engine *e, double lr, float grad_scale)
{
    ZN_TRY(updates_settle(e)); /* where no backward came between two updates; the one before still counts as it did */
    e->updates.n_made++;
    keep_absent(e);
    ZN_TRY(publish_wait_all(e));
    bool beside = updates_beside(e);
    e->updates.pass = optimizer_pass_over_all(e, &(struct update){.device = beside ? e->host : states_device(e),
                                                .lr = lr,
                                                .grad_scale = grad_scale,
                                                .publishes = !beside,
                                                .in_reverse = !beside && turn(e)});
    if (!beside)
        return optimizer_pass_to(e, &e->updates.pass, e->updates.pass.n);
    expect_units(e);
    return start_issuing(e, updates_exchange(e) ? e->units->n_units : ZN_PIPELINE_BUFFERS);
}

/* ---- Along forward ---- */

/* What returns from a delayed update was issued in the step before; the delayed update of this step has a pace of its own. */
zn_status updates_issue(zn_engine *e, int n)
{
    return e->updates.is_delayed_running ? ZN_OK : issue(e, n);
}

zn_status updates_publish(zn_engine *e, int unit)
{
    for (; e->updates.next_publish < e->units->n_units && e->updates.next_publish <= unit; e->updates.next_publish++) {
        if (e->placement->states.form != ZN_WHOLE && is_trained(e, e->updates.next_publish))
            ZN_TRY(publish_unit(e, e->updates.next_publish));
    }
    return ZN_OK;
}

zn_status updates_wait(zn_engine *e)
{
    if (!e->updates.is_running)
        return ZN_OK;
    ZN_TRY(updates_issue(e, e->units->n_units));
    ZN_TRY(updates_publish(e, e->units->n_units));
    for (int u = 0; u < e->units->n_units; u++)
        ZN_TRY(updates_wait_unit(e, u));
    e->updates.is_running = false;
    return ZN_OK;
}

zn_status updates_settle(zn_engine *e)
{
    if (e->updates.is_running)
        ZN_TRY(issue(e, e->units->n_units));
    return e->updater ? zn_stream_synchronize(e->updater) : ZN_OK;
}

zn_status updates_end(zn_engine *e)
{
    ZN_TRY(updates_settle(e));
    ZN_TRY(pipeline_mark(e, e->host));
    e->updates.is_running = true; /* what comes next waits for the units */
    if (e->placement->offloads_gradients)
        e->updates.next_publish = 0;
    return ZN_OK;
}

/* ---- In backward ---- */

static zn_status run_update(void *arg)
{
    struct unit_state *us = arg;
    return optimizer_update_unit(us->engine, (int)(us - us->engine->unit_state), &us->update);
}

static zn_status submit_update(zn_engine *e, struct unit_state *us, zn_event *ready, zn_event *done)
{
    ZN_TRY(zn_device_record(e->device, ready));
    if (us->update.device == e->device) { /* states that are a discrete device's: its stream orders the rest */
        ZN_TRY(run_update(us));
        return zn_device_record(e->device, done);
    }
    ZN_TRY(zn_device_wait(e->host, ready));
    if (e->updater)
        return zn_stream_submit(e->updater, &(struct zn_task){.run = run_update, .arg = us, .done = done});
    ZN_TRY(run_update(us));
    return zn_device_record(e->host, done);
}

/* A gradient that is not finite can no longer be skipped; the verdict ends the run. */
zn_status update_in_backward(zn_engine *e, int unit, zn_addr gradient, zn_event *ready, zn_event *done)
{
    struct unit_state *us = &e->unit_state[unit];
    us->update = (struct update){.device = e->placement->is_discrete ? states_device(e) : e->host,
                                 .gradient = gradient,
                                 .lr = e->updates.lr,
                                 .grad_scale = e->updates.grad_scale};
    us->update_absent = !e->plan->is_used[unit];
    update_starts(e, unit);
    zn_event_reset(done);
    return zn_event_fail(done, submit_update(e, us, ready, done));
}

/* ---- Delayed ---- */

static void swap_buffers(zn_engine *e, zn_buffer_id a, zn_buffer_id b)
{
    struct zn_buffer buffer = e->buffers[a];
    struct zn_shared shared = e->shared[a];
    e->buffers[a] = e->buffers[b];
    e->shared[a] = e->shared[b];
    e->buffers[b] = buffer;
    e->shared[b] = shared;
}

static bool is_delayed(const zn_engine *e)
{
    return e->options.delay_after >= 0 && (e->updates.pending.is_there || e->updates.n_made >= e->options.delay_after);
}

zn_status update_begin(zn_engine *e)
{
    if (!e->updates.pending.is_there)
        return ZN_OK;
    ZN_TRY(updates_settle(e));
    e->updates.n_made++;
    e->updates.pending.is_there = false;
    e->updates.is_delayed_running = true;
    e->updates.n_uses = 0;
    e->updates.last_used = -1;
    bool returns = zn_returns_in_backward(e->placement);
    for (int u = 0; u < e->units->n_units; u++) {
        struct unit_state *us = &e->unit_state[u];
        us->returned = zn_event_ticket(&us->updated);
        us->is_returned = false;
        if (returns)
            zn_event_reset(&us->made);
    }
    e->updates.pass = optimizer_pass_over_all(e, &(struct update){.device = e->host,
                                                .lr = e->updates.pending.lr,
                                                .grad_scale = (float)e->updates.pending.grad_scale,
                                                .delayed = true,
                                                .in_reverse = returns || turn(e)}); /* as backward comes to the units */
    return start_issuing(e, 0);
}

/* Unit after unit as the step goes on, so that the host also comes to the gradients that arrive meanwhile. In a pass
 * the device comes to each unit in forward and in backward. */
zn_status update_advance(zn_engine *e, int unit)
{
    int64_t n_times = 2 * (e->options.vertical ? 1 : e->options.accumulate);
    if (!e->updates.is_delayed_running || unit == e->updates.last_used)
        return ZN_OK;
    e->updates.last_used = unit;
    if (zn_returns_in_backward(e->placement)) /* which asks for each unit in time: before it the host has half of the rest */
        n_times *= 2;
    int64_t n = 1 + e->updates.n_uses++ / n_times;
    return issue(e, n < e->units->n_units ? (int)n : e->units->n_units);
}

/* A unit's new parameters from `next` to where they are used. */
static zn_status move_unit(zn_engine *e, int unit)
{
    size_t width = width_of_params(e), n_bytes = (size_t)own_count(e, unit) * width;
    zn_addr from = e->buffers[ZN_BUFFER_NEXT].base + (zn_addr)own_first(e, unit) * width;
    zn_addr to = own_values_at(e, unit, 0);
    struct unit_state *us = &e->unit_state[unit];
    if (n_bytes == 0 || !is_trained(e, unit))
        return ZN_OK;
    us->marked = true;
    if (e->placement->returns_parameters) {
        bool returns = zn_returns_in_backward(e->placement);
        struct zn_transfer back = {.to = to,
                                   .from = from,
                                   .n_bytes = n_bytes,
                                   .after = {returns ? &us->made : &e->updates.pass_ended, returns ? &us->last_read : NULL},
                                   .done = &us->updated};
        return zn_device_copy(e->device, ZN_LANE_BACK, &back);
    }
    ZN_TRY(zn_run_copy(states_device(e), &(struct zn_copy_args){.dst = to, .src = from, .n_bytes = (int64_t)n_bytes}));
    return zn_device_record(states_device(e), &us->updated);
}

zn_status update_return(zn_engine *e, int unit)
{
    struct unit_state *us = &e->unit_state[unit];
    if (!e->updates.is_delayed_running || us->is_returned)
        return ZN_OK;
    ZN_TRY(issue(e, e->units->n_units - unit + RETURNS_AHEAD)); /* it, those after it, and the next that backward comes to */
    us->is_returned = true;
    update_starts(e, unit);
    ZN_TRY(zn_device_record(e->device, &us->last_read));
    return move_unit(e, unit);
}

/* Those that nothing of the step has used are left. */
static zn_status return_rest(zn_engine *e)
{
    for (int u = e->units->n_units - 1; u >= 0; u--)
        ZN_TRY(update_return(e, u));
    ZN_TRY(updates_settle(e)); /* the gradients it reads are the next step's buffer */
    e->updates.is_delayed_running = false;
    e->updates.is_running = true;
    return ZN_OK;
}

zn_status update_finish_delayed(zn_engine *e)
{
    if (!e->updates.is_delayed_running)
        return ZN_OK;
    if (zn_returns_in_backward(e->placement))
        return return_rest(e);
    e->updates.is_delayed_running = false;
    ZN_TRY(issue(e, e->units->n_units));
    ZN_TRY(updates_settle(e));
    ZN_TRY(publish_wait_all(e));
    ZN_TRY(zn_device_record(e->host, &e->updates.pass_ended));
    ZN_TRY(zn_device_wait(e->device, &e->updates.pass_ended));
    if (zn_is_swapped(&e->placement->parameters)) {
        swap_buffers(e, ZN_BUFFER_PARAMETERS, ZN_BUFFER_NEXT);
        return ZN_OK;
    }
    expect_units(e);
    for (int u = 0; u < e->units->n_units; u++)
        ZN_TRY(move_unit(e, u));
    return ZN_OK;
}

/* This step's gradients wait for the next. */
static void delay(zn_engine *e, double lr, float grad_scale)
{
    swap_buffers(e, ZN_BUFFER_GRADIENTS, ZN_BUFFER_PENDING);
    keep_absent(e);
    e->updates.pending = (struct zn_pending){.is_there = true, .lr = lr, .grad_scale = (double)grad_scale};
}

zn_status update_by_verdict(zn_engine *e, const struct zn_step *step, const struct zn_verdict *v)
{
    double clip = e->options.clip, factor = clip > 0 ? clip / (v->norm + 1e-6) : 1;
    float grad_scale = (float)((factor < 1 ? factor : 1) / step->loss_scale);
    if (!is_delayed(e))
        return apply(e, step->lr, grad_scale);
    delay(e, step->lr, grad_scale);
    return ZN_OK;
}

zn_status zn_zero_finish(zn_engine *e)
{
    ZN_TRY(update_begin(e));
    ZN_TRY(update_finish_delayed(e));
    return updates_settle(e);
}
