/* The dry run: one step of the real engine on the sim device, before anything is allocated. It
 * gives the plan the real run allocates from. */
#ifndef ZN_PLAN_DRY_RUN_H
#define ZN_PLAN_DRY_RUN_H

#include "zero/engine.h"

/* For one of n_ranks ranks: all are alike. Not collective. The caller ends the plan with
 * zn_engine_plan_fini. */
zn_status zn_dry_run(const zn_module *module, const struct zn_engine_options *options, int n_ranks,
                     zn_engine_plan *plan);

#endif
