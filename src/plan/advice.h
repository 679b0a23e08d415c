/* What would help most: one change to a configuration, found by predicting the changes. */
#ifndef ZN_PLAN_ADVICE_H
#define ZN_PLAN_ADVICE_H

#include "plan/predict.h"

struct zn_advice {
    char text[256];
};

/* For a prediction of this setup. Blocks for some dry runs. */
void zn_plan_advise(const struct zn_plan_setup *setup, const struct zn_prediction *prediction,
                    struct zn_advice *advice);

#endif
