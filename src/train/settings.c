/* From the settings of a run to what the engine and the planner take, and back to the settings what they decided. */
#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "optim/registry.h"
#include "train/adapters.h"
#include "train/training.h"
#include "zinc/train.h"

void zn_train_options_init(struct zn_train_options *options)
{
    *options = (struct zn_train_options){0};
    zn_settings_init(&options->settings, ZN_FOR_TRAIN);
}

static bool is_dynamic(const struct zn_settings *o)
{
    return strcmp(o->loss_scale, "dynamic") == 0;
}

/* A 16-bit folder is trained in bf16 unless the person says otherwise. */
static zn_status resolve_types(struct training *t)
{
    struct zn_settings *o = &t->settings;
    t->engine.type = t->run.style.dtype == ZN_F32 ? ZN_F32 : ZN_BF16;
    if (ZN_GIVEN(o, precision))
        ZN_TRY(zn_dtype_parse(o->precision, "--precision", &t->engine.type));
    ZN_CHOOSE(o, precision, zn_dtype_name(t->engine.type));
    t->engine.frozen_type = o->from_scratch ? t->engine.type : t->run.style.dtype;
    zn_run_freeze_base(&t->run, &t->engine, t->engine.frozen_type);
    zn_run_quantise_base(&t->run, &t->engine);
    if (zn_run_has_adapters(&t->run))
        t->run.style.dtype = ZN_F32;
    if (ZN_GIVEN(o, output_dtype))
        ZN_TRY(zn_dtype_parse(o->output_dtype, "--output-dtype", &t->run.style.dtype));
    struct zn_loss_scale_options scale = {.initial = 1};
    if (t->engine.type == ZN_F16)
        scale = (struct zn_loss_scale_options){.dynamic = is_dynamic(o),
                                               .initial = is_dynamic(o) ? o->loss_scale_init : strtod(o->loss_scale, NULL),
                                               .window = o->loss_scale_window,
                                               .hysteresis = o->hysteresis,
                                               .min = o->loss_scale_min};
    zn_loss_scale_init(&t->loss_scale, &scale);
    return ZN_OK;
}

/* Marks the parameters whose names a pattern matches. A pattern that matches none is a mistake. */
static zn_status resolve_frozen(struct training *t)
{
    const struct zn_settings *o = &t->settings;
    const zn_module *module = t->run.model->module;
    int n_frozen = 0;
    if (o->freeze.n == 0)
        return ZN_OK;
    t->frozen = calloc((size_t)module->n_params, sizeof *t->frozen);
    if (!t->frozen)
        return zn_fail(ZN_ERR_MEMORY, "no memory for the list of frozen parameters");
    for (size_t k = 0; k < o->freeze.n; k++) {
        bool matched = false;
        for (int i = 0; i < module->n_params; i++) {
            if (fnmatch(o->freeze.word[k], module->params[i].name, 0) != 0)
                continue;
            n_frozen += !t->frozen[i];
            t->frozen[i] = matched = true;
        }
        if (!matched)
            return zn_fail(ZN_ERR_USAGE, "--freeze '%s': no parameter has such a name (one is '%s')", o->freeze.word[k],
                           module->params[0].name);
    }
    if (n_frozen == module->n_params)
        return zn_fail(ZN_ERR_USAGE, "--freeze: every parameter is frozen; nothing is left to train");
    t->engine.frozen = t->frozen;
    return ZN_OK;
}

