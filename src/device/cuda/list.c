/* Which CUDA devices there are, and what they lack to be used. */
#include <stdio.h>

#include "device/cuda/private.h"

zn_status cuda_start(const struct zn_cu_api *cu, int *n)
{
    zn_cu_enum result = cu->cuInit(0);
    *n = 0;
    if (result == ZN_CUDA_SUCCESS)
        result = cu->cuDeviceGetCount(n);
    if (result == ZN_CUDA_ERROR_NO_DEVICE || (result == ZN_CUDA_SUCCESS && *n == 0))
        return zn_fail(ZN_ERR_UNSUPPORTED, "NVIDIA's driver is installed but has no device (CUDA_VISIBLE_DEVICES may hide it)");
    ZN_TRY(zn_cu_check(cu, result, "cuInit"));
    if (*n > ZN_CUDA_MAX_DEVICES)
        *n = ZN_CUDA_MAX_DEVICES;
    return ZN_OK;
}

zn_status cuda_describe(const struct zn_cu_api *cu, int index, zn_cu_device *id, struct zn_cuda_info *info)
{
    int version = 0, is_integrated = 0;
    size_t n_bytes = 0;
    *info = (struct zn_cuda_info){0};
    CUDA_TRY(cuDeviceGet, id, index);
    CUDA_TRY(cuDeviceGetName, info->name, (int)sizeof info->name - 1, *id);
    CUDA_TRY(cuDeviceTotalMem_v2, &n_bytes, *id);
    CUDA_TRY(cuDriverGetVersion, &version);
    CUDA_TRY(cuDeviceGetAttribute, &info->major, ZN_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, *id);
    CUDA_TRY(cuDeviceGetAttribute, &info->minor, ZN_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, *id);
    CUDA_TRY(cuDeviceGetAttribute, &is_integrated, ZN_CU_DEVICE_ATTRIBUTE_INTEGRATED, *id);
    info->memory_bytes = n_bytes;
    info->shares_memory = is_integrated != 0;
    snprintf(info->version, sizeof info->version, "CUDA %d.%d, compute capability %d.%d", version / 1000, version % 1000 / 10, info->major,
             info->minor);
    if (10 * info->major + info->minor < CUDA_LEAST_CAPABILITY)
        snprintf(info->missing, sizeof info->missing, "its compute capability is %d.%d, and %d.%d is the least", info->major, info->minor,
                 CUDA_LEAST_CAPABILITY / 10, CUDA_LEAST_CAPABILITY % 10);
    return ZN_OK;
}

zn_status zn_cuda_list(struct zn_cuda_info *infos, int *n)
{
    struct zn_cu_api cu;
    zn_cu_device id;
    int n_found;
    ZN_TRY(zn_cu_load(&cu));
    ZN_TRY(cuda_start(&cu, &n_found));
    for (int i = 0; i < n_found; i++)
        ZN_TRY(cuda_describe(&cu, i, &id, &infos[i]));
    *n = n_found;
    return ZN_OK;
}
