/* Choosing between the two schedules, `--schedule auto`: vertical where it saves fetching parameters and fits. */
#ifndef ZN_PLAN_VERTICAL_H
#define ZN_PLAN_VERTICAL_H

#include "plan/choices.h"

/* Schedules in the order in which they are to be tried. */
struct zn_schedules {
    int n;
    bool vertical[2];
};

/* Those of one setting, which is in `options` but for the schedule: the one that is given, or what may be chosen. */
struct zn_schedules zn_schedules_to_try(const struct zn_choices *choices, const struct zn_engine_options *options,
                                        int n_ranks);

/* Why zn_plan_choose chose the schedule of `options`, in words that stay; NULL where it was given. */
const char *zn_schedule_reason(const struct zn_choices *choices, const struct zn_engine_options *options, int n_ranks);

#endif
