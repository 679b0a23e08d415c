/* When updates run.
 *
 * In memory, at once after the verdict. Where the optimizer waits for drives or for a link, on the host's device beside
 * the next forward, unit after unit in the order in which forward needs them: a unit's `updated` holds up whoever reads
 * its parameters, and nothing else. It is issued some units ahead of the device, not all at once, so that what forward
 * reads is not asked for after all of it. A delayed update (ZeRO-Offload) goes on beside all of the next step and puts the new
 * parameters into `next`; they take the place of the present ones when the step ends.
 *
 * On a real machine a thread of its own runs the updates; in virtual time the host's stream has them. */
#include "zero/engine_private.h"

static bool waits_for_drives(const struct zn_offload *off)
{
    return is_on_nvme(off->optimizer) || is_on_nvme(off->parameters) || is_on_nvme(off->gradients);
}

bool zn_engine_wants_host(const struct zn_engine_options *o)
{
    return o->trains && (o->is_apart || o->in_backward || o->delay_after >= 0 || waits_for_drives(&o->offload));
}

bool updates_beside(const zn_engine *e)
{
    return e->host != e->device && !e->options.in_backward &&
           (waits_for_drives(&e->options.offload) || states_device(e) == e->host);
}

bool needs_updater(const zn_engine *e)
{
    return e->host != e->device && zn_engine_wants_host(&e->options) && !e->device->clock->is_virtual;
}

void update_starts(zn_engine *e, int unit)
{
    struct unit_state *us = &e->unit_state[unit];
    if (own_count(e, unit) == 0)
        return; /* no chunk will say that it is done */
    us->marked = false;
    zn_event_reset(&us->updated);
}

/* Whoever waits for a unit hears of a failure. */
static zn_status fail_units(zn_engine *e, zn_status status)
{
    for (int u = 0; u < e->units.n_units && !e->sweep.update.delayed; u++) {
        struct unit_state *us = &e->unit_state[u];
        if (!us->marked)
            zn_event_set(&us->updated, status, zn_error_message(), zn_clock_now(e->device->clock));
        us->marked = true;
    }
    return status;
}

/* The sweep as far as the end of a unit. */
static zn_status run_part(void *arg)
{
    struct unit_state *us = arg;
    zn_engine *e = us->engine;
    struct sweep *s = &e->sweep;
    zn_status status = ZN_OK;
    if (s->update.delayed) /* `next` is free again */
        status = zn_device_wait(e->host, &us->updated);
    if (status == ZN_OK)
        status = sweep_through(e, s, (int)(us - e->unit_state));
    if (status == ZN_OK && s->at == s->n)
        status = pipeline_mark(e, s->update.device);
    return status == ZN_OK ? ZN_OK : fail_units(e, status);
}

/* Up to so many units are issued, in the direction of the sweep. */
static zn_status issue(zn_engine *e, int n)
{
    int n_units = e->units.n_units;
    for (; e->n_issued < n && e->n_issued < n_units; e->n_issued++) {
        int unit = e->sweep.update.backwards ? n_units - 1 - e->n_issued : e->n_issued;
        if (!e->updater)
            ZN_TRY(run_part(&e->unit_state[unit]));
        else
            ZN_TRY(zn_stream_submit(e->updater, &(struct zn_task){.run = run_part, .arg = &e->unit_state[unit]}));
    }
    return ZN_OK;
}

/* The next uses wait for each unit, and the ranks that keep whole units send each other their parts. */
static void expect_units(zn_engine *e)
{
    for (int u = 0; u < e->units.n_units; u++)
        update_starts(e, u);
    e->sweeping = true;
    e->next_publish = 0;
}

/* Whether this sweep goes from the last chunk to the first: every second, where there are buffers. */
static bool turn(zn_engine *e)
{
    bool backwards = e->turns;
    e->turns = !backwards && e->pipeline.n_bytes > 0;
    return backwards;
}

/* What the host does comes after what the device has done. */
static zn_status start_issuing(zn_engine *e, int n)
{
    e->n_issued = 0;
    ZN_TRY(zn_device_record(e->device, &e->before_sweep));
    ZN_TRY(zn_device_wait(e->host, &e->before_sweep));
    return issue(e, n);
}

/* Backward of the next step may be issued while the update still reads this step's gradients. */
static void keep_absent(zn_engine *e)
{
    for (int u = 0; u < e->units.n_units; u++)
        e->unit_state[u].update_absent = e->unit_state[u].absent;
}

static zn_status apply(zn_engine *e, double lr, float grad_scale)
{
    ZN_TRY(updates_settle(e)); /* where no backward came between two updates; the one before still counts as it did */
    e->n_updates++;
    keep_absent(e);
    ZN_TRY(gathers_wait_published(e));
    bool beside = updates_beside(e);
    e->sweep = sweep_of_all(e, &(struct update){.device = beside ? e->host : states_device(e),
                                                .lr = lr,
                                                .grad_scale = grad_scale,
                                                .publishes = !beside,
                                                .backwards = !beside && turn(e)});
    if (!beside)
        return sweep_to(e, &e->sweep, e->sweep.n);
    expect_units(e);
    return start_issuing(e, PIPELINE_SLOTS);
}

/* ---- Along forward ---- */

/* A unit whose parameters are on NVMe is updated when they are written, which the sweep learns as many chunks later as
 * there are slots. */
