/* What a process of a run on a processor holds in memory, as the system counts it. */
#ifndef ZN_PLAN_RESIDENT_H
#define ZN_PLAN_RESIDENT_H

#include "plan/predict.h"

/* Its own buffers, those of the node's other ranks that it reads where they lie, and what it takes beside its plan. 0 for
 * devices with memory of their own. */
size_t plan_resident(const struct zn_plan_setup *setup, const zn_engine_plan *plan);

#endif
