/* OpenCL devices: the list of them, one of them with its kernels built, and devices of ranks on it. */
#ifndef ZN_DEVICE_OPENCL_OPENCL_H
#define ZN_DEVICE_OPENCL_OPENCL_H

#include "device/open.h"

/* A device as OpenCL lists it, all platforms one after the other. */
struct zn_opencl_info {
    char name[128], platform[128], version[128];
    uint64_t memory_bytes;     /* of the device */
    uint64_t allocation_bytes; /* at most in one buffer */
    bool shares_memory;        /* with the host */
    char missing[160];         /* what it lacks to be used; "" where nothing is */
};

enum { ZN_OPENCL_MAX_DEVICES = 16 };

/* At most ZN_OPENCL_MAX_DEVICES. Fails where OpenCL is not installed, and says so. Blocks. */
zn_status zn_opencl_list(struct zn_opencl_info *infos, int *n);

/* A device with its kernels; ranks of one process share it. */
typedef struct zn_opencl zn_opencl;

/* Builds the kernels, which takes seconds the first time on a machine. Blocks. */
zn_status zn_opencl_open(int index, zn_opencl **opencl);
/* The same for a device that lacks something: simulators do not tell what their fp32 has. */
zn_status zn_opencl_open_any(int index, zn_opencl **opencl);
void zn_opencl_close(zn_opencl *opencl); /* after all devices on it; NULL is legal */
const struct zn_opencl_info *zn_opencl_info(const zn_opencl *opencl);

/* A device with queues and memory of its own. The caller destroys it. */
zn_status zn_device_create_opencl(zn_opencl *opencl, zn_ledger *ledger, zn_clock *clock, zn_device **device);

/* The devices as --device opencl[:INDEX] opens them. */
extern const struct zn_backend zn_backend_opencl;

#endif
