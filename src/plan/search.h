/* Searches over configurations by predicting them: the one a run would take, the fastest that fits, the
 * largest model that fits. */
#ifndef ZN_PLAN_SEARCH_H
#define ZN_PLAN_SEARCH_H

#include "plan/fit.h"
#include "plan/predict.h"
#include "plan/shape.h"

/* What is fixed, and what a search may choose. */
struct zn_plan_freedom {
    struct zn_choices choices;
    bool micro_batch; /* may be chosen, by a run on processors not: there it is as training has it */
};

/* What contradicts itself or the cluster in the choices, by the name of the flag. */
zn_status zn_plan_check_choices(const struct zn_plan_setup *setup, const struct zn_plan_freedom *freedom);

/* The first configuration that fits, from the fastest to the leanest: on processors the one that `zinc train` takes;
 * on other devices states go to the host before they go to NVMe, and a micro-batch that is open grows while that gives a
 * hundredth more. When none fits, the leanest, which then does not fit. The caller ends the prediction. */
zn_status zn_plan_choose(struct zn_plan_setup *setup, const struct zn_plan_freedom *freedom,
                         struct zn_prediction *prediction);

/* The fastest configuration that fits, in tokens a second; one that is leaner or has a larger batch must give a
 * hundredth more. When none fits, the leanest, which then does not. */
zn_status zn_plan_fit(struct zn_plan_setup *setup, const struct zn_plan_freedom *freedom,
                      struct zn_prediction *prediction);

/* Makes the setup as lean as its ranks and the choices allow, in one of some ways; false: there are no more. */
bool zn_plan_make_lean(struct zn_plan_setup *setup, const struct zn_plan_freedom *freedom, int way);

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
