/* The ladder of settings. Each rung needs less memory than the one before and costs more time. A rung is tried with
 * nothing fetched ahead; what memory it then leaves goes to the prefetch. */
#include "plan/fit.h"

#include "base/size.h"
#include "plan/prefetch.h"
#include "plan/vertical.h"

static const size_t MIB = 1024 * 1024;

struct rung {
    bool recompute, keep_logits;
    bool optimizer, activations, parameters; /* on NVMe */
    size_t tile;                             /* MiB; 0: none */
    bool next_always; /* a budget below the next unit costs more than the rung below */
};

static const struct rung ladder[] = {
    {false, true, false, false, false, 0, false}, {true, true, false, false, false, 0, false},
    {true, false, false, false, false, 0, false}, {true, true, true, false, false, 0, false},
    {true, false, true, false, false, 0, false},  {true, false, true, true, false, 0, false},
    {true, false, true, true, true, 0, true},     {true, false, true, true, true, 64, true},
    {true, false, true, true, true, 32, true},    {true, false, true, true, true, 16, true},
    {true, false, true, true, true, 8, true},     {true, false, true, true, true, 4, true},
    {true, false, true, true, true, 2, false},
};

enum { N_RUNGS = sizeof ladder / sizeof ladder[0] };

struct zn_choices zn_choices_open(void)
{
    return (struct zn_choices){.stage = -1,
                               .recompute = -1,
                               .keep_logits = -1,
                               .reduce_every = -1,
                               .parameters = -1,
                               .gradients = -1,
                               .optimizer = -1,
                               .activations = -1,
                               .tile_bytes = SIZE_MAX,
                               .prefetch_bytes = SIZE_MAX,
                               .host_cache = SIZE_MAX};
}

struct zn_choices zn_choices_of_parameters(int tier)
{
    struct zn_choices c = zn_choices_open();
    c.recompute = c.reduce_every = 0;
    c.keep_logits = 1;
    c.optimizer = c.gradients = c.activations = ZN_TIER_DEVICE;
    c.parameters = tier;
    return c;
}

size_t zn_plan_memory(const zn_engine_plan *plan)
{
    return zn_manifest_bytes(&plan->manifest, ZN_TIER_DEVICE, ZN_N_KINDS) +
           zn_manifest_bytes(&plan->manifest, ZN_TIER_HOST, ZN_N_KINDS);
}

static zn_tier tier_of(int chosen, bool on_nvme)
{
    return chosen >= 0 ? (zn_tier)chosen : on_nvme ? ZN_TIER_NVME : ZN_TIER_DEVICE;
}

/* A rank that keeps whole gradients adds to them in memory. */
static bool can_swap_gradients(const struct zn_fit *fit, int stage)
{
    return stage >= 2 || fit->n_ranks == 1;
}

/* Gradients are added up over micro-batches where they were written, and summed over ranks once: they stay in memory. */
static bool sums_once(const struct zn_choices *c, const struct zn_engine_options *o)
{
    return c->reduce_every == 0 && o->accumulate > 1 && !o->vertical;
}

/* The rung at a stage, with what is fixed. Gradients go where the optimizer is, where they can. */
static void apply(const struct zn_fit *fit, const struct rung *rung, int stage, struct zn_engine_options *o)
{
    const struct zn_choices *c = &fit->choices;
    o->stage = stage;
    o->offload.optimizer = tier_of(c->optimizer, rung->optimizer);
    o->offload.parameters = tier_of(c->parameters, rung->parameters && stage == 3);
    zn_tier gradients = o->offload.optimizer;
    if (gradients == ZN_TIER_NVME && (!can_swap_gradients(fit, stage) || sums_once(c, o)))
        gradients = ZN_TIER_DEVICE;
    o->offload.gradients = c->gradients >= 0 ? (zn_tier)c->gradients : gradients;
    o->recompute = c->recompute >= 0 ? c->recompute : rung->recompute || o->vertical;
    o->offload.activations = tier_of(c->activations, rung->activations && o->recompute);
    if (c->activations > 0 && c->recompute < 0)
        o->recompute = true;
    o->keep_logits = c->keep_logits >= 0 ? c->keep_logits : rung->keep_logits;
    o->tile_bytes = c->tile_bytes != SIZE_MAX ? c->tile_bytes : rung->tile * MIB;
    zn_prefetch_set(o, c->prefetch_bytes != SIZE_MAX ? c->prefetch_bytes : 0);
    o->host_cache = c->host_cache != SIZE_MAX ? c->host_cache : 0;
    bool every = stage >= 2 || (o->offload.gradients == ZN_TIER_NVME && o->accumulate > 1);
    o->reduce_every = c->reduce_every >= 0 ? c->reduce_every : every && !o->vertical;
}

