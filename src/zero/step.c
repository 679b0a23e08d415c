/* One training step: micro-batches in the order of the schedule, the verdict, the update. */
#include <stdlib.h>

#include "zero/engine_private.h"

zn_addr sum_address(const zn_engine *e, int which)
{
    return e->sums.address + (zn_addr)which * sizeof(double);
}

zn_status sum_read(zn_engine *e, int which, double *value)
{
    return zn_device_read(e->device, value, sum_address(e, which), sizeof *value);
}

zn_status sum_clear(zn_engine *e, int which)
{
    return zn_run_zero(e->device, &(struct zn_zero_args){.dst = sum_address(e, which),
                                                         .n_bytes = sizeof(double)});
}

/* A pass is recorded once; repeats of it while recording go to a throw-away. */
static zn_status choose_lifetimes(zn_engine *e, bool trains, zn_lifetimes **lifetimes)
{
    if (e->plan)
        *lifetimes = trains ? e->plan->train : e->plan->evaluate;
    else
        *lifetimes = trains ? e->train : e->evaluate;
    if (!*lifetimes)
        return zn_fail(ZN_ERR_INTERNAL, "the engine was not made for this kind of pass");
    if (!e->plan && zn_lifetimes_n_blocks(*lifetimes) > 0) {
        zn_lifetimes_destroy(e->repeat);
        e->repeat = NULL;
        ZN_TRY(zn_lifetimes_create(&e->repeat));
        *lifetimes = e->repeat;
    }
    return ZN_OK;
}

zn_status start_pass(zn_engine *e, bool trains)
{
    zn_lifetimes *lifetimes;
    ZN_TRY(choose_lifetimes(e, trains, &lifetimes));
    ZN_TRY(gathers_start_pass(e, trains));
    zn_tape_start(e->tape, lifetimes, !e->plan, e->plan ? e->arena.address : (zn_addr)1 << 46);
    return ZN_OK;
}

/* Puts the tokens of a micro-batch in their place on the device. */
static zn_status put_words(zn_engine *e, const struct region *region, int64_t place, const int32_t *words, int64_t time,
                           zn_tensor **tensor)
{
    int64_t dims[] = {e->options.micro_batch, time};
    size_t room = (size_t)(e->options.micro_batch * e->options.time) * sizeof(int32_t);
    zn_addr to = region->address + (zn_addr)place * room;
    ZN_TRY(zn_device_write(e->device, to, words, (size_t)(dims[0] * dims[1]) * sizeof *words));
    *tensor = zn_tape_external(e->tape, ZN_I32, 2, dims, to);
    return ZN_OK;
}

static zn_status put_tokens(zn_engine *e, int64_t place, const struct zn_micro_batch *from, struct zn_batch *batch)
{
    int64_t time = from->time ? from->time : e->options.time;
    bool is_whole = time == e->options.time && !from->position_ids;
    if (time > e->options.time || (!is_whole && !e->options.has_examples))
        return zn_fail(ZN_ERR_INTERNAL, "a batch of %lld tokens a sequence is not one of this engine", (long long)time);
    ZN_TRY(put_words(e, &e->ids, place, from->ids, time, &batch->ids));
    ZN_TRY(put_words(e, &e->targets, place, from->targets, time, &batch->targets));
    if (from->position_ids)
        ZN_TRY(put_words(e, &e->position_ids, place, from->position_ids, time, &batch->position_ids));
    return zn_tape_status(e->tape);
}

/* `n` micro-batches of the step, from `first` on, in one pass of the tape. */
static zn_status run_pass(zn_engine *e, const struct zn_step *step, int64_t first, int64_t n, bool last)
{
    struct zn_module_style style = {.recompute = e->options.recompute,
                                    .saves = e->options.offload.activations != ZN_TIER_DEVICE};
    struct zn_batch *batches = calloc((size_t)n, sizeof *batches);
    if (!batches)
        return zn_fail(ZN_ERR_MEMORY, "no memory for %lld micro-batches", (long long)n);
    e->last_micro_batch = last;
    zn_status status = gradients_start_pass(e);
    if (status == ZN_OK)
        status = start_pass(e, true);
    for (int64_t i = 0; i < n && status == ZN_OK; i++) {
        batches[i] = (struct zn_batch){
            .loss = sum_address(e, SUM_LOSS), .scale = step->scale, .keep_logits = e->options.keep_logits};
        status = put_tokens(e, i, &step->batches[first + i], &batches[i]);
    }
    if (status == ZN_OK)
        status = zn_module_train(e->module, e->tape, batches, n, &style);
    if (status == ZN_OK)
        status = activations_end_pass(e);
    if (status == ZN_OK)
        status = gradients_end_pass(e);
    free(batches);
    return status;
}