/* What was given binds the plan, which chooses the rest. */
static zn_status resolve_choices(struct training *t)
{
    const struct zn_settings *o = &t->settings;
    struct zn_choices *c = &t->choices;
    *c = zn_choices_open();
    c->any_schedule = strcmp(o->schedule, "auto") == 0;
    if (ZN_GIVEN(o, stage))
        c->stage = (int)o->stage;
    if (ZN_GIVEN(o, recompute))
        c->keep = zn_keep_parse(o->recompute);
    else if (o->partition_activations)
        c->keep = 0;
    if (ZN_GIVEN(o, keep_logits))
        c->keep_logits = o->keep_logits;
    if (ZN_GIVEN(o, reduce))
        c->reduce_every = strcmp(o->reduce, "every") == 0;
    ZN_TRY(zn_parse_tier("--offload-optimizer", o->offload_optimizer, &c->optimizer));
    ZN_TRY(zn_parse_tier("--offload-param", o->offload_param, &c->parameters));
    ZN_TRY(zn_parse_tier("--offload-gradients", o->offload_gradients, &c->gradients));
    ZN_TRY(zn_parse_tier("--offload-activations", o->offload_activations, &c->activations));
    if (ZN_GIVEN(o, tile_limit))
        c->tile_bytes = o->tile_limit;
    if (ZN_GIVEN(o, prefetch_bytes))
        c->prefetch_bytes = o->prefetch_bytes;
    if (ZN_GIVEN(o, host_cache))
        c->host_cache = o->host_cache;
    else if (c->optimizer == ZN_TIER_NVME && !ZN_GIVEN(o, memory_limit))
        c->host_cache = 0; /* who sends it away and names no limit wants the memory */
    t->engine.persist_bytes = o->persist_below;
    return ZN_OK;
}

zn_status settings_resolve_steps(struct training *t)
{
    struct zn_settings *o = &t->settings;
    t->order.n_windows = zn_windows_n(t->windows);
    double per_step = (double)(o->micro_batch * o->accumulate * t->run.mesh.data);
    int64_t first = zn_saving_first_step(t->saving);
    double left = o->epochs * (double)t->order.n_windows - (double)zn_saving_consumed(t->saving, first);
    if (!ZN_HAS(o, steps))
        ZN_CHOOSE(o, steps, first + (left > 0 ? (int64_t)ceil(left / per_step) : 0));
    t->order.seed = (uint64_t)o->seed;
    t->order.shuffle = o->shuffle;
    t->schedule.steps = ZN_GIVEN(o, decay_steps) ? o->decay_steps : o->steps;
    return zn_saving_check_data(t->saving);
}

/* What the kernels take as fp32 must be a number there, too. */
static zn_status check_numbers(const struct zn_settings *o)
{
    for (size_t i = 0; i < ZN_N_SETTINGS; i++) {
        const struct zn_setting *s = &zn_settings_table[i];
        double value = s->kind == ZN_OPTION_DOUBLE ? *(const double *)zn_settings_value(o, i) : 0;
        if (!isfinite((float)value))
            return zn_fail(ZN_ERR_USAGE, "%s %g: is not a finite number of fp32", s->name, value);
    }
    if (!((float)o->eps > 0))
        return zn_fail(ZN_ERR_USAGE, "--eps %g: must be above 0 in fp32: where a gradient is zero, Adam would divide zero by "
                       "zero", o->eps);
    return ZN_OK;
}

/* A gradient that is used up in backward can be neither clipped nor scaled back nor delayed. */
static zn_status check_update(const struct zn_settings *o)
{
    if (!o->optimizer_in_backward)
        return ZN_OK;
    if (o->clip > 0)
        return zn_fail(ZN_ERR_USAGE, "--optimizer-in-backward needs --clip 0: the norm is known only after backward");
    if (ZN_GIVEN(o, precision) && strcmp(o->precision, "fp16") == 0)
        return zn_fail(ZN_ERR_USAGE, "--optimizer-in-backward does not go with the loss scaling of --precision fp16");
    if (ZN_GIVEN(o, delayed_update))
        return zn_fail(ZN_ERR_USAGE, "--optimizer-in-backward does not go with --delayed-update");
    return ZN_OK;
}

