/* OpenCL's first device, or a simulator's where the environment has ZINC_TEST_SIMULATOR. */
#ifndef ZN_TESTS_DEVICE_ON_OPENCL_H
#define ZN_TESTS_DEVICE_ON_OPENCL_H

#include "device/opencl/opencl.h"
#include "device/tested_backend.h"

static inline zn_status on_opencl_open(void **opened)
{
    zn_opencl *opencl;
    ZN_TRY(getenv("ZINC_TEST_SIMULATOR") ? zn_opencl_open_any(0, &opencl) : zn_opencl_open(0, &opencl));
    *opened = opencl;
    return ZN_OK;
}

static inline void on_opencl_close(void *opened)
{
    zn_opencl_close(opened);
}

static inline zn_status on_opencl_create(void *opened, zn_ledger *ledger, zn_clock *clock, zn_device **device)
{
    return zn_device_create_opencl(opened, ledger, clock, device);
}

static const struct tested_backend on_opencl = {"OpenCL", on_opencl_open, on_opencl_close, on_opencl_create};

#endif
