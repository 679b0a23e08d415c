/* CUDA devices as --device cuda[:INDEX] opens them. */
#include <stdio.h>

#include "device/cuda/cuda.h"

/* Beside buffers: the context, its modules and the driver's own, in the host's memory and the device's. */
static const size_t PROCESS_BYTES = (size_t)512 * 1024 * 1024 + ZN_CUDA_STAGING_BYTES, RESERVED_BYTES = (size_t)512 * 1024 * 1024;

static void tell(const struct zn_cuda_info *c, struct zn_device_info *info)
{
    *info = (struct zn_device_info){.memory_bytes = c->memory_bytes,
                                    .free_bytes = c->free_bytes,
                                    .process_bytes = PROCESS_BYTES,
                                    .reserved_bytes = c->shares_memory ? 0 : RESERVED_BYTES,
                                    .shares_memory = c->shares_memory};
    snprintf(info->name, sizeof info->name, "%.127s", c->name);
    snprintf(info->about, sizeof info->about, "%.120s, %.120s", c->name, c->version);
    snprintf(info->missing, sizeof info->missing, "%.159s", c->missing);
}

static zn_status list(int n_threads, struct zn_device_info *infos, int *n)
{
    struct zn_cuda_info found[ZN_CUDA_MAX_DEVICES];
    int n_found;
    (void)n_threads;
    ZN_TRY(zn_cuda_list(found, &n_found));
    *n = n_found < ZN_MAX_DEVICES ? n_found : ZN_MAX_DEVICES;
    for (int i = 0; i < *n; i++)
        tell(&found[i], &infos[i]);
    return ZN_OK;
}

static zn_status open_device(int index, void **opened)
{
    zn_cuda *cuda;
    ZN_TRY(zn_cuda_open(index, &cuda));
    *opened = cuda;
    return ZN_OK;
}

static void close_device(void *opened)
{
    zn_cuda_close(opened);
}

static void describe(const void *opened, struct zn_device_info *info)
{
    tell(zn_cuda_info(opened), info);
}

static zn_status create(void *opened, zn_ledger *ledger, zn_clock *clock, zn_device **device)
{
    return zn_device_create_cuda(opened, ledger, clock, device);
}

const struct zn_backend zn_backend_cuda = {
    .name = "cuda", .list = list, .open = open_device, .close = close_device, .describe = describe, .create = create};
