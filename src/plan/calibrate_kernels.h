/* How fast each kernel of training is on this machine: in shapes like those of a model of a few hundred million
 * parameters, as processors are bound by neither flops nor memory alone in most of them. */
#ifndef ZN_PLAN_THIS_KERNELS_H
#define ZN_PLAN_THIS_KERNELS_H

#include "device/device.h"

/* Memory for it, from the device. */
#define KERNELS_MEMORY_BYTES ((size_t)192 << 20)

/* By kernel, zn_kernel_work a second; 0 for matrix products and for what training does not use. `launch` is the time of a
 * kernel that has nothing to do. Blocks for some seconds; what is in the memory is lost. */
zn_status kernels_measure(zn_device *device, int n_cores, zn_addr memory, double rates[ZN_N_KERNELS], double *launch);

#endif
