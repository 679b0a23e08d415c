/* This machine as a cluster of one node: measured once, kept in the user's cache folder. */
#ifndef ZN_PLAN_THIS_MACHINE_H
#define ZN_PLAN_THIS_MACHINE_H

#include "plan/cluster.h"

#define ZN_THIS_MACHINE "this-machine"

/* $XDG_CACHE_HOME/zinc/machine.json, or below ~/.cache; the caller frees it. */
zn_status zn_calibration_path(char **path);

/* Measures with all cores a run would take: matrix products by precision, memory, a copy between ranks, and the drive
 * below the current folder, where swap would be. Takes a few seconds on a quiet machine; blocks. */
zn_status zn_calibration_measure(struct zn_cluster *cluster);

/* Measures and writes the file. */
zn_status zn_calibration_save(struct zn_cluster *cluster);

/* The rates of the file; memory is what a run may take now. *found is false when the file is not there or
 * was made with another processor, number of cores or instruction set. A file that cannot be read is an error. */
zn_status zn_calibration_load(struct zn_cluster *cluster, bool *found);

/* Figures of a usual machine with so many cores, to compare plans by where nothing was measured. */
struct zn_cluster zn_calibration_usual(int n_cores);

#endif
