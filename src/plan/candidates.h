/* Where the states of a run may lie: tiers, stage, schedule and tiles, from the fastest to the leanest. */
#ifndef ZN_PLAN_CANDIDATES_H
#define ZN_PLAN_CANDIDATES_H

#include "plan/predict.h"

enum { ZN_MAX_CANDIDATES = 256, ZN_LEAST_TILE = 2 * 1024 * 1024 };

struct zn_candidate {
    zn_tier optimizer, activations, parameters;
    int stage;
    size_t tile_bytes;
    bool tiles_by_plan; /* tiles are there to make it smaller; they are no one's wish */
};

/* Those that the cluster has a place for and that agree with what is fixed, without repetition. */
int zn_candidates_list(const struct zn_plan_setup *setup, const struct zn_choices *choices,
                       struct zn_candidate list[ZN_MAX_CANDIDATES]);

/* The candidate in its leanest form, with what is fixed: everything is computed again, nothing is fetched ahead or cached. */
void zn_candidate_apply(const struct zn_candidate *candidate, const struct zn_choices *choices, bool vertical,
                        struct zn_plan_setup *setup);

#endif