/* A flag that the schedule has no use for is a mistake. */
static zn_status check_schedule(const struct zn_settings *o, zn_schedule_kind kind)
{
    bool has_min = ZN_GIVEN(o, min_lr) || ZN_GIVEN(o, min_lr_ratio);
    if (ZN_GIVEN(o, min_lr) && ZN_GIVEN(o, min_lr_ratio))
        return zn_fail(ZN_ERR_USAGE, "--min-lr-ratio: is --min-lr as a part of --lr; give one of the two");
    if (ZN_GIVEN(o, decay_steps) && !zn_schedule_falls(kind))
        return zn_fail(ZN_ERR_USAGE, "--decay-steps: --lr-schedule %s does not fall", o->lr_schedule);
    if (has_min && (kind == ZN_WARMUP_LR || kind == ZN_WARMUP_DECAY_LR))
        return zn_fail(ZN_ERR_USAGE, "%s: --lr-schedule %s does not have it%s", ZN_GIVEN(o, min_lr) ? "--min-lr" : "--min-lr-ratio",
                       o->lr_schedule, kind == ZN_WARMUP_DECAY_LR ? "; it ends at --warmup-min-lr" : "");
    bool is_log = strcmp(o->warmup_type, "log") == 0;
    if (kind < ZN_WARMUP_LR && o->warmup == 0 && (is_log || o->warmup_min_lr > 0))
        return zn_fail(ZN_ERR_USAGE, "%s: needs --warmup", is_log ? "--warmup-type log" : "--warmup-min-lr");
    return ZN_OK;
}

static zn_status resolve_schedule(struct training *t)
{
    const struct zn_settings *o = &t->settings;
    struct zn_schedule *c = &t->schedule;
    ZN_TRY(zn_schedule_parse(o->lr_schedule, &c->kind));
    c->lr = o->lr;
    c->min_lr = ZN_GIVEN(o, min_lr) ? o->min_lr : ZN_GIVEN(o, min_lr_ratio) ? o->min_lr_ratio * o->lr : -1;
    c->warmup = o->warmup;
    c->warmup_min_lr = o->warmup_min_lr;
    c->log_warmup = strcmp(o->warmup_type, "log") == 0;
    return check_schedule(o, c->kind);
}

/* Some optimizers have defaults of their own. */
static zn_status resolve_hyperparameters(struct zn_settings *o, struct zn_hyperparameters *h)
{
    struct zn_hyperparameters own;
    ZN_TRY(zn_optimizer_defaults(o->optimizer, &own));
    if (own.beta1 > 0 && !ZN_GIVEN(o, beta1))
        ZN_CHOOSE(o, beta1, own.beta1);
    if (own.beta2 > 0 && !ZN_GIVEN(o, beta2))
        ZN_CHOOSE(o, beta2, own.beta2);
    if (own.eps > 0 && !ZN_GIVEN(o, eps))
        ZN_CHOOSE(o, eps, own.eps);
    if (own.momentum > 0 && !ZN_GIVEN(o, momentum))
        ZN_CHOOSE(o, momentum, own.momentum);
    *h = (struct zn_hyperparameters){.beta1 = o->beta1,
                                     .beta2 = o->beta2,
                                     .eps = o->eps,
                                     .weight_decay = o->weight_decay,
                                     .momentum = o->momentum,
                                     .muon_original = strcmp(o->muon_scale, "original") == 0};
    return ZN_OK;
}

static zn_status resolve_engine(struct training *t)
{
    struct zn_settings *o = &t->settings;
    ZN_TRY(zn_packing_parse(o->packing, &t->packing));
    if (!ZN_HAS(o, lr))
        ZN_CHOOSE(o, lr, ZN_GIVEN(o, lora_rank) || ZN_GIVEN(o, adapter) ? 2e-4 : o->from_scratch ? 3e-4 : 2e-5);
    ZN_TRY(resolve_schedule(t));
    t->engine.trains = true;
    t->engine.evaluates = o->eval_data.n > 0 || ZN_GIVEN(o, eval_split);
    t->engine.micro_batch = o->micro_batch;
    t->engine.accumulate = o->accumulate;
    ZN_TRY(resolve_hyperparameters(o, &t->engine.hyperparameters));
    t->engine.clip = o->clip;
    t->engine.in_backward = o->optimizer_in_backward;
    t->engine.delay_after = ZN_GIVEN(o, delayed_update) ? o->delayed_update : -1;
    t->engine.vertical = strcmp(o->schedule, "vertical") == 0;
    ZN_TRY(check_update(o));
    return zn_optimizer_find(o->optimizer, &t->engine.hyperparameters, &t->engine.optimizer);
}

