/* Which adapters a run has, and what they are over. */
#include "train/adapters.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "checkpoint/fingerprint.h"

bool zn_run_has_adapters(const struct zn_run *run)
{
    return run->record.options.rank > 0;
}

zn_status zn_run_open_adapter(struct zn_run *run, const char *folder)
{
    if (!folder)
        return ZN_OK;
    ZN_TRY(zn_peft_open(folder, &run->adapter));
    run->record.options = *zn_peft_options(run->adapter);
    if (zn_peft_dropout(run->adapter) > 0)
        zn_run_note(run, "%s: its training had a dropout of %g: it is not applied", folder, zn_peft_dropout(run->adapter));
    return ZN_OK;
}

/* ---- Settings ---- */

static const char *given_flag(const struct zn_settings *o)
{
    return ZN_GIVEN(o, lora_rank)      ? "--lora-rank"
           : ZN_GIVEN(o, lora_alpha)   ? "--lora-alpha"
           : ZN_GIVEN(o, lora_targets) ? "--lora-targets"
           : o->lora_rs                ? "--lora-rs"
                                       : NULL;
}

static zn_status check_flags(const struct zn_settings *o)
{
    const char *flag = given_flag(o);
    if (ZN_GIVEN(o, adapter) && flag)
        return zn_fail(ZN_ERR_USAGE, "%s: the adapter in %s has its own rank, alpha and targets; leave it off", flag, o->adapter);
    if (flag && !ZN_GIVEN(o, lora_rank))
        return zn_fail(ZN_ERR_USAGE, "%s needs --lora-rank", flag);
    if ((flag || ZN_GIVEN(o, adapter)) && o->freeze.n > 0)
        return zn_fail(ZN_ERR_USAGE, "--freeze does not go with adapters: the base is frozen as a whole; --lora-targets says which "
                       "layers have an adapter");
    return ZN_OK;
}

zn_status zn_run_resolve_adapters(struct zn_run *run, struct zn_settings *o)
{
    static const char *const all = "all";
    struct zn_adapter_options *lora = &run->record.options;
    ZN_TRY(check_flags(o));
    if (ZN_GIVEN(o, adapter)) {
        ZN_TRY(zn_run_open_adapter(run, o->adapter));
    } else if (ZN_GIVEN(o, lora_rank)) {
        if (!ZN_GIVEN(o, lora_targets))
            ZN_CHOOSE(o, lora_targets, ((struct zn_words){&all, 1}));
        *lora = (struct zn_adapter_options){.rank = o->lora_rank,
                                            .alpha = ZN_GIVEN(o, lora_alpha) ? o->lora_alpha : 2 * (double)o->lora_rank,
                                            .is_rank_stabilised = o->lora_rs,
                                            .targets = o->lora_targets.word,
                                            .n_targets = o->lora_targets.n};
    } else if (strcmp(o->base_quantize, "none") != 0) {
        return zn_fail(ZN_ERR_USAGE, "--base-quantize %s needs --lora-rank or --adapter: only a frozen base is quantised",
                       o->base_quantize);
    } else {
        return ZN_OK;
    }
    zn_run_set_quantised(run, o->base_quantize);
    ZN_CHOOSE(o, lora_rank, lora->rank);
    ZN_CHOOSE(o, lora_alpha, lora->alpha);
    ZN_CHOOSE(o, lora_rs, lora->is_rank_stabilised);
    run->record.base_name = o->model;
    return ZN_OK;
}

void zn_run_set_quantised(struct zn_run *run, const char *base_quantize)
{
    static const zn_dtype types[] = {ZN_INT8, ZN_NF4};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strcmp(base_quantize, zn_dtype_name(types[i])) == 0)
            run->quantised_type = types[i];
}

/* ---- The model ---- */

static zn_status mark_base(struct zn_run *run, const zn_model *model)
{
    const zn_module *module = model->module;
    free(run->is_base);
    run->is_base = calloc((size_t)module->n_params, sizeof *run->is_base);
    if (!run->is_base)
        return zn_fail(ZN_ERR_MEMORY, "no memory for the list of frozen parameters");
    for (int i = 0; i < module->n_params; i++)
        run->is_base[i] = !zn_is_adapter(&module->params[i]);
    return ZN_OK;
}

