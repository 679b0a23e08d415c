/* A device with memory of its own as a cluster of this machine: by what `zinc doctor --check` measured of it, which is kept beside
 * the machine's file, or by stated figures. The planner takes it as it takes a described cluster. */
#ifndef ZN_PLAN_CALIBRATE_DEVICE_H
#define ZN_PLAN_CALIBRATE_DEVICE_H

#include "device/open.h"
#include "plan/cluster.h"

/* $XDG_CACHE_HOME/zinc/opencl-0.json for "opencl:0", or below ~/.cache; the caller frees it. */
zn_status zn_device_calibration_path(const char *name, char **path);

/* `host` is this machine without the device. Rates are those of the file where it is of this device (*is_measured), else stated;
 * also where the file cannot be read, which fails. Memory is what the device has. */
zn_status zn_device_describe(const zn_accelerator *accelerator, const struct zn_cluster *host, struct zn_cluster *cluster,
                             bool *is_measured);

/* Measures products by precision, memory, copies each way and launches, and writes the file. Blocks for some seconds. */
zn_status zn_device_calibrate(zn_accelerator *accelerator, const struct zn_cluster *host, struct zn_cluster *cluster);

#endif
