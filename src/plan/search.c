/* The ladder of configurations for any cluster, and two searches along it. Each trial is a dry run of the engine. */
#include "plan/search.h"

#include <stdint.h>
#include <string.h>

#include "plan/prefetch.h"
#include "plan/vertical.h"

enum { MAX_MICRO_BATCH = 1 << 20 };

static const size_t MIB = 1024 * 1024;

#define DEVICE ZN_TIER_DEVICE
#define HOST ZN_TIER_HOST
#define NVME ZN_TIER_NVME

/* Each rung needs less of the device than the one before and costs more time. It is tried with nothing fetched ahead; what
 * memory it then leaves goes to the prefetch. */
struct rung {
    bool recompute, keep_logits;
    zn_tier optimizer, activations, parameters;
    size_t tile;      /* MiB; 0: none */
    bool next_always; /* a budget below the next unit costs more than the rung below */
};

static const struct rung ladder[] = {
    {false, true, DEVICE, DEVICE, DEVICE, 0, false}, {true, true, DEVICE, DEVICE, DEVICE, 0, false},
    {true, false, DEVICE, DEVICE, DEVICE, 0, false}, {true, true, HOST, DEVICE, DEVICE, 0, false},
    {true, false, HOST, HOST, DEVICE, 0, false},     {true, false, HOST, HOST, HOST, 0, false},
    {true, true, NVME, DEVICE, DEVICE, 0, false},    {true, false, NVME, HOST, DEVICE, 0, false},
    {true, false, NVME, HOST, HOST, 0, false},       {true, false, NVME, HOST, NVME, 0, false},
    {true, false, NVME, NVME, NVME, 0, true},        {true, false, HOST, HOST, HOST, 64, false},
    {true, false, NVME, HOST, NVME, 64, true},       {true, false, HOST, HOST, HOST, 8, false},
    {true, false, NVME, HOST, NVME, 8, false},       {true, false, NVME, NVME, NVME, 8, true},
    {true, false, HOST, HOST, HOST, 2, false},       {true, false, NVME, HOST, NVME, 2, false},
    {true, false, NVME, NVME, NVME, 2, false},
};

enum { N_RUNGS = sizeof ladder / sizeof ladder[0], FIRST_LEAN = N_RUNGS - 3 };

/* On a processor the host's memory is the device's, and nothing is gained there. */
static bool is_there(const struct zn_plan_setup *s, zn_tier tier)
{
    if (tier == HOST)
        return !s->cluster->device.is_host;
    return tier != NVME || s->cluster->nvme_memory > 0;
}

static bool can_swap_gradients(const struct zn_plan_setup *s, int stage)
{
    return stage >= 2 || s->n_ranks == 1;
}

static zn_tier tier_of(int chosen, zn_tier rung)
{
    return chosen >= 0 ? (zn_tier)chosen : rung;
}

/* On a device with memory of its own an update finds all it needs on one side of the link. */
static bool has_path(const struct zn_plan_setup *s, const struct zn_choices *c, const struct rung *r, int stage)
{
    bool away = tier_of(c->optimizer, r->optimizer) != DEVICE;
    if (s->cluster->device.is_host)
        return true;
    if ((c->gradients >= 0 && (c->gradients != DEVICE) != away) || (tier_of(c->parameters, r->parameters) != DEVICE && !away))
        return false;
    return !away || stage >= 2 || s->n_ranks == 1;
}

/* Whether the rung differs from others by what may be chosen, and has a place for it. */
static bool is_tried(const struct zn_plan_setup *s, const struct zn_choices *c, const struct rung *r, int stage)
{
    bool needs_three = tier_of(c->parameters, r->parameters) != DEVICE;
    if ((c->optimizer < 0 && !is_there(s, r->optimizer)) || (c->activations < 0 && !is_there(s, r->activations)) ||
        (c->parameters < 0 && !is_there(s, r->parameters)) || !has_path(s, c, r, stage))
        return false;
    if (c->stage >= 0)
        return stage == c->stage && (!needs_three || stage == 3);
    if (needs_three)
        return stage == 3;
    if (s->n_ranks == 1)
        return stage == 0;
    if (c->gradients == NVME && stage < 2)
        return false;
    if (s->engine.in_backward && stage == 0)
        return false;
    return r->optimizer == DEVICE || c->optimizer >= 0 || stage >= 2;
}