/* *need: the least of all that were tried. */
static zn_status try(const struct zn_fit *fit, const struct zn_engine_options *o, zn_engine_plan *plan, size_t *need,
                     bool *fits)
{
    zn_engine_plan_fini(plan);
    ZN_TRY(zn_dry_run(fit->module, o, fit->n_ranks, plan));
    size_t bytes = zn_plan_memory(plan) + fit->overhead;
    *need = bytes < *need ? bytes : *need;
    *fits = bytes <= fit->limit;
    return ZN_OK;
}

/* Of a plan that fits without any: the largest budget that fits too. */
static zn_status choose_prefetch(const struct zn_fit *fit, const struct rung *rung, struct zn_engine_options *o,
                                 zn_engine_plan *plan, size_t *need, bool *fits)
{
    size_t largest = zn_plan_largest_unit(plan), least = zn_prefetch_least(largest, rung->next_always);
    if (fit->choices.prefetch_bytes != SIZE_MAX || largest == 0)
        return ZN_OK;
    for (size_t budget = zn_prefetch_most(largest); budget > 0; budget = zn_prefetch_less(budget, least)) {
        zn_prefetch_set(o, budget);
        ZN_TRY(try(fit, o, plan, need, fits));
        if (*fits)
            return ZN_OK;
    }
    if (rung->next_always)
        return ZN_OK;
    zn_prefetch_set(o, 0);
    return try(fit, o, plan, need, fits);
}

static zn_status try_with_prefetch(const struct zn_fit *fit, const struct rung *rung, struct zn_engine_options *o,
                                   zn_engine_plan *plan, size_t *need, bool *fits)
{
    ZN_TRY(try(fit, o, plan, need, fits));
    return *fits ? choose_prefetch(fit, rung, o, plan, need, fits) : ZN_OK;
}

static zn_status try_rung(const struct zn_fit *fit, const struct rung *rung, int stage, struct zn_engine_options *o,
                          zn_engine_plan *plan, size_t *need, bool *fits)
{
    *fits = false;
    apply(fit, rung, stage, o);
    struct zn_schedules schedules = zn_schedules_to_try(&fit->choices, o, fit->n_ranks);
    for (int i = 0; i < schedules.n && !*fits; i++) {
        o->vertical = schedules.vertical[i];
        apply(fit, rung, stage, o);
        ZN_TRY(try_with_prefetch(fit, rung, o, plan, need, fits));
    }
    return ZN_OK;
}

/* Where the optimizer went to NVMe there may be room for the activations that were to be computed again: keeping them is
 * faster, and worth more than what is fetched ahead beyond the next unit. */
static zn_status keep_activations(const struct zn_fit *fit, const struct rung *rung, struct zn_engine_options *o,
                                  zn_engine_plan *plan)
{
    const struct zn_engine_options recomputing = *o;
    size_t need = SIZE_MAX;
    bool fits;
    if (!rung->optimizer || fit->choices.recompute >= 0 || !o->recompute || o->vertical ||
        o->offload.activations != ZN_TIER_DEVICE)
        return ZN_OK;
    o->recompute = false;
    if (fit->choices.prefetch_bytes == SIZE_MAX)
        zn_prefetch_set(o, 0);
    ZN_TRY(try_with_prefetch(fit, rung, o, plan, &need, &fits));
    if (fits)
        return ZN_OK;
    *o = recomputing;
    return try(fit, o, plan, &need, &fits);
}

