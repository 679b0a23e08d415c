/* Searches by repeated prediction. Each trial is a dry run of the engine. */
#include "plan/search.h"

#include <math.h>

/* From the fastest to the leanest, in the order training tries them. */
static const struct {
    bool recompute, keep_logits;
} savings[] = {{false, true}, {true, true}, {true, false}};

enum { N_SAVINGS = sizeof savings / sizeof savings[0], MAX_MICRO_BATCH = 1 << 20 };

static void apply(struct zn_plan_setup *s, const struct zn_plan_freedom *f, int saving, int stage)
{
    if (f->recompute)
        s->engine.recompute = savings[saving].recompute;
    s->engine.keep_logits = savings[saving].keep_logits;
    s->engine.stage = stage;
    s->engine.reduce_every = f->reduce_every >= 0 ? f->reduce_every : stage >= 2;
}

/* With recompute given, the first two are the same. */
static bool is_repeat(const struct zn_plan_freedom *f, int saving)
{
    return saving == 1 && !f->recompute;
}

static int first_stage(const struct zn_plan_setup *s, const struct zn_plan_freedom *f)
{
    return f->stage ? 0 : s->engine.stage;
}

/* One rank holds everything at every stage. */
static int last_stage(const struct zn_plan_setup *s, const struct zn_plan_freedom *f)
{
    return !f->stage ? s->engine.stage : s->n_ranks > 1 ? 3 : 0;
}

/* Puts the new prediction in the place of the old. */
static void replace(struct zn_prediction *old, const struct zn_prediction *new)
{
    zn_prediction_fini(old);
    *old = *new;
}

zn_status zn_plan_choose(struct zn_plan_setup *setup, const struct zn_plan_freedom *f,
                         struct zn_prediction *prediction)
{
    struct zn_prediction p = {0}, next;
    for (int i = 0; i < N_SAVINGS; i++) {
        if (is_repeat(f, i))
            continue;
        for (int stage = first_stage(setup, f); stage <= last_stage(setup, f); stage++) {
            apply(setup, f, i, stage);
            zn_status status = zn_predict(setup, &next);
            if (status != ZN_OK) {
                zn_prediction_fini(&p);
                return status;
            }
            replace(&p, &next);
            if (p.fits)
                goto found;
        }
    }
found:
    *prediction = p;
    return ZN_OK;
}

/* ---- The fastest ---- */

struct best {
    struct zn_plan_setup setup;
    struct zn_prediction prediction;
    bool found;
};

/* Doubles the micro-batch while that fits and gives more. */
static zn_status grow_batch(struct zn_plan_setup setup, bool may_grow, struct best *best)
{
    double before = 0;
    for (;;) {
        struct zn_prediction p;
        ZN_TRY(zn_predict(&setup, &p));
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
    }
}

zn_status zn_plan_fit(struct zn_plan_setup *setup, const struct zn_plan_freedom *f, struct zn_prediction *prediction)
{
    struct best best = {0};
    zn_status status = ZN_OK;
    if (f->micro_batch)
        setup->engine.micro_batch = 1;
    for (int i = 0; i < N_SAVINGS && status == ZN_OK; i++) {
        if (is_repeat(f, i))
            continue;
        for (int stage = first_stage(setup, f); stage <= last_stage(setup, f) && status == ZN_OK; stage++) {
            struct zn_plan_setup trial = *setup;
            apply(&trial, f, i, stage);
            status = grow_batch(trial, f->micro_batch, &best);
        }
    }
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

/* ---- The largest ---- */

static const double SMALLEST = 20e6, GROWTH = 1.01;

/* The k-th shape of the family, from 0. */
static zn_status family_shape(const struct zn_family *f, int k, struct zn_shape *shape)
{
    if (f->hidden == 0)
        return zn_shape_near(SMALLEST * pow(GROWTH, k), f->vocabulary, shape);
    *shape = (struct zn_shape){k + 1, f->hidden, f->heads, f->inner, f->vocabulary};
    return ZN_OK;
}

/* How many shapes there are: states stay below 2^63 bytes. */
static int family_size(const struct zn_family *f)
{
    if (f->hidden == 0)
        return (int)(log(1e17 / SMALLEST) / log(GROWTH));
    return ZN_SHAPE_LAYERS;
}

/* Whether the leanest configuration of any stage that may be chosen fits. */
static zn_status leanest_fits(struct zn_plan_setup setup, const struct zn_plan_freedom *f, bool *fits)
{
    *fits = false;
    ZN_TRY(zn_plan_check(&setup));
    for (int stage = last_stage(&setup, f); stage >= first_stage(&setup, f) && !*fits; stage--) {
        struct zn_prediction p;
        apply(&setup, f, N_SAVINGS - 1, stage);
        ZN_TRY(zn_predict(&setup, &p));
        *fits = p.fits;
        zn_prediction_fini(&p);
    }
    return ZN_OK;
}

static zn_status try_shape(const struct zn_plan_setup *setup, const struct zn_plan_freedom *freedom,
                           const struct zn_family *family, int k, bool *fits)
{
    struct zn_plan_setup trial = *setup;
    struct zn_shape shape;
    zn_model *model;
    ZN_TRY(family_shape(family, k, &shape));
    ZN_TRY(zn_shape_model(&shape, setup->engine.time, &model));
    trial.model = model;
    zn_status status = leanest_fits(trial, freedom, fits);
    zn_model_destroy(model);
    return status;
}

/* The last of the family that fits, or -1: in growing strides up, then by halves. */
static zn_status find_last(const struct zn_plan_setup *setup, const struct zn_plan_freedom *freedom,
                           const struct zn_family *family, int *last)
{
    int low = -1, high = family_size(family), stride = 1;
    bool fits = true;
    while (fits && low + stride < high) {
        ZN_TRY(try_shape(setup, freedom, family, low + stride, &fits));
        if (fits) {
            low += stride;
            stride *= 2;
        } else {
            high = low + stride;
        }
    }
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        ZN_TRY(try_shape(setup, freedom, family, middle, &fits));
        *(fits ? &low : &high) = middle;
    }
    *last = low;
    return ZN_OK;
}

zn_status zn_plan_largest(struct zn_plan_setup *setup, const struct zn_plan_freedom *freedom,
                          const struct zn_family *family, struct zn_shape *shape, zn_model **model,
                          struct zn_prediction *prediction)
{
    int last;
    zn_model *m;
    ZN_TRY(find_last(setup, freedom, family, &last));
    if (last < 0)
        return zn_fail(ZN_ERR_MEMORY, "--largest: not even the smallest model fits on %d ranks of %s", setup->n_ranks,
                       setup->cluster->name);
    ZN_TRY(family_shape(family, last, shape));
    ZN_TRY(zn_shape_model(shape, setup->engine.time, &m));
    setup->model = m;
    zn_status status = zn_plan_choose(setup, freedom, prediction);
    if (status != ZN_OK) {
        setup->model = NULL;
        zn_model_destroy(m);
        return status;
    }
    *model = m;
    return ZN_OK;
}