static zn_status check_save(const struct zn_settings *o)
{
    if (strcmp(o->save, "all") == 0 && o->keep == 0)
        return zn_fail(ZN_ERR_USAGE, "--save all: is a checkpoint at the end, and --keep 0 keeps none");
    return ZN_OK;
}

/* What is not built with slices of parameters is refused by name. */
static zn_status resolve_mesh(struct training *t)
{
    const struct zn_settings *o = &t->settings;
    int n = (int)o->tensor_parallel;
    ZN_TRY(zn_run_set_tensor(&t->run, n));
    t->engine.n_slices = n > 1 ? n : 0;
    if (n > 1 && (ZN_GIVEN(o, lora_rank) || ZN_GIVEN(o, adapter)))
        return zn_fail(ZN_ERR_UNSUPPORTED, "--tensor-parallel %d: not in this build with %s", n,
                       ZN_GIVEN(o, lora_rank) ? "--lora-rank" : "--adapter");
    if (n > 1 && strcmp(o->device, "cpu") != 0)
        return zn_fail(ZN_ERR_UNSUPPORTED, "--tensor-parallel %d: not in this build with --device %s", n, o->device);
    t->engine.partitions_activations = o->partition_activations;
    if (o->partition_activations && n < 2)
        return zn_fail(ZN_ERR_USAGE, "--partition-activations: needs --tensor-parallel above 1: its ranks share them");
    if (o->partition_activations && ZN_GIVEN(o, recompute) && zn_keep_parse(o->recompute) == ZN_KEEP_ALL)
        return zn_fail(ZN_ERR_USAGE, "--partition-activations: needs --recompute on: without it there are no checkpoints");
    if (n > 1 && ZN_GIVEN(o, keep_logits) && o->keep_logits)
        return zn_fail(ZN_ERR_UNSUPPORTED, "--tensor-parallel %d: not in this build with --keep-logits on", n);
    return ZN_OK;
}

/* A block of a state may not lie across two slices, and what updates whole matrices has none. */
static zn_status check_optimizer(const struct training *t)
{
    const zn_optimizer *optimizer = t->engine.optimizer;
    for (int i = 0; i < optimizer->n_states && t->engine.n_slices > 1; i++)
        if (optimizer->state[i].block > 0 || strcmp(optimizer->name, "muon") == 0)
            return zn_fail(ZN_ERR_UNSUPPORTED, "--tensor-parallel %d: not in this build with --optimizer %s", t->engine.n_slices,
                           optimizer->name);
    return ZN_OK;
}

/* The model without its adapters is the reference. */
static zn_status resolve_objective(struct training *t)
{
    struct zn_settings *o = &t->settings;
    t->engine.has_pairs = strcmp(o->objective, "dpo") == 0;
    if (!t->engine.has_pairs)
        return !ZN_GIVEN(o, dpo_beta) ? ZN_OK : zn_fail(ZN_ERR_USAGE, "--dpo-beta: needs --objective dpo");
    if (!ZN_GIVEN(o, dpo_beta))
        ZN_CHOOSE(o, dpo_beta, 0.1);
    t->engine.beta = o->dpo_beta;
    if (!ZN_GIVEN(o, lora_rank) && !ZN_GIVEN(o, adapter))
        return zn_fail(ZN_ERR_USAGE, "--objective dpo: needs adapters (--lora-rank or --adapter): the model without them is the "
                       "reference");
    if (t->packing == ZN_PACKING_STREAM)
        return zn_fail(ZN_ERR_USAGE, "--objective dpo does not go with --packing stream: a pair stays in its window");
    if (o->truncate_rows)
        return zn_fail(ZN_ERR_USAGE, "--objective dpo does not go with --truncate-rows: an answer that is cut is another one");
    if (ZN_GIVEN(o, keep_logits) && o->keep_logits)
        return zn_fail(ZN_ERR_USAGE, "--objective dpo does not go with --keep-logits on: the loss of a pair comes before its first "
                       "gradient");
    t->choices.keep_logits = 0;
    return ZN_OK;
}

