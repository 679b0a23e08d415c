/* The search over candidates. A candidate is scored only where there is another to compare it with. */
#include "plan/planner.h"

#include "plan/candidates.h"
#include "plan/spare.h"
#include "plan/vertical.h"

enum { MAX_MICRO_BATCH = 1 << 20 };

/* The best so far. */
struct best {
    struct zn_plan_setup setup;
    struct zn_spare spare;
    struct zn_prediction prediction; /* where it was asked for, else empty */
    bool is_found;
};

struct search {
    const struct zn_choices *choices;
    struct best best;
    size_t least; /* memory of the leanest that was tried */
    struct zn_plan_setup leanest;
    bool has_leanest;
};

static zn_status score(struct best *b)
{
    return b->prediction.step > 0 ? ZN_OK : zn_predict(&b->setup, &b->prediction);
}

static bool is_faster(const struct best *a, const struct best *b, double factor)
{
    return a->prediction.tokens_per_second > factor * b->prediction.tokens_per_second;
}

static void replace(struct best *b, const struct best *by)
{
    zn_prediction_fini(&b->prediction);
    *b = *by;
}

/* One that comes later needs less memory, and must be faster for it by a thousandth. Without training nothing is simulated: it
 * is faster where the next unit comes while one is used. */
static zn_status take_better(struct search *s, struct best *other)
{
    bool is_better = !s->best.is_found;
    zn_status status = ZN_OK;
    if (!is_better && other->setup.engine.trains) {
        status = score(&s->best);
        if (status == ZN_OK)
            status = score(other);
        is_better = status == ZN_OK && is_faster(other, &s->best, 1.001);
    } else if (!is_better) {
        is_better = !s->best.spare.fetches_next && other->spare.fetches_next;
    }
    if (is_better)
        replace(&s->best, other);
    else
        zn_prediction_fini(&other->prediction);
    return status;
}

/* ---- One candidate ---- */

static void note_need(struct search *s, const struct zn_plan_setup *setup, size_t need)
{
    if (s->has_leanest && need > s->least)
        return;
    s->least = need;
    s->leanest = *setup;
    s->has_leanest = true;
}

/* Doubles the micro-batch while that fits, with the next unit fetched ahead, and gives a hundredth more. */
static zn_status grow_batch(const struct search *s, const struct zn_plan_setup *lean, struct best *b)
{
    ZN_TRY(score(b));
    for (int64_t n = 2 * lean->engine.micro_batch; n <= MAX_MICRO_BATCH; n *= 2) {
        struct best larger = {.setup = *lean, .is_found = true};
        larger.setup.engine.micro_batch = n;
        ZN_TRY(zn_spare_use(&larger.setup, s->choices, &larger.spare));
        if (!larger.spare.fits || !larger.spare.fetches_next)
            return ZN_OK;
        ZN_TRY(score(&larger));
        if (!is_faster(&larger, b, 1.01)) {
            zn_prediction_fini(&larger.prediction);
            return ZN_OK;
        }
        replace(b, &larger);
    }
    return ZN_OK;
}

/* Sets the setup to its first schedule that fits. */
static zn_status try_candidate(struct search *s, const struct zn_candidate *x, struct zn_plan_setup setup, struct best *found)
{
    *found = (struct best){0};
    zn_candidate_apply(x, s->choices, setup.engine.vertical && !s->choices->any_schedule, &setup);
    struct zn_schedules schedules = zn_schedules_to_try(s->choices, &setup.engine, zn_plan_replicas(&setup));
    for (int i = 0; i < schedules.n && !found->is_found; i++) {
        zn_candidate_apply(x, s->choices, schedules.vertical[i], &setup);
        struct best b = {.setup = setup, .is_found = true};
        ZN_TRY(zn_spare_use(&b.setup, s->choices, &b.spare));
        note_need(s, &setup, b.spare.need);
        if (!b.spare.fits)
            continue;
        zn_status status = s->choices->any_micro_batch ? grow_batch(s, &setup, &b) : ZN_OK;
        if (status != ZN_OK) {
            zn_prediction_fini(&b.prediction);
            return status;
        }
        *found = b;
    }
    return ZN_OK;
}

/* ---- All of them ---- */

/* Tiles cost time: they are for where nothing else fits, or the next unit cannot come while one is used. */
static bool is_worth_a_try(const struct search *s, const struct zn_candidate *x)
{
    return !s->best.is_found || !x->tiles_by_plan || !s->best.spare.fetches_next;
}

