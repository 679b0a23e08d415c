/* metrics.jsonl: one object for each step, flushed, so that a reader sees whole lines; and the same for TensorBoard. */
#ifndef ZN_TRAIN_METRICS_H
#define ZN_TRAIN_METRICS_H

#include "memory/ledger.h"
#include "zinc/train.h"

typedef struct zn_metrics zn_metrics;

zn_status zn_metrics_create(const char *path, zn_metrics **metrics);

/* Goes on with a log, which is cut back to the steps up to `step`; one that is not there is made. */
zn_status zn_metrics_continue(const char *path, int64_t step, zn_metrics **metrics);

/* The same values in event files of TensorBoard in this folder, too. `resumed` as of zn_metrics_continue; -1: a new run. */
zn_status zn_metrics_add_events(zn_metrics *metrics, const char *folder, int64_t resumed);

/* The held-out loss before the first step. */
zn_status zn_metrics_start(zn_metrics *metrics, const struct zn_step_report *step);

/* The line of a step; where that of the same step was the last, it is written over. */
zn_status zn_metrics_step(zn_metrics *metrics, const struct zn_step_report *step,
                          const zn_ledger *ledger);
bool zn_metrics_can_replace(const zn_metrics *metrics); /* false for pipes, where each line is the last word */
void zn_metrics_destroy(zn_metrics *metrics); /* NULL is legal */

#endif
