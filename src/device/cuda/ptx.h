/* The kernels of discrete devices as PTX, which the build makes of device/discrete/kernels/ where it finds clang; else "". */
#ifndef ZN_DEVICE_CUDA_PTX_H
#define ZN_DEVICE_CUDA_PTX_H

#include "base/status.h"

extern const char zn_kernel_ptx[];

/* What NVRTC makes of the embedded source for compute capability major.minor. The caller frees it. Blocks for seconds. */
zn_status zn_ptx_make(int major, int minor, char **ptx);

#endif
