/* The prediction from inside, for predict.c and rates.c. */
#ifndef ZN_PLAN_PREDICT_PRIVATE_H
#define ZN_PLAN_PREDICT_PRIVATE_H

#include "plan/predict.h"

/* The part of a device that a rank has: ranks of a processor may share it. */
double plan_device_share(const struct zn_plan_setup *setup);

/* What one rank has of the cluster. */
struct zn_sim_machine plan_machine(const struct zn_plan_setup *setup);

#endif
