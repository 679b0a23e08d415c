/* The learning rate of each step. */
#ifndef ZN_TRAIN_SCHEDULE_H
#define ZN_TRAIN_SCHEDULE_H

#include <stdint.h>

#include "base/status.h"

typedef enum zn_schedule_kind { ZN_CONSTANT, ZN_LINEAR, ZN_COSINE } zn_schedule_kind;

struct zn_schedule {
    zn_schedule_kind kind;
    double lr, min_lr;
    int64_t warmup, steps;
};

zn_status zn_schedule_parse(const char *name, zn_schedule_kind *kind);

/* Step s counts from 1: lr·min(1, s/warmup), then constant, or down to min_lr at the last step. Where no min_lr is given
 * (it is below 0) the rate would be 0 one step after the last, so that the last one still trains. */
double zn_schedule_lr(const struct zn_schedule *schedule, int64_t step);

#endif