zn_status updates_reach(zn_engine *e, int unit)
{
    return e->sweeping ? issue(e, unit + 1 + PIPELINE_SLOTS) : ZN_OK;
}

zn_status updates_follow(zn_engine *e, int unit)
{
    ZN_TRY(updates_reach(e, unit + 1));
    for (; e->next_publish < e->units.n_units && e->next_publish <= unit + 1; e->next_publish++) {
        if (!keeps_optimizer(e))
            ZN_TRY(publish_unit(e, e->next_publish));
    }
    return ZN_OK;
}

zn_status updates_await(zn_engine *e)
{
    if (!e->sweeping)
        return ZN_OK;
    ZN_TRY(updates_follow(e, e->units.n_units));
    for (int u = 0; u < e->units.n_units; u++)
        ZN_TRY(zn_device_wait(e->device, &e->unit_state[u].updated));
    e->sweeping = false;
    return ZN_OK;
}

zn_status updates_settle(zn_engine *e)
{
    ZN_TRY(updates_reach(e, e->units.n_units));
    return e->updater ? zn_stream_synchronize(e->updater) : ZN_OK;
}

zn_status updates_end(zn_engine *e)
{
    ZN_TRY(updates_settle(e));
    ZN_TRY(pipeline_mark(e, e->host));
    e->sweeping = true; /* what comes next waits for the units */
    if (gradients_leave(e))
        e->next_publish = 0;
    return ZN_OK;
}

/* ---- Delayed ---- */

static void swap_regions(struct region *a, struct region *b)
{
    struct region c = *a;
    *a = *b;
    *b = c;
}

static void swap_extents(struct extent *a, struct extent *b)
{
    struct extent c = *a;
    *a = *b;
    *b = c;
}

static bool is_delayed(const zn_engine *e)
{
    return e->options.delay_after >= 0 && (e->has_pending || e->n_updates >= e->options.delay_after);
}

zn_status update_begin(zn_engine *e)
{
    if (!e->has_pending)
        return ZN_OK;
    ZN_TRY(updates_settle(e));
    e->n_updates++;
    e->has_pending = false;
    e->sweeping_delayed = true;
    e->n_moments = 0;
    e->last_used = -1;
    e->sweep = sweep_of_all(e, &(struct update){.device = e->host,
                                                .lr = e->pending_lr,
                                                .grad_scale = e->pending_scale,
                                                .delayed = true,
                                                .backwards = turn(e)});
    return start_issuing(e, 0);
}

/* Unit after unit as the step goes on, so that the host also comes to the gradients that arrive meanwhile. In a pass
 * the device comes to each unit in forward and in backward. */
zn_status update_moment(zn_engine *e, int unit)
{
    int64_t n_times = 2 * (e->options.vertical ? 1 : e->options.accumulate);
    if (!e->sweeping_delayed || unit == e->last_used)
        return ZN_OK;
    e->last_used = unit;
    int64_t n = 1 + e->n_moments++ / n_times;
    return issue(e, n < e->units.n_units ? (int)n : e->units.n_units);
}

/* A unit's new parameters from `next` to where they are used. */
static zn_status move_unit(zn_engine *e, int unit)
{
    size_t width = width_of_params(e), n_bytes = (size_t)own_count(e, unit) * width;
    zn_addr from = e->next.address + (zn_addr)own_first(e, unit) * width;
    zn_addr to = own_at(e, &e->parameters, width, keeps_parameters(e), unit, 0);
    struct unit_state *us = &e->unit_state[unit];
    if (n_bytes == 0)
        return ZN_OK;
    us->marked = true;
    if (parameters_return(e)) {
        struct zn_transfer back = {.to = to, .from = from, .n_bytes = n_bytes, .after = {&e->swept}, .done = &us->updated};
        return zn_device_copy(e->device, ZN_LANE_BACK, &back);
    }
    ZN_TRY(zn_run_copy(states_device(e), &(struct zn_copy_args){.dst = to, .src = from, .n_bytes = (int64_t)n_bytes}));
    return zn_device_record(states_device(e), &us->updated);
}

zn_status update_finish_delayed(zn_engine *e)
{
    if (!e->sweeping_delayed)
        return ZN_OK;
    e->sweeping_delayed = false;
    ZN_TRY(issue(e, e->units.n_units));
    ZN_TRY(updates_settle(e));
    ZN_TRY(gathers_wait_published(e));
    ZN_TRY(zn_device_record(e->host, &e->swept));
    ZN_TRY(zn_device_wait(e->device, &e->swept));
    if (is_on_nvme(e->options.offload.parameters)) {
        swap_extents(&e->swap_parameters, &e->swap_next);
        return ZN_OK;
    }
    expect_units(e);
    for (int u = 0; u < e->units.n_units; u++)
        ZN_TRY(move_unit(e, u));
    return ZN_OK;
}

/* This step's gradients wait for the next. */
static void delay(zn_engine *e, double lr, float grad_scale)
{
    swap_extents(&e->swap_gradients, &e->swap_pending);
    swap_regions(&e->gradients, &e->pending);
    keep_absent(e);
    e->has_pending = true;
    e->pending_lr = lr;
    e->pending_scale = grad_scale;
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

zn_status zn_engine_finish(zn_engine *e)
{
    ZN_TRY(update_begin(e));
    ZN_TRY(update_finish_delayed(e));
    return updates_settle(e);
}