/* Recording: a pass that only finds out which gradients belong together. */
static zn_status learn(zn_engine *e, const struct zn_step *step, int64_t n)
{
    if (e->plan || e->n_episodes > 0)
        return ZN_OK;
    e->learning = true;
    zn_status status = run_pass(e, step, 0, n, true);
    e->learning = false;
    e->add_bytes = e->add_used = 0;
    e->add_open = 0;
    for (int i = 0; i < 2 * e->units.n_parts; i++)
        e->gradient_state[i] = GRADIENT_EMPTY;
    return status;
}

/* All segments of a micro-batch before the next micro-batch, or all micro-batches of a segment before the next
 * segment. */
static zn_status run_micro_batches(zn_engine *e, const struct zn_step *step)
{
    int64_t n = e->options.accumulate, at_once = e->options.vertical ? n : 1;
    if (!e->plan && !e->options.vertical && n > 3) /* the first, one between, the last */
        n = 3;
    ZN_TRY(learn(e, step, at_once));
    for (int64_t a = 0; a < n; a += at_once)
        ZN_TRY(run_pass(e, step, a, at_once, a + at_once == n));
    return ZN_OK;
}

static void count_moved(zn_engine *e)
{
    if (e->storage)
        e->moved = (struct zn_moved){zn_storage_bytes_read(e->storage), zn_storage_bytes_written(e->storage)};
}

struct zn_moved zn_engine_moved(const zn_engine *e)
{
    return e->moved;
}

zn_status zn_engine_step(zn_engine *e, const struct zn_step *step, struct zn_verdict *verdict)
{
    struct zn_verdict v = {0};
    if (e->options.in_backward) {
        e->lr = step->lr;
        e->grad_scale = (float)(1 / step->loss_scale);
        e->n_updates++;
    }
    ZN_TRY(update_begin(e));
    ZN_TRY(run_micro_batches(e, step));
    ZN_TRY(gradients_finish(e));
    ZN_TRY(verdict_reach(e, step->loss_scale, &v));
    if (e->options.in_backward && v.skipped)
        return zn_fail(ZN_ERR_NUMERIC, "%s; with --optimizer-in-backward the run ends here", v.reason);
    ZN_TRY(update_finish_delayed(e));
    if (updates_beside(e))
        count_moved(e);
    if (!v.skipped && !e->options.in_backward)
        ZN_TRY(update_by_verdict(e, step, &v));
    if (!updates_beside(e))
        count_moved(e);
    *verdict = v;
    return ZN_OK;
}

zn_status zn_engine_evaluate(zn_engine *e, const struct zn_micro_batch *from, double *loss)
{
    struct zn_batch batch = {.loss = sum_address(e, SUM_EVALUATE)};
    ZN_TRY(sum_clear(e, SUM_EVALUATE));
    ZN_TRY(start_pass(e, false));
    ZN_TRY(put_tokens(e, 0, from, &batch));
    ZN_TRY(zn_module_evaluate(e->module, e->tape, &batch));
    return sum_read(e, SUM_EVALUATE, loss);
}

int64_t zn_engine_updates(const zn_engine *e)
{
    return e->n_updates;
}

int64_t zn_engine_decided(const zn_engine *e)
{
    return e->n_updates + e->has_pending;
}

void zn_engine_set_updates(zn_engine *e, int64_t n_updates)
{
    e->n_updates = n_updates;
}

struct zn_pending zn_engine_pending(const zn_engine *e)
{
    return (struct zn_pending){.is_there = e->has_pending, .lr = e->pending_lr, .grad_scale = (double)e->pending_scale};
}

zn_status zn_engine_set_pending(zn_engine *e, const struct zn_pending *pending)
{
    if (pending->is_there && e->options.delay_after < 0)
        return zn_fail(ZN_ERR_USAGE, "an update is pending there: go on with --delayed-update");
    e->has_pending = pending->is_there;
    e->pending_lr = pending->lr;
    e->pending_scale = (float)pending->grad_scale;
    return ZN_OK;
}
