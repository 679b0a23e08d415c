/* One training step: micro-batches, then the verdict and the update. */
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

/* Puts the tokens on the device and starts a pass of the tape. */
static zn_status start_pass(zn_engine *e, const int32_t *ids, const int32_t *targets, bool trains,
                            struct zn_batch *batch)
{
    const struct zn_engine_options *o = &e->options;
    size_t n_bytes = (size_t)(o->micro_batch * o->time) * sizeof(int32_t);
    ZN_TRY(zn_device_write(e->device, e->ids.address, ids, n_bytes));
    ZN_TRY(zn_device_write(e->device, e->targets.address, targets, n_bytes));
    bool recording = !e->plan;
    zn_lifetimes *lifetimes;
    ZN_TRY(choose_lifetimes(e, trains, &lifetimes));
    ZN_TRY(gathers_start_pass(e, trains));
    zn_tape_start(e->tape, lifetimes, recording, recording ? (zn_addr)1 << 46 : e->arena.address);
    int64_t dims[] = {o->micro_batch, o->time};
    batch->ids = zn_tape_external(e->tape, ZN_I32, 2, dims, e->ids.address);
    batch->targets = zn_tape_external(e->tape, ZN_I32, 2, dims, e->targets.address);
    return zn_tape_status(e->tape);
}

zn_status zn_engine_micro_batch(zn_engine *e, const int32_t *ids, const int32_t *targets, float scale,
                                bool last)
{
    struct zn_batch batch = {.loss = sum_address(e, SUM_LOSS),
                             .scale = scale,
                             .keep_logits = e->options.keep_logits};
    e->last_micro_batch = last;
    ZN_TRY(gradients_start_pass(e));
    ZN_TRY(start_pass(e, ids, targets, true, &batch));
    return zn_module_train(e->module, e->tape, &batch, e->options.recompute);
}

zn_status zn_engine_evaluate(zn_engine *e, const int32_t *ids, const int32_t *targets, double *loss)
{
    struct zn_batch batch = {.loss = sum_address(e, SUM_EVALUATE)};
    ZN_TRY(sum_clear(e, SUM_EVALUATE));
    ZN_TRY(start_pass(e, ids, targets, false, &batch));
    ZN_TRY(zn_module_evaluate(e->module, e->tape, &batch));
    return sum_read(e, SUM_EVALUATE, loss);
}

zn_status zn_engine_finish_step(zn_engine *e, double lr, double loss_scale, struct zn_verdict *verdict)
{
    struct zn_verdict v = {0};
    ZN_TRY(gradients_finish(e));
    ZN_TRY(verdict_reach(e, loss_scale, &v));
    if (!v.skipped) {
        double clip = e->options.clip, factor = clip > 0 ? clip / (v.norm + 1e-6) : 1;
        e->n_updates++;
        ZN_TRY(optimizer_update(e, lr, (float)((factor < 1 ? factor : 1) / loss_scale)));
    }
    *verdict = v;
    return ZN_OK;
}

int64_t zn_engine_updates(const zn_engine *e)
{
    return e->n_updates;
}

void zn_engine_set_updates(zn_engine *e, int64_t n_updates)
{
    e->n_updates = n_updates;
}