/* The rung at a stage, with what is fixed. Gradients go where the optimizer is, where they can. */
static void apply(struct zn_plan_setup *s, const struct zn_choices *c, const struct rung *r, int stage)
{
    struct zn_engine_options *o = &s->engine;
    o->stage = stage;
    o->offload.optimizer = tier_of(c->optimizer, r->optimizer);
    o->offload.parameters = tier_of(c->parameters, r->parameters);
    zn_tier gradients = o->offload.optimizer;
    if (gradients == NVME && !can_swap_gradients(s, stage))
        gradients = DEVICE;
    o->offload.gradients = tier_of(c->gradients, gradients);
    o->recompute = c->recompute >= 0 ? c->recompute : r->recompute || o->vertical || c->activations > 0;
    o->offload.activations = tier_of(c->activations, o->recompute ? r->activations : DEVICE);
    o->keep_logits = c->keep_logits >= 0 ? c->keep_logits : r->keep_logits;
    o->tile_bytes = c->tile_bytes != SIZE_MAX ? c->tile_bytes : r->tile * MIB;
    zn_prefetch_set(o, c->prefetch_bytes != SIZE_MAX ? c->prefetch_bytes : 0);
    o->host_cache = c->host_cache != SIZE_MAX ? c->host_cache : 0;
    bool leave = o->offload.gradients == NVME || (o->offload.gradients != DEVICE && !s->cluster->device.is_host);
    o->reduce_every = c->reduce_every >= 0 ? c->reduce_every : (stage >= 2 || (leave && o->accumulate > 1)) && !o->vertical;
}

/* The rung with the schedule that is tried as the i-th; false: there are no more. */
static bool apply_schedule(struct zn_plan_setup *s, const struct zn_choices *c, const struct rung *r, int stage, int i)
{
    apply(s, c, r, stage);
    struct zn_schedules schedules = zn_schedules_to_try(c, &s->engine, s->n_ranks);
    if (i >= schedules.n)
        return false;
    s->engine.vertical = schedules.vertical[i];
    apply(s, c, r, stage);
    return true;
}

/* Puts the new prediction in the place of the old. */
static void replace(struct zn_prediction *old, const struct zn_prediction *new)
{
    zn_prediction_fini(old);
    *old = *new;
}

zn_status zn_plan_check_choices(const struct zn_plan_setup *s, const struct zn_plan_freedom *f)
{
    const struct zn_choices *c = &f->choices;
    const struct zn_engine_options *o = &s->engine;
    const int tiers[] = {c->optimizer, c->parameters, c->gradients, c->activations};
    for (int i = 0; i < 4; i++)
        if (tiers[i] == NVME && s->cluster->nvme_memory == 0)
            return zn_fail(ZN_ERR_USAGE, "--offload-… nvme: %s has no drive", s->cluster->name);
    if (c->parameters > 0 && c->stage >= 0 && c->stage < 3)
        return zn_fail(ZN_ERR_USAGE, "--offload-param needs --stage 3, not %d", c->stage);
    if (c->gradients == NVME && c->stage >= 0 && !can_swap_gradients(s, c->stage))
        return zn_fail(ZN_ERR_USAGE, "--offload-gradients nvme needs --stage 2 or 3 with several ranks, not %d", c->stage);
    if (c->activations > 0 && c->recompute == 0)
        return zn_fail(ZN_ERR_USAGE, "--offload-activations keeps what lies between segments: it needs --recompute on");
    if (o->vertical && c->recompute == 0)
        return zn_fail(ZN_ERR_USAGE, "--schedule vertical computes segments again: it needs --recompute on");
    if (o->vertical && c->reduce_every == 1)
        return zn_fail(ZN_ERR_USAGE, "--schedule vertical reduces once a step: --reduce every does not go with it");
    if (c->reduce_every == 0 && c->stage >= 2 && !o->vertical && (!c->any_schedule || c->recompute == 0))
        return zn_fail(ZN_ERR_UNSUPPORTED, "--reduce last: stage %d reduces every micro-batch", c->stage);
    if (o->in_backward && s->n_ranks > 1 && c->stage == 0)
        return zn_fail(ZN_ERR_USAGE, "--optimizer-in-backward needs --stage 1, 2 or 3 with several ranks");
    return ZN_OK;
}

/* What was tried last: rungs that differ only in what is fixed are tried once. */
struct trial {
    struct zn_engine_options engine;
    bool next_always;
};

static bool is_new_trial(struct trial *last, const struct zn_plan_setup *s, const struct rung *r)
{
    if (memcmp(&s->engine, &last->engine, sizeof last->engine) == 0 && (r->next_always || !last->next_always))
        return false;
    last->engine = s->engine;
    last->next_always = r->next_always;
    return true;
}

