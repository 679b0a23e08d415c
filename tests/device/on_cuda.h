/* CUDA's first device: that of the stand-in, unless the real library is found before it. */
#ifndef ZN_TESTS_DEVICE_ON_CUDA_H
#define ZN_TESTS_DEVICE_ON_CUDA_H

#include "device/cuda/cuda.h"
#include "device/tested_backend.h"

static inline zn_status on_cuda_open(void **opened)
{
    zn_cuda *cuda;
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
