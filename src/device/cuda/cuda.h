/* CUDA devices: the list of them, one of them with its kernels loaded, and devices of ranks on it. */
#ifndef ZN_DEVICE_CUDA_CUDA_H
#define ZN_DEVICE_CUDA_CUDA_H

#include "device/open.h"

/* A device as the driver lists it. */
struct zn_cuda_info {
    char name[128], version[128]; /* of the driver, with the compute capability */
    int major, minor;             /* compute capability */
    uint64_t memory_bytes;
    uint64_t free_bytes;          /* of them, when it was opened; 0 in a list */
    bool shares_memory;           /* with the host */
    char missing[160];            /* what it lacks to be used; "" where nothing is */
};

enum {
    ZN_CUDA_MAX_DEVICES = 64,
    /* Memory of the host for one device of a rank: where a buffer cannot be registered, copies go through pieces of this. Not in the
     * ledger: who plans a process counts it beside the plan. */
    ZN_CUDA_STAGING_BYTES = (ZN_N_LANES + 1) * 2 * 1024 * 1024,
    /* Memory of the device for --math fast, of each device of a rank: cuBLASLt's workspace, and 16-bit operands in fp32. Not in the ledger
     * either. */
    ZN_CUDA_FAST_BYTES = 64 * 1024 * 1024
};

/* At most ZN_CUDA_MAX_DEVICES. Fails where the driver is not installed or has no device, and says so. Blocks. */
zn_status zn_cuda_list(struct zn_cuda_info *infos, int *n);

/* A device with its kernels; ranks of one process share it. */
typedef struct zn_cuda zn_cuda;

/* Loads the kernels: the PTX of the build, or what NVRTC makes of their source. The driver compiles them, which takes seconds the first
 * time on a machine. Blocks. */
zn_status zn_cuda_open(int index, zn_cuda **cuda);
void zn_cuda_close(zn_cuda *cuda); /* after all devices on it; NULL is legal */
const struct zn_cuda_info *zn_cuda_info(const zn_cuda *cuda);

/* --math fast: devices that are created from now on compute products by cuBLASLt, in fp32, with one algorithm for a shape and no split
 * along k: the same bits run after run on one machine, not the processor's. Fails where the library is missing. Not for several threads
 * at once. Without it products are in the canonical order (--math exact). */
zn_status zn_cuda_use_fast_math(zn_cuda *cuda);

/* Why some memory of the host is copied through staging, or "": for the command to say once. */
const char *zn_cuda_staging_cause(zn_cuda *cuda);

/* A device with streams and memory of its own. The caller destroys it. */
zn_status zn_device_create_cuda(zn_cuda *cuda, zn_ledger *ledger, zn_clock *clock, zn_device **device);

/* As --device cuda[:INDEX] has them. */
extern const struct zn_backend zn_backend_cuda;

#endif