/* Of a setup that fits without any: the largest budget that fits too. */
static zn_status choose_prefetch(struct zn_plan_setup *s, const struct rung *r, size_t largest_unit, bool *fits)
{
    size_t least = zn_prefetch_least(largest_unit, r->next_always);
    for (size_t budget = zn_prefetch_most(largest_unit); budget > 0; budget = zn_prefetch_less(budget, least)) {
        zn_prefetch_set(&s->engine, budget);
        ZN_TRY(zn_plan_fits(s, fits));
        if (*fits)
            return ZN_OK;
    }
    zn_prefetch_set(&s->engine, 0);
    *fits = !r->next_always || largest_unit == 0;
    return ZN_OK;
}

/* Predicts the setup with the prefetch that memory leaves, where that is open. */
static zn_status predict_rung(struct zn_plan_setup *s, const struct zn_choices *c, const struct rung *r,
                              struct zn_prediction *prediction)
{
    if (c->prefetch_bytes == SIZE_MAX && s->engine.stage == 3) {
        struct zn_prediction p;
        zn_prefetch_set(&s->engine, 0);
        ZN_TRY(zn_predict_memory(s, &p));
        bool fits = p.fits;
        size_t largest_unit = p.largest_unit;
        zn_prediction_fini(&p);
        if (fits)
            ZN_TRY(choose_prefetch(s, r, largest_unit, &fits));
        if (!fits) {
            *prediction = (struct zn_prediction){.bound = ZN_BOUND_MEMORY};
            return ZN_OK;
        }
    }
    return zn_predict_if_fits(s, prediction);
}

/* ---- The one a run takes ---- */

/* On processors: by the ladder that training has, to its end when nothing fits. */
static zn_status choose_as_training(struct zn_plan_setup *setup, const struct zn_plan_freedom *f)
{
    zn_engine_plan plan = {0};
    size_t limit[ZN_N_TIERS];
    zn_plan_limits(setup, limit);
    struct zn_fit fit = {.module = setup->model->module,
                         .n_ranks = setup->n_ranks,
                         .limit = limit[DEVICE],
                         .overhead = setup->cluster->device.reserved,
                         .choices = f->choices};
    zn_status status = zn_fit_run(&fit, &setup->engine, &plan);
    zn_engine_plan_fini(&plan);
    return status == ZN_ERR_MEMORY ? ZN_OK : status;
}

/* The first schedule of a rung that fits. */
static zn_status choose_schedule(struct zn_plan_setup *setup, const struct zn_plan_freedom *f, const struct rung *rung,
                                 int stage, struct trial *last, bool *found, struct zn_prediction *prediction)
{
    for (int i = 0; apply_schedule(setup, &f->choices, rung, stage, i); i++) {
        struct zn_prediction p;
        if (!is_new_trial(last, setup, rung))
            continue;
        ZN_TRY(predict_rung(setup, &f->choices, rung, &p));
        if (p.fits) {
            *found = true;
            *prediction = p;
            return ZN_OK;
        }
        zn_prediction_fini(&p);
    }
    return ZN_OK;
}

struct best {
    struct zn_plan_setup setup;
    struct zn_prediction prediction;
    bool found;
};

/* Doubles the micro-batch while that fits, with the next unit fetched ahead, and gives more. */
static zn_status grow_batch(struct zn_plan_setup setup, const struct zn_plan_freedom *f, const struct rung *rung, bool may_grow,
                            struct best *best)
{
    struct rung at = *rung;
    double before = 0;
    for (;;) {
        struct zn_prediction p;
        ZN_TRY(predict_rung(&setup, &f->choices, &at, &p));
        bool goes_on = p.fits && p.tokens_per_second > 1.01 * before;
        before = p.tokens_per_second;
        if (p.fits && (!best->found || p.tokens_per_second > 1.01 * best->prediction.tokens_per_second)) {
            best->setup = setup;
            best->found = true;
            replace(&best->prediction, &p);
        } else {
            zn_prediction_fini(&p);
        }
        if (!goes_on || !may_grow || setup.engine.micro_batch > MAX_MICRO_BATCH / 2)
            return ZN_OK;
        setup.engine.micro_batch *= 2;
        at.next_always = true;
    }
}

/* Where states went to the host or to NVMe there may be room for the activations that were to be computed again. */
static bool keep_activations(struct zn_plan_setup *s, const struct zn_choices *c)
{
    struct zn_engine_options *o = &s->engine;
    if (c->recompute >= 0 || !o->recompute || o->vertical || o->offload.activations != DEVICE || o->offload.optimizer == DEVICE)
        return false;
    o->recompute = false;
    return true;
}

