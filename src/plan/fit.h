/* Fitting a run into a memory limit: dry runs from the fastest setting to the leanest, until one fits. */
#ifndef ZN_PLAN_FIT_H
#define ZN_PLAN_FIT_H

#include "plan/dry_run.h"

/* What the person has fixed; -1 (SIZE_MAX for sizes) stands for "choose". Tiers are zn_tier. */
struct zn_choices {
    int stage, recompute, keep_logits;
    int reduce_every; /* -1: only where it must */
    int parameters, gradients, optimizer, activations;
    size_t tile_bytes, prefetch_bytes, host_cache;
    bool any_schedule; /* options->vertical is chosen (plan/vertical.h); else it is given */
};

/* All of it open, but for the schedule. */
struct zn_choices zn_choices_open(void);

/* For an engine that does not train: open are the stage, tiles and prefetch, and the tier of parameters (-1). */
struct zn_choices zn_choices_of_parameters(int tier);

struct zn_fit {
    const zn_module *module;
    int n_ranks;
    size_t limit;    /* of a process */
    size_t overhead; /* what the process holds beside the manifest */
    struct zn_choices choices;
    const char *hint; /* what makes a run smaller that does not fit; NULL: as of training */
};

/* Memory of a process under this plan: everything but what is on NVMe. */
size_t zn_plan_memory(const zn_engine_plan *plan);

/* Sets what is open in `options` and gives the plan, which the caller ends with zn_engine_plan_fini. Fails
 * with the smallest limit that would work, or because the choices contradict each other. Not collective. */
zn_status zn_fit_run(const struct zn_fit *fit, struct zn_engine_options *options, zn_engine_plan *plan);

#endif
