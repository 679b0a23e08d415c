/* The source of the kernels of discrete devices: device/discrete/kernels/, in one text that the build makes. */
#ifndef ZN_DEVICE_DISCRETE_SOURCE_H
#define ZN_DEVICE_DISCRETE_SOURCE_H

extern const char zn_kernel_source[];

#endif
