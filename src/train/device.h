/* The device of a run where it is not the processor. */
#ifndef ZN_TRAIN_DEVICE_H
#define ZN_TRAIN_DEVICE_H

#include "train/run.h"

/* After zn_run_measure: opens the device that the settings name, unless it is the processor, and decides what the run may hold of
 * its memory: 90% of what is there; of one whose memory is the host's, half of what the run may hold at all, as its bytes
 * count in both limits. Not collective; blocks. */
zn_status zn_run_open_device(struct zn_run *run, const struct zn_settings *settings);

/* Sets what the planner is told of the device; `machine` is the setup's cluster. */
void zn_run_describe_device(const struct zn_run *run, struct zn_plan_setup *setup, struct zn_cluster *machine);

/* Makes the device of the run, and a processor for updates beside it. */
zn_status zn_run_create_devices(struct zn_run *run, const struct zn_engine_options *options);

/* Where a plan does not fit: what it lacks, and what helps. */
zn_status zn_run_fail_plan(const struct zn_run *run, const struct zn_prediction *prediction, const char *hint);

#endif
