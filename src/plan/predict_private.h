/* The prediction from inside, for predict.c and seconds.c. */
#ifndef ZN_PLAN_PREDICT_PRIVATE_H
#define ZN_PLAN_PREDICT_PRIVATE_H

#include "plan/predict.h"

/* The part of a device that a rank has: ranks of a processor may share it. */
double plan_device_share(const struct zn_plan_setup *setup);

/* What was measured of a processor: the rates of its kernels, and who shares its cores. */
void plan_add_measured(const struct zn_plan_setup *setup, struct zn_sim_machine *machine);

/* Sets work, seconds, rates and the bound from the bytes that are there. */
void plan_predict_seconds(const struct zn_plan_setup *setup, struct zn_prediction *prediction);

#endif
