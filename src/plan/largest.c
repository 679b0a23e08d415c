/* The largest model of a family that fits. */
#include <math.h>

#include "plan/planner.h"

static const double SMALLEST = 20e6, GROWTH = 1.01;

/* The k-th shape of the family, from 0, that the ranks can share. */
static zn_status family_shape(const struct zn_family *f, int n_slices, int k, struct zn_shape *shape)
{
    *shape = (struct zn_shape){k + 1, f->hidden, f->heads, f->inner, f->vocabulary};
    if (f->hidden > 0)
        return ZN_OK;
    ZN_TRY(zn_shape_near(SMALLEST * pow(GROWTH, k), f->vocabulary, shape));
    return zn_shape_share(shape, n_slices);
}

/* Makes a model of the family for the setup. The caller destroys it. */
static zn_status make_model(const struct zn_family *f, const struct zn_shape *shape, struct zn_plan_setup *setup, zn_model **model)
{
    zn_model *made;
    ZN_TRY(zn_shape_model_sliced(shape, setup->engine.seq_len, setup->engine.n_slices, &made));
    zn_status status = f->adapt ? f->adapt(f->self, made, &setup->engine) : ZN_OK;
    if (status != ZN_OK) {
        zn_model_destroy(made);
        return status;
    }
    setup->model = *model = made;
    return ZN_OK;
}

/* How many shapes there are: states stay below 2^63 bytes. */
static int family_size(const struct zn_family *f)
{
    if (f->hidden == 0)
        return (int)(log(1e17 / SMALLEST) / log(GROWTH));
    return ZN_SHAPE_LAYERS;
}

/* Whether the model fits in any of the leanest ways. */
static zn_status leanest_fits(struct zn_plan_setup setup, const struct zn_choices *c, bool *fits)
{
    *fits = false;
    for (int way = 0; !*fits && zn_plan_make_lean(&setup, c, way); way++)
        ZN_TRY(zn_plan_fits(&setup, fits));
    return ZN_OK;
}

static zn_status try_shape(const struct zn_plan_setup *setup, const struct zn_choices *choices,
                           const struct zn_family *family, int k, bool *fits)
{
    struct zn_plan_setup trial = *setup;
    struct zn_shape shape;
    zn_model *model;
    ZN_TRY(family_shape(family, setup->engine.n_slices, k, &shape));
    ZN_TRY(make_model(family, &shape, &trial, &model));
    zn_status status = leanest_fits(trial, choices, fits);
    zn_model_destroy(model);
    return status;
}

/* The last of the family that fits, or -1: in growing strides up, then by halves. */
static zn_status find_last(const struct zn_plan_setup *setup, const struct zn_choices *choices,
                           const struct zn_family *family, int *last)
{
    int low = -1, high = family_size(family), stride = 1;
    bool fits = true;
    while (fits && low + stride < high) {
        ZN_TRY(try_shape(setup, choices, family, low + stride, &fits));
        if (fits) {
            low += stride;
            stride *= 2;
        } else {
            high = low + stride;
        }
    }
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        ZN_TRY(try_shape(setup, choices, family, middle, &fits));
        *(fits ? &low : &high) = middle;
    }
    *last = low;
    return ZN_OK;
}

zn_status zn_plan_largest(struct zn_plan_setup *setup, const struct zn_choices *choices,
                          const struct zn_family *family, struct zn_shape *shape, zn_model **model,
                          struct zn_prediction *prediction)
{
    int last;
    zn_model *m;
    ZN_TRY(zn_choices_check(choices, &setup->engine, zn_plan_replicas(setup)));
    ZN_TRY(find_last(setup, choices, family, &last));
    if (last < 0)
        return zn_fail(ZN_ERR_MEMORY, "--largest: not even the smallest model fits on %d ranks of %s", setup->n_ranks,
                       setup->cluster->name);
    ZN_TRY(family_shape(family, setup->engine.n_slices, last, shape));
    ZN_TRY(make_model(family, shape, setup, &m));
    zn_status status = zn_plan_choose(setup, choices, prediction);
    if (status != ZN_OK) {
        setup->model = NULL;
        zn_model_destroy(m);
        return status;
    }
    *model = m;
    return ZN_OK;
}