/* Of a configuration that fits: with the activations and the micro-batch that its memory has room for, where these are open. */
static zn_status use_memory(struct zn_plan_setup *setup, const struct zn_plan_freedom *f, const struct rung *rung,
                            struct zn_prediction *prediction)
{
    struct best best = {.setup = *setup, .prediction = *prediction, .found = true};
    struct zn_plan_setup kept = *setup;
    zn_status status = keep_activations(&kept, &f->choices) ? grow_batch(kept, f, rung, false, &best) : ZN_OK;
    struct zn_plan_setup doubled = best.setup;
    doubled.engine.micro_batch *= 2;
    if (status == ZN_OK && f->micro_batch)
        status = grow_batch(doubled, f, rung, true, &best);
    *setup = best.setup;
    *prediction = best.prediction;
    return status;
}

/* *rung: the one that fits. */
static zn_status choose(struct zn_plan_setup *setup, const struct zn_plan_freedom *f, const struct rung **rung,
                        struct zn_prediction *prediction)
{
    struct trial last = {0};
    bool tried = false, found = false;
    for (int r = 0; r < N_RUNGS; r++) {
        for (int stage = 0; stage <= 3 && !found; stage++) {
            if (!is_tried(setup, &f->choices, &ladder[r], stage))
                continue;
            tried = true;
            ZN_TRY(choose_schedule(setup, f, &ladder[r], stage, &last, &found, prediction));
        }
        if (found) {
            *rung = &ladder[r];
            return ZN_OK;
        }
    }
    if (!tried)
        return zn_fail(ZN_ERR_USAGE, "a device with memory of its own has the optimizer and its gradients, or the host has; "
                                     "--offload-param goes with --offload-optimizer, and that with --stage 2 or 3");
    return ZN_OK;
}

zn_status zn_plan_choose(struct zn_plan_setup *setup, const struct zn_plan_freedom *f,
                         struct zn_prediction *prediction)
{
    const struct rung *rung = NULL;
    ZN_TRY(zn_plan_check(setup));
    ZN_TRY(zn_plan_check_choices(setup, f));
    if (setup->cluster->device.is_host)
        ZN_TRY(choose_as_training(setup, f));
    else
        ZN_TRY(choose(setup, f, &rung, prediction));
    if (!rung)
        return zn_predict(setup, prediction);
    zn_status status = use_memory(setup, f, rung, prediction);
    if (status != ZN_OK)
        zn_prediction_fini(prediction);
    return status;
}

bool zn_plan_make_lean(struct zn_plan_setup *setup, const struct zn_plan_freedom *f, int way)
{
    int tried = 0;
    for (int r = N_RUNGS - 1; r >= 0; r--) {
        if (r == FIRST_LEAN - 1) /* then the leanest of those without offload */
            r = 2;
        for (int stage = 3; stage >= 0; stage--) {
            if (!is_tried(setup, &f->choices, &ladder[r], stage) || tried++ < way)
                continue;
            for (int i = 0; apply_schedule(setup, &f->choices, &ladder[r], stage, i); i++)
                ; /* the last needs the least */
            return true;
        }
        if (r == 2)
            break;
    }
    return false;
}

/* ---- The fastest ---- */

/* Tiles are tried only where nothing fits without. */
static zn_status try_rungs(const struct zn_plan_setup *setup, const struct zn_plan_freedom *f, struct best *best)
{
    struct trial last = {0};
    for (int r = 0; r < N_RUNGS && !(best->found && ladder[r].tile > 0); r++) {
        for (int stage = 0; stage <= 3; stage++) {
            struct zn_plan_setup trial = *setup;
            if (!is_tried(setup, &f->choices, &ladder[r], stage))
                continue;
            for (int i = 0; apply_schedule(&trial, &f->choices, &ladder[r], stage, i); i++) {
                if (!is_new_trial(&last, &trial, &ladder[r]))
                    continue;
                ZN_TRY(grow_batch(trial, f, &ladder[r], f->micro_batch, best));
                struct zn_plan_setup kept = trial;
                if (keep_activations(&kept, &f->choices))
                    ZN_TRY(grow_batch(kept, f, &ladder[r], f->micro_batch, best));
            }
        }
    }
    return ZN_OK;
}

zn_status zn_plan_fit(struct zn_plan_setup *setup, const struct zn_plan_freedom *f, struct zn_prediction *prediction)
{
    struct best best = {0};
    ZN_TRY(zn_plan_check(setup));
    ZN_TRY(zn_plan_check_choices(setup, f));
    if (f->micro_batch)
        setup->engine.micro_batch = 1;
    zn_status status = try_rungs(setup, f, &best);
    if (status == ZN_OK && !best.found)
        return zn_plan_choose(setup, f, prediction);
    if (status != ZN_OK) {
        zn_prediction_fini(&best.prediction);
        return status;
    }
    *setup = best.setup;
    *prediction = best.prediction;
    return ZN_OK;
}
