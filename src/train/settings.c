/* From the options of a run, with their defaults, to what the engine and the planner take. */
#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "optim/registry.h"
#include "train/training.h"
#include "zinc/train.h"

/* With it, steps of all windows are whole numbers that a double holds. */
static const double MAX_EPOCHS = 1e6;

void zn_train_options_init(struct zn_train_options *options)
{
    *options = (struct zn_train_options){
        .output = "./zinc-out",
        .steps = -1,
        .epochs = 1,
        .micro_batch = 1,
        .accumulate = 1,
        .optimizer = "adamw",
        .beta1 = 0.9,
        .beta2 = 0.999,
        .eps = 1e-8,
        .lr_schedule = "constant",
        .min_lr = -1,
        .clip = 1.0,
        .dynamic_loss_scale = true,
        .loss_scale_window = 1000,
        .hysteresis = 2,
        .loss_scale_min = 1,
        .stage = -1,
        .prefetch_bytes = SIZE_MAX,
        .persist_below = SIZE_MAX,
        .tile_limit = SIZE_MAX,
        .host_cache = SIZE_MAX,
        .delayed_update = -1,
        .recompute = -1,
        .keep_logits = -1,
        .seed = 1,
        .shuffle = true,
        .save = "model",
        .keep = 2,
    };
}

/* A 16-bit folder is trained in bf16 unless the person says otherwise. */
static zn_status resolve_types(struct training *t)
{
    struct zn_train_options *o = &t->options;
    t->engine.type = t->run.style.dtype == ZN_F32 ? ZN_F32 : ZN_BF16;
    if (o->precision)
        ZN_TRY(zn_dtype_parse(o->precision, "--precision", &t->engine.type));
    o->precision = zn_dtype_name(t->engine.type);
    t->engine.frozen_type = o->from_scratch ? t->engine.type : t->run.style.dtype;
    if (o->output_dtype)
        ZN_TRY(zn_dtype_parse(o->output_dtype, "--output-dtype", &t->run.style.dtype));
    struct zn_loss_scale_options scale = {.initial = 1};
    if (t->engine.type == ZN_F16)
        scale = (struct zn_loss_scale_options){.dynamic = o->dynamic_loss_scale,
                                               .initial = o->loss_scale > 0 ? o->loss_scale : ZN_DEFAULT_LOSS_SCALE,
                                               .window = o->loss_scale_window,
                                               .hysteresis = o->hysteresis,
                                               .min = o->loss_scale_min};
    zn_loss_scale_init(&t->loss_scale, &scale);
    return ZN_OK;
}

/* Marks the parameters whose names a pattern matches. A pattern that matches none is a mistake. */
static zn_status resolve_frozen(struct training *t)
{
    const struct zn_train_options *o = &t->options;
    const zn_module *module = t->run.model->module;
    int n_frozen = 0;
    if (o->n_freeze == 0)
        return ZN_OK;
    t->frozen = calloc((size_t)module->n_params, sizeof *t->frozen);
    if (!t->frozen)
        return zn_fail(ZN_ERR_MEMORY, "no memory for the list of frozen parameters");
    for (size_t k = 0; k < o->n_freeze; k++) {
        bool matched = false;
        for (int i = 0; i < module->n_params; i++) {
            if (fnmatch(o->freeze[k], module->params[i].name, 0) != 0)
                continue;
            n_frozen += !t->frozen[i];
            t->frozen[i] = matched = true;
        }
        if (!matched)
            return zn_fail(ZN_ERR_USAGE, "--freeze '%s': no parameter has such a name (one is '%s')", o->freeze[k],
                           module->params[0].name);
    }
    if (n_frozen == module->n_params)
        return zn_fail(ZN_ERR_USAGE, "--freeze: every parameter is frozen; nothing is left to train");
    t->engine.frozen = t->frozen;
    return ZN_OK;
}

static zn_status resolve_choices(struct training *t)
{
    const struct zn_train_options *o = &t->options;
    t->choices = zn_choices_open();
    t->choices.any_schedule = o->schedule && strcmp(o->schedule, "auto") == 0;
    t->choices.stage = o->stage;
    t->choices.recompute = o->recompute;
    t->choices.keep_logits = o->keep_logits;
    if (o->reduce)
        t->choices.reduce_every = strcmp(o->reduce, "every") == 0;
    ZN_TRY(zn_parse_tier("--offload-optimizer", o->offload_optimizer, &t->choices.optimizer));
    ZN_TRY(zn_parse_tier("--offload-param", o->offload_param, &t->choices.parameters));
    ZN_TRY(zn_parse_tier("--offload-gradients", o->offload_gradients, &t->choices.gradients));
    ZN_TRY(zn_parse_tier("--offload-activations", o->offload_activations, &t->choices.activations));
    t->choices.tile_bytes = o->tile_limit;
    t->choices.prefetch_bytes = o->prefetch_bytes;
    t->choices.host_cache = o->host_cache;
    t->engine.persist_bytes = o->persist_below == SIZE_MAX ? ZN_PERSIST_BELOW : o->persist_below;
    return ZN_OK;
}

