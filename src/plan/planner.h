/* The planner: of all that a run may be, the fastest that fits. `zinc train`, `eval`, `generate`, `plan`, `plan --fit` and
 * `plan --largest` all ask it. */
#ifndef ZN_PLAN_PLANNER_H
#define ZN_PLAN_PLANNER_H

#include "plan/predict.h"
#include "plan/shape.h"

/* Sets what is open in the setup's engine and gives its prediction: memory, and where the planner had to compare, time (else
 * zn_predict_time adds it). Candidates (plan/candidates.h) are tried from the fastest to the leanest, each
 * with the memory it leaves put to use (plan/spare.h). On processors all that fit are compared by the seconds of their
 * simulated step; on devices with memory of their own the first that fits is taken unless choices say otherwise, and a
 * micro-batch that is open grows while that gives a hundredth more. Where nothing fits, the leanest, which then does not.
 * With several micro-batches the order of gradient sums is that of the first that fits, whatever is faster: it decides bits.
 * Not collective. The caller ends the prediction. */
zn_status zn_plan_choose(struct zn_plan_setup *setup, const struct zn_choices *choices, struct zn_prediction *prediction);

/* Makes the setup as lean as its ranks and the choices allow, in one of some ways; false: there are no more. */
bool zn_plan_make_lean(struct zn_plan_setup *setup, const struct zn_choices *choices, int way);

/* Shapes that grow: with `hidden` 0 near the papers' (zn_shape_near), else more and more layers of these sizes. */
struct zn_family {
    int64_t hidden, heads, inner, vocabulary;
    zn_status (*adapt)(void *self, zn_model *model, struct zn_engine_options *engine); /* adds adapters to each; NULL: there are none */
    void *self;
};

/* The largest of the family that fits at its leanest, then the configuration that the planner takes for it.
 * The setup's model is not read, and set; the caller destroys it. Fails when not even the smallest fits. */
zn_status zn_plan_largest(struct zn_plan_setup *setup, const struct zn_choices *choices, const struct zn_family *family,
                          struct zn_shape *shape, zn_model **model, struct zn_prediction *prediction);

#endif
