/* CUDA's first device: that of the stand-in, unless the real library is found before it. */
#ifndef ZN_TESTS_DEVICE_ON_CUDA_H
#define ZN_TESTS_DEVICE_ON_CUDA_H

#include "device/cuda/cuda.h"
#include "device/cuda/ptx.h"
#include "device/tested_backend.h"

/* Ends the program where the build had no clang: NVRTC would make the kernels, but not beside the stand-in, which it would call. */
static inline void on_cuda_skip_without_ptx(void)
{
    if (zn_kernel_ptx[0])
        return;
    puts("no PTX in this build");
    exit(77);
}

static inline zn_status on_cuda_open(void **opened)
{
    zn_cuda *cuda;
    on_cuda_skip_without_ptx();
    if (zn_cuda_open(0, &cuda) != ZN_OK) {
        fprintf(stderr, "%s\n", zn_error_message());
        exit(1); /* the stand-in is always there */
    }
    *opened = cuda;
    return ZN_OK;
}

static inline void on_cuda_close(void *opened)
{
    zn_cuda_close(opened);
}

static inline zn_status on_cuda_create(void *opened, zn_ledger *ledger, zn_clock *clock, zn_device **device)
{
    return zn_device_create_cuda(opened, ledger, clock, device);
}

static const struct tested_backend on_cuda = {"CUDA", on_cuda_open, on_cuda_close, on_cuda_create};

#endif