zn_status settings_resolve_steps(struct training *t)
{
    struct zn_train_options *o = &t->options;
    t->order.n_windows = zn_windows_n(t->windows);
    double per_step = (double)(o->micro_batch * o->accumulate * zn_comm_n_ranks(t->run.comm));
    int64_t first = zn_saving_first_step(t->saving);
    double left = o->epochs * (double)t->order.n_windows - (double)zn_saving_consumed(t->saving, first);
    if (o->steps < 0)
        o->steps = first + (left > 0 ? (int64_t)ceil(left / per_step) : 0);
    t->order.seed = o->seed;
    t->order.shuffle = o->shuffle;
    t->schedule.steps = o->steps;
    return zn_saving_check_data(t->saving);
}

/* What the kernels take as fp32 must be a number there, too. */
static zn_status check_numbers(const struct zn_train_options *o)
{
    const struct {
        const char *flag;
        double value;
    } all[] = {{"--epochs", o->epochs},
               {"--lr", o->lr},
               {"--min-lr", o->min_lr},
               {"--beta1", o->beta1},
               {"--beta2", o->beta2},
               {"--eps", o->eps},
               {"--momentum", o->momentum},
               {"--weight-decay", o->weight_decay},
               {"--clip", o->clip},
               {"--loss-scale", o->loss_scale},
               {"--loss-scale-min", o->loss_scale_min}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (!isfinite((float)all[i].value))
            return zn_fail(ZN_ERR_USAGE, "%s %g: is not a finite number of fp32", all[i].flag, all[i].value);
    if (!((float)o->eps > 0))
        return zn_fail(ZN_ERR_USAGE, "--eps %g: must be above 0 in fp32: where a gradient is zero, Adam would divide zero by "
                       "zero", o->eps);
    if (o->epochs < 0 || o->epochs > MAX_EPOCHS)
        return zn_fail(ZN_ERR_USAGE, "--epochs %g: is not in (0, %g]", o->epochs, MAX_EPOCHS);
    return ZN_OK;
}

/* A gradient that is used up in backward can be neither clipped nor scaled back nor delayed. */
static zn_status check_update(const struct zn_train_options *o)
{
    if (!o->optimizer_in_backward)
        return ZN_OK;
    if (o->clip > 0)
        return zn_fail(ZN_ERR_USAGE, "--optimizer-in-backward needs --clip 0: the norm is known only after backward");
    if (o->precision && strcmp(o->precision, "fp16") == 0)
        return zn_fail(ZN_ERR_USAGE, "--optimizer-in-backward does not go with the loss scaling of --precision fp16");
    if (o->delayed_update >= 0)
        return zn_fail(ZN_ERR_USAGE, "--optimizer-in-backward does not go with --delayed-update");
    return ZN_OK;
}

static zn_status check_schedule(const char *name)
{
    if (!name || strcmp(name, "horizontal") == 0 || strcmp(name, "vertical") == 0 || strcmp(name, "auto") == 0)
        return ZN_OK;
    return zn_fail(ZN_ERR_USAGE, "--schedule: '%s' is not one of horizontal, vertical, auto", name);
}

static zn_status resolve_engine(struct training *t)
{
    struct zn_train_options *o = &t->options;
    ZN_TRY(check_schedule(o->schedule));
    ZN_TRY(zn_packing_parse(o->packing, &t->packing));
    if (o->lr == 0)
        o->lr = o->from_scratch ? 3e-4 : 2e-5;
    t->schedule.lr = o->lr;
    t->schedule.min_lr = o->min_lr;
    t->schedule.warmup = o->warmup;
    ZN_TRY(zn_schedule_parse(o->lr_schedule, &t->schedule.kind));
    t->engine.trains = true;
    t->engine.evaluates = o->n_eval_data > 0;
    t->engine.micro_batch = o->micro_batch;
    t->engine.accumulate = o->accumulate;
    t->engine.hyperparameters = (struct zn_hyperparameters){.beta1 = o->beta1,
                                                            .beta2 = o->beta2,
                                                            .eps = o->eps,
                                                            .weight_decay = o->weight_decay,
                                                            .momentum = o->momentum};
    t->engine.clip = o->clip;
    t->engine.in_backward = o->optimizer_in_backward;
    t->engine.delay_after = o->delayed_update;
    t->engine.vertical = o->schedule && strcmp(o->schedule, "vertical") == 0;
    ZN_TRY(check_update(o));
    return zn_optimizer_find(o->optimizer, &t->engine.hyperparameters, &t->engine.optimizer);
}

static zn_status check_save(const struct zn_train_options *o)
{
    bool all = strcmp(o->save, "all") == 0;
    if (!all && strcmp(o->save, "model") != 0)
        return zn_fail(ZN_ERR_USAGE, "--save: '%s' is not one of model, all", o->save);
    if (all && o->keep == 0)
        return zn_fail(ZN_ERR_USAGE, "--save all: is a checkpoint at the end, and --keep 0 keeps none");
    return ZN_OK;
}

zn_status settings_resolve(struct training *t)
{
    ZN_TRY(check_save(&t->options));
    ZN_TRY(check_numbers(&t->options));
    ZN_TRY(resolve_engine(t));
    return resolve_choices(t);
}

zn_status settings_resolve_model(struct training *t)
{
    ZN_TRY(resolve_types(t));
    return resolve_frozen(t);
}
