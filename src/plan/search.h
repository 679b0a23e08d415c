/* Searches over configurations by predicting them: the one a run would take, the fastest that fits, the
 * largest model that fits. */
#ifndef ZN_PLAN_SEARCH_H
#define ZN_PLAN_SEARCH_H

#include "plan/predict.h"
#include "plan/shape.h"

/* What a search may choose; everything else stays as the setup has it. */
struct zn_plan_freedom {
    bool stage, recompute, micro_batch;
    int reduce_every; /* -1: by the stage, as training does */
};

/* The configuration that `zinc train` would take: from the fastest to the leanest, the first that fits. When none
 * does, the leanest, which then does not fit. The micro-batch stays. The caller ends the prediction. */
zn_status zn_plan_choose(struct zn_plan_setup *setup, const struct zn_plan_freedom *freedom,
                         struct zn_prediction *prediction);

/* The fastest configuration that fits, in tokens a second; a larger batch must give a hundredth more. When none
 * fits, the leanest, which then does not. */
zn_status zn_plan_fit(struct zn_plan_setup *setup, const struct zn_plan_freedom *freedom,
                      struct zn_prediction *prediction);

/* Shapes that grow: with `hidden` 0 near the papers' (zn_shape_near), else more and more layers of these sizes. */
struct zn_family {
    int64_t hidden, heads, inner, vocabulary;
};

/* The largest of the family that fits at its leanest, then the configuration that training would take for it.
 * The setup's model is not read, and set; the caller destroys it. Fails when not even the smallest fits. */
zn_status zn_plan_largest(struct zn_plan_setup *setup, const struct zn_plan_freedom *freedom,
                          const struct zn_family *family, struct zn_shape *shape, zn_model **model,
                          struct zn_prediction *prediction);

#endif
