/* What a person has fixed of a run, and what the planner chooses. */
#ifndef ZN_PLAN_CHOICES_H
#define ZN_PLAN_CHOICES_H

#include "schedule/options.h"

enum { ZN_KEEP_ALL = INT32_MAX };

/* -1 (SIZE_MAX for sizes) stands for "choose". Tiers are zn_tier. */
struct zn_choices {
    int stage, keep_logits;
    int64_t keep;     /* segments before the head that keep their activations: 0, a number, or ZN_KEEP_ALL: no recompute */
    int reduce_every; /* -1: only where it must */
    int parameters, gradients, optimizer, activations;
    size_t tile_bytes, prefetch_bytes, host_cache;
    bool any_schedule;    /* options->vertical is chosen (plan/vertical.h); else it is given */
    bool any_micro_batch; /* options->micro_batch is chosen; else it is given */
    bool compares_all;    /* the fastest of all that fit on devices with memory of their own, too, not the first of them */
};

/* All of it open, but for schedule and micro-batch. */
struct zn_choices zn_choices_open(void);

/* For an engine that does not train: open are the stage, tiles and prefetch, and the tier of parameters (-1). */
struct zn_choices zn_choices_of_parameters(int tier);

/* What contradicts itself, by the name of the flag. */
zn_status zn_choices_check(const struct zn_choices *choices, const struct zn_engine_options *options, int n_ranks);

/* A rank that keeps whole gradients adds to them in memory. */
bool zn_can_swap_gradients(int stage, int n_ranks);

/* Gradients are added up over micro-batches where they were written, and summed over ranks once: they stay in memory. */
bool zn_choices_sum_once(const struct zn_choices *choices, const struct zn_engine_options *options);

/* The value of --recompute, on, off or keep=N: segments that are kept; and back, as options have it. */
enum { ZN_KEEP_TEXT = 32 };
int64_t zn_keep_parse(const char *text);
const char *zn_keep_text(const struct zn_engine_options *options, char text[ZN_KEEP_TEXT]);

#endif