zn_status zn_run_make_model(struct zn_run *run, int64_t seq_len, zn_model **model)
{
    zn_model *made;
    if (run->network && zn_run_has_adapters(run))
        return zn_fail(ZN_ERR_UNSUPPORTED, "--lora-rank, --adapter: not for a network of one's own");
    ZN_TRY(zn_run_create_model(run, seq_len, &made));
    zn_status status = zn_run_has_adapters(run) ? zn_model_add_adapters(made, &run->record.options) : ZN_OK;
    if (status == ZN_OK && zn_run_has_adapters(run))
        status = mark_base(run, made);
    if (status == ZN_OK && zn_dtype_is_quantised(run->quantised_type)) {
        free(run->is_quantised);
        run->is_quantised = NULL;
        status = zn_model_list_matrices(made, &run->is_quantised);
    }
    if (status != ZN_OK) {
        zn_model_destroy(made);
        return status;
    }
    *model = made;
    return ZN_OK;
}

zn_status zn_run_check_adapters(struct zn_run *run, uint64_t seed)
{
    if (run->adapter)
        ZN_TRY(zn_peft_check(run->adapter, run->model));
    if (!zn_run_has_adapters(run))
        return ZN_OK;
    run->record.base_config = run->config;
    run->record.base_hash = zn_random_key(seed, "from scratch");
    return run->files ? zn_fingerprint_weights(run->files, &run->record.base_hash) : ZN_OK;
}

void zn_run_freeze_base(const struct zn_run *run, struct zn_engine_options *engine, zn_dtype type)
{
    if (!zn_run_has_adapters(run))
        return;
    engine->frozen = run->is_base;
    engine->frozen_type = type;
    engine->trains_fp32 = true;
}

void zn_run_quantise_base(const struct zn_run *run, struct zn_engine_options *engine)
{
    engine->quantised = run->is_quantised;
    engine->quantised_type = run->quantised_type;
}

zn_status zn_run_fill_adapters(struct zn_run *run, uint64_t seed)
{
    const zn_module *module = run->model->module;
    if (run->adapter)
        return zn_peft_load(run->adapter, run->engine, run->model);
    for (int i = zn_model_first_written(run->model); i < module->n_params; i++)
        ZN_TRY(zn_engine_init_param(run->engine, &module->params[i], seed));
    return ZN_OK;
}

/* ---- Going on ---- */

static zn_status refuse_change(const zn_checkpoint *c, const char *what)
{
    return zn_fail(ZN_ERR_USAGE, "--resume: %s has adapters of another %s than this run; to begin a new run from them give --adapter %s",
                   c->folder, what, c->folder);
}

/* Names of modules are those of the tensors, which zn_peft_check holds to the model. */
static zn_status compare(const struct zn_run *run, const zn_checkpoint *c, const zn_peft *saved)
{
    const struct zn_adapter_options *was = zn_peft_options(saved), *is = &run->record.options;
    if (was->rank != is->rank)
        return refuse_change(c, "--lora-rank");
    if (was->alpha < is->alpha || was->alpha > is->alpha)
        return refuse_change(c, "--lora-alpha");
    if (was->is_rank_stabilised != is->is_rank_stabilised)
        return refuse_change(c, "scaling (--lora-rs)");
    return zn_peft_check(saved, run->model) == ZN_OK ? ZN_OK : refuse_change(c, "--lora-targets");
}

zn_status zn_run_check_resumed(const struct zn_run *run, const zn_checkpoint *c)
{
    zn_peft *saved;
    bool had_adapters = c->state.base_config != NULL;
    if (had_adapters != zn_run_has_adapters(run))
        return zn_fail(ZN_ERR_USAGE, "--resume: %s was made %s, this run %s; give %s", c->folder,
                       had_adapters ? "with adapters" : "without adapters", had_adapters ? "has none" : "has some",
                       had_adapters ? "--lora-rank as before" : "another --output");
    if (!had_adapters)
        return ZN_OK;
    if (c->state.base_hash != run->record.base_hash)
        return zn_fail(ZN_ERR_USAGE, "--resume: the weights of --model %s are not those that the adapters of %s were trained over (%s)",
                       run->record.base_name, c->folder, zn_shown(c->state.base_name).text);
    ZN_TRY(zn_peft_open(c->folder, &saved));
    zn_status status = compare(run, c, saved);
    zn_peft_close(saved);
    return status;
}
