/* What the files of the OpenCL backend share. */
#ifndef ZN_DEVICE_OPENCL_PRIVATE_H
#define ZN_DEVICE_OPENCL_PRIVATE_H

#include "device/discrete/driver.h"
#include "device/opencl/api.h"
#include "device/opencl/opencl.h"

enum { OPENCL_LOCAL_BYTES = 24 * 1024 /* what the kernels take at most */ };

struct zn_opencl {
    struct zn_cl_api cl;
    cl_device_id id;
    cl_context context;
    cl_program program;
    struct zn_opencl_info info;
};

struct opencl_found {
    cl_device_id id;
    struct zn_opencl_info info;
};

/* Up to ZN_OPENCL_MAX_DEVICES. */
zn_status opencl_find(const struct zn_cl_api *cl, struct opencl_found *found, int *n);

/* That there are any. */
zn_status opencl_check_count(int n);

/* A driver on an open device; zn_device_create_discrete takes it. */
zn_status opencl_create_driver(zn_opencl *opencl, zn_driver **driver);

#endif