/* What cannot be, by name. */
static zn_status check(const struct zn_fit *fit, const struct zn_engine_options *o)
{
    const struct zn_choices *c = &fit->choices;
    if (c->parameters > 0 && c->stage >= 0 && c->stage < 3)
        return zn_fail(ZN_ERR_USAGE, "--offload-param needs --stage 3, not %d", c->stage);
    if (c->gradients == ZN_TIER_NVME && c->stage >= 0 && !can_swap_gradients(fit, c->stage))
        return zn_fail(ZN_ERR_USAGE, "--offload-gradients nvme needs --stage 2 or 3 with several ranks, not %d", c->stage);
    if (c->activations > 0 && c->recompute == 0)
        return zn_fail(ZN_ERR_USAGE, "--offload-activations keeps what lies between segments: it needs --recompute on");
    if (o->vertical && c->recompute == 0)
        return zn_fail(ZN_ERR_USAGE, "--schedule vertical computes segments again: it needs --recompute on");
    if (o->vertical && c->reduce_every == 1)
        return zn_fail(ZN_ERR_USAGE, "--schedule vertical reduces once a step: --reduce every does not go with it");
    if (c->reduce_every == 0 && c->stage >= 2 && !o->vertical && (!c->any_schedule || c->recompute == 0))
        return zn_fail(ZN_ERR_UNSUPPORTED, "--reduce last: stage %d reduces every micro-batch", c->stage);
    if (c->gradients == ZN_TIER_NVME && sums_once(c, o) && (!c->any_schedule || c->recompute == 0))
        return zn_fail(ZN_ERR_UNSUPPORTED, "--reduce last: gradients on NVMe are summed every micro-batch");
    if (o->in_backward && fit->n_ranks > 1 && c->stage == 0)
        return zn_fail(ZN_ERR_USAGE, "--optimizer-in-backward needs --stage 1, 2 or 3 with several ranks");
    return ZN_OK;
}

/* Stages to try, the least first. */
static int first_stage(const struct zn_fit *fit, const struct zn_engine_options *o)
{
    const struct zn_choices *c = &fit->choices;
    if (c->stage >= 0)
        return c->stage;
    if (c->parameters > 0)
        return 3;
    if (fit->n_ranks > 1 && c->gradients == ZN_TIER_NVME)
        return 2;
    return fit->n_ranks > 1 && o->in_backward ? 1 : 0;
}

/* Without training, rungs differ in where the parameters are and in their tiles, stages in whether they are whole. */
static bool differs_without_training(const struct zn_fit *fit, const struct rung *rung, int stage)
{
    bool leaves = fit->choices.parameters < 0 ? rung->parameters : fit->choices.parameters > 0;
    if (rung == ladder ? leaves : !rung->parameters)
        return false;
    return stage == 0 ? !leaves : stage == 3;
}

/* One rank partitions nothing; it has stage 3 when its parameters are elsewhere. */
static bool is_tried(const struct zn_fit *fit, const struct zn_engine_options *o, const struct rung *rung, int stage)
{
    const struct zn_choices *c = &fit->choices;
    if (!o->trains && !differs_without_training(fit, rung, stage))
        return false;
    if (c->stage >= 0)
        return stage == c->stage;
    if (fit->n_ranks > 1 && stage >= 2 && sums_once(c, o) && !c->any_schedule)
        return false;
    if (fit->n_ranks == 1)
        return stage == (rung->parameters || c->parameters > 0 ? 3 : 0);
    return !(rung->optimizer && c->optimizer < 0) || stage >= 2;
}

/* The first rung and stage that fits. */
static zn_status try_ladder(const struct zn_fit *fit, bool next_always, struct zn_engine_options *options,
                            zn_engine_plan *plan, size_t *need, bool *fits)
{
    *fits = false;
    for (int r = 0; r < N_RUNGS && !*fits; r++) {
        struct rung rung = ladder[r];
        rung.next_always = rung.next_always && next_always;
        for (int stage = first_stage(fit, options); stage <= 3 && !*fits; stage++)
            if (is_tried(fit, options, &ladder[r], stage))
                ZN_TRY(try_rung(fit, &rung, stage, options, plan, need, fits));
        if (*fits)
            return keep_activations(fit, &rung, options, plan);
    }
    return ZN_OK;
}

zn_status zn_fit_run(const struct zn_fit *fit, struct zn_engine_options *options, zn_engine_plan *plan)
{
    size_t need = SIZE_MAX;
    bool fits;
    ZN_TRY(check(fit, options));
    ZN_TRY(try_ladder(fit, true, options, plan, &need, &fits));
    if (!fits && need <= fit->limit) /* but for the next unit */
        ZN_TRY(try_ladder(fit, false, options, plan, &need, &fits));
    if (fits)
        return ZN_OK;
    char least[ZN_SIZE_TEXT], limit[ZN_SIZE_TEXT];
    return zn_fail(ZN_ERR_MEMORY, "needs %s at the least, the limit is %s; %s", zn_size_text(need, least),
                   zn_size_text(fit->limit, limit),
                   fit->hint ? fit->hint : "a smaller --micro-batch or --seq-len helps");
}
