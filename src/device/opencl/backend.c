/* OpenCL devices as --device opencl[:INDEX] opens them. */
#include <stdio.h>
#include <stdlib.h>

#include "device/opencl/private.h"

_Static_assert((int)ZN_OPENCL_MAX_DEVICES == (int)ZN_MAX_DEVICES, "a list holds all of them");

/* Beside buffers: the driver's code and compiler, in the host's memory (PoCL brings LLVM) and the device's. */
static const size_t PROCESS_BYTES = 256 * 1024 * 1024, RESERVED_BYTES = 256 * 1024 * 1024;

/* PoCL computes on all cores of the machine unless it is told otherwise before it is loaded. Versions call it differently; what
 * a person has set stays. */
static void limit_threads(int n_threads)
{
    char text[16];
    snprintf(text, sizeof text, "%d", n_threads);
    setenv("POCL_MAX_PTHREAD_COUNT", text, 0);
    setenv("POCL_CPU_MAX_CU_COUNT", text, 0);
}

static void tell(const struct zn_opencl_info *o, struct zn_device_info *info)
{
    *info = (struct zn_device_info){.memory_bytes = o->memory_bytes,
                                    .allocation_bytes = o->allocation_bytes,
                                    .process_bytes = PROCESS_BYTES,
                                    .reserved_bytes = o->shares_memory ? 0 : RESERVED_BYTES,
                                    .shares_memory = o->shares_memory};
    snprintf(info->name, sizeof info->name, "%.127s", o->name);
    snprintf(info->about, sizeof info->about, "%.100s, %.60s, %.60s", o->name, o->platform, o->version);
    snprintf(info->missing, sizeof info->missing, "%.159s", o->missing);
}

static zn_status list(int n_threads, struct zn_device_info *infos, int *n)
{
    struct zn_opencl_info found[ZN_OPENCL_MAX_DEVICES];
    int n_found;
    limit_threads(n_threads);
    ZN_TRY(zn_opencl_list(found, &n_found));
    ZN_TRY(opencl_check_count(n_found));
    for (int i = 0; i < n_found; i++)
        tell(&found[i], &infos[i]);
    *n = n_found;
    return ZN_OK;
}

static zn_status open_device(int index, void **opened)
{
    zn_opencl *opencl;
    ZN_TRY(zn_opencl_open(index, &opencl));
    *opened = opencl;
    return ZN_OK;
}

static void close_device(void *opened)
{
    zn_opencl_close(opened);
}

static void describe(const void *opened, struct zn_device_info *info)
{
    tell(zn_opencl_info(opened), info);
}

static zn_status create(void *opened, zn_ledger *ledger, zn_clock *clock, zn_device **device)
{
    return zn_device_create_opencl(opened, ledger, clock, device);
}

const struct zn_backend zn_backend_opencl = {.name = "opencl",
                                             .list = list,
                                             .open = open_device,
                                             .close = close_device,
                                             .describe = describe,
                                             .create = create};
