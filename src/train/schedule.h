/* The learning rate of each step. */
#ifndef ZN_TRAIN_SCHEDULE_H
#define ZN_TRAIN_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef enum zn_schedule_kind {
    ZN_CONSTANT,
    ZN_LINEAR,
    ZN_COSINE,
    ZN_WARMUP_LR, /* this and the next two: the classes of DeepSpeed */
    ZN_WARMUP_DECAY_LR,
    ZN_WARMUP_COSINE_LR
} zn_schedule_kind;

struct zn_schedule {
    zn_schedule_kind kind;
    double lr, min_lr;    /* min_lr below 0: not given */
    double warmup_min_lr; /* where the warm-up begins */
    bool log_warmup;      /* the warm-up follows the logarithm of the step */
    int64_t warmup, steps; /* steps: the last of those that fall */
};

zn_status zn_schedule_parse(const char *name, zn_schedule_kind *kind);

/* Whether it goes down again after the warm-up. */
bool zn_schedule_falls(zn_schedule_kind kind);

/* Step s counts from 1: lr·min(1, s/warmup), then constant, or down to min_lr at step `steps` and on. Where no min_lr is given the
 * rate would be 0 one step after the last, so that the last one still trains.
 *
 * DeepSpeed moves its scheduler on after an update, and its count begins at -1: the count of step s is s - 2, and steps 1 and 2 have
 * the rate that the warm-up begins with (WarmupCosineLR's step 1 has 0). Its warm-up takes at least 2 steps. WarmupDecayLR falls to
 * warmup_min_lr; min_lr is WarmupCosineLR's, 0 where not given. */
double zn_schedule_lr(const struct zn_schedule *schedule, int64_t step);

#endif
