/* What the ranks send each other in a training step, from the plan of the engine. */
#ifndef ZN_PLAN_TRAFFIC_H
#define ZN_PLAN_TRAFFIC_H

#include "models/model.h"
#include "zero/engine.h"

/* Bytes that one rank sends, which are as many as it receives. */
struct zn_traffic {
    uint64_t gather; /* parameters; at stage 0 summed gradients */
    uint64_t reduce; /* gradients */
};

/* The sum over units of padded size × (gathers + reductions) × (N-1)/N, to the byte. The plan is one of these
 * options and ranks. */
zn_status zn_traffic_count(const zn_model *model, const struct zn_engine_options *options, int n_ranks,
                           const zn_engine_plan *plan, struct zn_traffic *traffic);

#endif
