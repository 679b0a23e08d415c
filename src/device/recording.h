/* A device on top of another that keeps the kernels it was asked for: how long each took, and its arguments, to run it again alone. */
#ifndef ZN_DEVICE_RECORDING_H
#define ZN_DEVICE_RECORDING_H

#include "device/device.h"

/* `inner` computes when a kernel is called, as the processor does. It is borrowed; memory of one device is the other's. */
zn_status zn_device_create_recording(zn_device *inner, zn_device **device);

/* Forgets what was recorded, and keeps from now on what runs, or no longer. */
void zn_recording_begin(zn_device *device);
void zn_recording_end(zn_device *device);

/* What all calls of a kernel came to. */
struct zn_recorded {
    int64_t n_calls;
    double seconds, flops;
};
struct zn_recorded zn_recording_sum(const zn_device *device, zn_kernel kernel);

/* Runs all recorded calls of a kernel again, in their order; what they write is lost to whoever made them. */
zn_status zn_recording_repeat(zn_device *device, zn_kernel kernel);

#endif