static bool sums_alike(const struct search *s, const struct best *found)
{
    const struct zn_engine_options *a = &s->best.setup.engine, *b = &found->setup.engine;
    return !s->best.is_found || a->accumulate == 1 || a->reduce_every == b->reduce_every;
}

static bool is_all_on_device(const struct zn_offload *off)
{
    return off->optimizer == ZN_TIER_DEVICE && off->gradients == ZN_TIER_DEVICE && off->parameters == ZN_TIER_DEVICE;
}

/* Nothing that comes later can be faster by a hundredth, or it is not asked for. */
static zn_status is_done(struct search *s, const struct zn_plan_setup *setup, bool *is)
{
    struct best *b = &s->best;
    *is = b->is_found && b->spare.fetches_next;
    if (!*is || !setup->engine.trains || (!setup->cluster->device.is_host && !s->choices->compares_all))
        return ZN_OK;
    *is = b->spare.is_complete && !s->choices->compares_all;
    if (*is && !is_all_on_device(&b->setup.engine.offload)) {
        ZN_TRY(score(b));
        *is = b->prediction.compute > 0.99 * b->prediction.step;
    }
    return ZN_OK;
}

static zn_status search_all(struct search *s, const struct zn_plan_setup *setup)
{
    struct zn_candidate list[ZN_MAX_CANDIDATES];
    int n = zn_candidates_list(setup, s->choices, list);
    if (n == 0)
        return zn_fail(ZN_ERR_USAGE, "a device with memory of its own has the optimizer and its gradients, or the host has; "
                                     "--offload-param goes with --offload-optimizer, and that with --stage 2 or 3%s",
                       setup->engine.optimizer && !setup->engine.optimizer->on_device
                           ? "; the host alone updates with this optimizer" : "");
    bool done = false;
    for (int i = 0; i < n && !done; i++) {
        struct best found;
        if (!is_worth_a_try(s, &list[i]))
            continue;
        ZN_TRY(try_candidate(s, &list[i], *setup, &found));
        if (found.is_found && sums_alike(s, &found))
            ZN_TRY(take_better(s, &found));
        else
            zn_prediction_fini(&found.prediction);
        ZN_TRY(is_done(s, setup, &done));
    }
    return ZN_OK;
}

static zn_status check(const struct zn_plan_setup *s, const struct zn_choices *c)
{
    const int tiers[] = {c->optimizer, c->parameters, c->gradients, c->activations};
    for (int i = 0; i < 4; i++)
        if (tiers[i] == ZN_TIER_NVME && s->cluster->nvme_memory == 0)
            return zn_fail(ZN_ERR_USAGE, "--offload-… nvme: %s has no drive", s->cluster->name);
    ZN_TRY(zn_plan_check(s));
    return zn_choices_check(c, &s->engine, zn_plan_replicas(s));
}

zn_status zn_plan_choose(struct zn_plan_setup *setup, const struct zn_choices *choices, struct zn_prediction *prediction)
{
    struct search s = {.choices = choices};
    ZN_TRY(check(setup, choices));
    if (choices->any_micro_batch)
        setup->engine.micro_batch = 1;
    zn_status status = search_all(&s, setup);
    if (status != ZN_OK) {
        zn_prediction_fini(&s.best.prediction);
        return status;
    }
    *setup = s.best.is_found ? s.best.setup : s.leanest;
    *prediction = s.best.prediction;
    return prediction->step > 0 ? ZN_OK : zn_predict_memory(setup, prediction);
}

/* The smallest tiles, and the whole on the device: what lies between them needs more than one or the other. */
static bool is_lean(const struct zn_choices *c, const struct zn_candidate *x)
{
    return c->tile_bytes != SIZE_MAX || x->optimizer == ZN_TIER_DEVICE || x->tile_bytes == ZN_LEAST_TILE;
}

bool zn_plan_make_lean(struct zn_plan_setup *setup, const struct zn_choices *choices, int way)
{
    struct zn_candidate list[ZN_MAX_CANDIDATES];
    int at = zn_candidates_list(setup, choices, list), n_lean = 0;
    while (n_lean <= way && --at >= 0)
        n_lean += is_lean(choices, &list[at]);
    if (at < 0)
        return false;
    zn_candidate_apply(&list[at], choices, setup->engine.vertical && !choices->any_schedule, setup);
    struct zn_schedules schedules = zn_schedules_to_try(choices, &setup->engine, zn_plan_replicas(setup));
    zn_candidate_apply(&list[at], choices, schedules.vertical[schedules.n - 1], setup); /* the last needs the least */
    return true;
}
