/* One training step: micro-batches, then the verdict (norm, finiteness, clipping) and the update. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "zero/engine_private.h"

zn_addr sum_address(const zn_engine *e, int which)
{
    return e->sums.address + (zn_addr)which * sizeof(double);
}

zn_status sum_read(zn_engine *e, int which, double *value)
{
    return zn_device_read(e->device, value, sum_address(e, which), sizeof *value);
}

static zn_status sum_clear(zn_engine *e, int which)
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
    zn_tape_start(e->tape, lifetimes, recording, recording ? (zn_addr)1 << 46 : e->arena.address);
    int64_t dims[] = {o->micro_batch, o->time};
    batch->ids = zn_tape_external(e->tape, ZN_I32, 2, dims, e->ids.address);
    batch->targets = zn_tape_external(e->tape, ZN_I32, 2, dims, e->targets.address);
    return zn_tape_status(e->tape);
}

zn_status zn_engine_micro_batch(zn_engine *e, const int32_t *ids, const int32_t *targets,
                                float scale)
{
    struct zn_batch batch = {.loss = sum_address(e, SUM_LOSS),
                             .scale = scale,
                             .keep_logits = e->options.keep_logits};
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

/* Parameters no operator used in this step have a gradient of zero. */
static zn_status fill_unused(zn_engine *e)
{
    for (int i = 0; i < e->module->n_params; i++) {
        if (e->gradient_state[i] != GRADIENT_EMPTY)
            continue;
        ZN_TRY(zn_run_zero(e->device,
                           &(struct zn_zero_args){
                               .dst = state_at(&e->gradients, e->units.place_of[i]),
                               .n_bytes = e->module->params[i].n_elements * (int64_t)sizeof(float)}));
    }
    memset(e->gradient_state, GRADIENT_EMPTY, (size_t)e->module->n_params);
    return ZN_OK;
}

static zn_status add_squares(zn_engine *e, int64_t place, int64_t n_elements)
{
    return zn_run_sum_squares(e->device,
                              &(struct zn_sum_squares_args){.sum = sum_address(e, SUM_NORM),
                                                            .src = state_at(&e->gradients, place),
                                                            .partial = e->partial.address,
                                                            .n_elements = n_elements});
}

/* Unit by unit, in order; padding is zero and adds nothing. */
static zn_status gradient_norm(zn_engine *e, double *norm)
{
    ZN_TRY(sum_clear(e, SUM_NORM));
    for (int u = 0; u < e->units.n_units; u++)
        ZN_TRY(add_squares(e, e->units.units[u].first, e->units.units[u].n_elements));
    ZN_TRY(sum_read(e, SUM_NORM, norm));
    *norm = sqrt(*norm);
    return ZN_OK;
}

static zn_status name_bad_tensor(zn_engine *e, struct zn_verdict *v)
{
    for (int i = 0; i < e->module->n_params; i++) {
        const zn_param *p = &e->module->params[i];
        double sum;
        ZN_TRY(sum_clear(e, SUM_NORM));
        ZN_TRY(add_squares(e, e->units.place_of[i], p->n_elements));
        ZN_TRY(sum_read(e, SUM_NORM, &sum));
        if (!isfinite(sum)) {
            snprintf(v->reason, sizeof v->reason, "gradient of %s is not finite", p->name);
            return ZN_OK;
        }
    }
    snprintf(v->reason, sizeof v->reason, "the loss is not finite");
    return ZN_OK;
}

zn_status zn_engine_finish_step(zn_engine *e, double lr, struct zn_verdict *verdict)
{
    struct zn_verdict v = {0};
    ZN_TRY(fill_unused(e));
    ZN_TRY(gradient_norm(e, &v.norm));
    ZN_TRY(sum_read(e, SUM_LOSS, &v.loss));
    ZN_TRY(sum_clear(e, SUM_LOSS));
    if (!isfinite(v.norm) || !isfinite(v.loss)) {
        v.skipped = true;
        ZN_TRY(name_bad_tensor(e, &v));
    } else {
        double clip = e->options.clip, factor = clip > 0 ? clip / (v.norm + 1e-6) : 1;
        e->n_updates++;
        ZN_TRY(optimizer_update(e, lr, factor < 1 ? (float)factor : 1.0f));
    }
    *verdict = v;
    return ZN_OK;
}

int64_t zn_engine_updates(const zn_engine *e)
{
    return e->n_updates;
}