static zn_status check_evaluation(const struct zn_settings *o)
{
    if (ZN_GIVEN(o, eval_split) && o->eval_data.n > 0)
        return zn_fail(ZN_ERR_USAGE, "--eval-split and --eval-data: give one of them");
    if (!ZN_GIVEN(o, early_stop))
        return ZN_OK;
    if (!ZN_GIVEN(o, eval_split) && o->eval_data.n == 0)
        return zn_fail(ZN_ERR_USAGE, "--early-stop: needs held-out data: --eval-data or --eval-split");
    if (o->eval_every == 0)
        return zn_fail(ZN_ERR_USAGE, "--early-stop: needs --eval-every");
    return ZN_OK;
}

zn_status settings_resolve(struct training *t)
{
    ZN_TRY(zn_settings_check(&t->settings, ZN_FOR_TRAIN));
    ZN_TRY(check_save(&t->settings));
    ZN_TRY(check_evaluation(&t->settings));
    ZN_TRY(check_numbers(&t->settings));
    ZN_TRY(resolve_mesh(t));
    ZN_TRY(zn_settings_solve_batch(&t->settings, t->run.mesh.data));
    ZN_TRY(resolve_engine(t));
    ZN_TRY(check_optimizer(t));
    ZN_TRY(resolve_choices(t));
    return resolve_objective(t);
}

zn_status settings_resolve_model(struct training *t)
{
    ZN_TRY(resolve_types(t));
    return resolve_frozen(t);
}

static const char *tier_word(zn_tier tier)
{
    static const char *const words[] = {[ZN_TIER_DEVICE] = "none", [ZN_TIER_HOST] = "cpu", [ZN_TIER_NVME] = "nvme"};
    return words[tier];
}

void zn_run_record(const struct zn_run *run, const struct zn_engine_options *e, struct zn_settings *o)
{
    ZN_CHOOSE(o, precision, zn_dtype_name(e->type));
    ZN_CHOOSE(o, output_dtype, zn_dtype_name(run->style.dtype));
    ZN_CHOOSE(o, seq_len, e->seq_len);
    ZN_CHOOSE(o, recompute, run->recompute);
    ZN_CHOOSE(o, keep_logits, e->keep_logits);
    ZN_CHOOSE(o, memory_limit, run->memory_limit);
    if (run->accelerator)
        ZN_CHOOSE(o, device_memory_limit, run->device_limit);
    ZN_CHOOSE(o, stage, e->stage);
    ZN_CHOOSE(o, reduce, e->reduce_every ? "every" : "last");
    ZN_CHOOSE(o, offload_param, tier_word(e->offload.parameters));
    ZN_CHOOSE(o, offload_gradients, tier_word(e->offload.gradients));
    ZN_CHOOSE(o, offload_optimizer, tier_word(e->offload.optimizer));
    ZN_CHOOSE(o, offload_activations, tier_word(e->offload.activations));
    ZN_CHOOSE(o, schedule, e->vertical ? "vertical" : "horizontal");
    ZN_CHOOSE(o, tile_limit, e->tile_bytes);
    ZN_CHOOSE(o, host_cache, e->host_cache);
    ZN_CHOOSE(o, prefetch_bytes, e->prefetch_bytes);
    ZN_CHOOSE(o, persist_below, e->persist_bytes);
    ZN_CHOOSE(o, threads, run->threads);
    if (o->loss_scale && !is_dynamic(o))
        o->origin.loss_scale_init = ZN_ORIGIN_NONE; /* a scale that stays begins nowhere */
}
