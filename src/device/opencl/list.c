/* Which OpenCL devices there are, and whether they can give the CPU's bits. */
#include <stdio.h>
#include <string.h>

#include "device/opencl/private.h"

static uint64_t number_of(const struct zn_cl_api *cl, cl_device_id id, cl_uint what, size_t size)
{
    uint64_t value = 0; /* fields of 4 bytes fill the lower half: devices are little-endian hosts' */
    return cl->clGetDeviceInfo(id, what, size, &value, NULL) == 0 ? value : 0;
}

static void find_missing(const struct zn_cl_api *cl, cl_device_id id, struct zn_opencl_info *info)
{
    const uint64_t exact = ZN_CL_FP_DENORM | ZN_CL_FP_FMA | ZN_CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT;
    uint64_t single = number_of(cl, id, ZN_CL_DEVICE_SINGLE_FP_CONFIG, sizeof(cl_ulong));
    const char *missing = "";
    if (!number_of(cl, id, ZN_CL_DEVICE_AVAILABLE, sizeof(cl_bool)))
        missing = "it is not available";
    else if (!number_of(cl, id, ZN_CL_DEVICE_COMPILER_AVAILABLE, sizeof(cl_bool)))
        missing = "it has no compiler";
    else if (!number_of(cl, id, ZN_CL_DEVICE_ENDIAN_LITTLE, sizeof(cl_bool)))
        missing = "it is not little-endian";
    else if (!number_of(cl, id, ZN_CL_DEVICE_DOUBLE_FP_CONFIG, sizeof(cl_ulong)))
        missing = "it has no fp64";
    else if ((single & exact) != exact)
        missing = "its fp32 has no fma, no subnormal numbers or no exact division and root";
    else if (number_of(cl, id, ZN_CL_DEVICE_LOCAL_MEM_SIZE, sizeof(cl_ulong)) < OPENCL_LOCAL_BYTES)
        missing = "it has less than 24 KiB of local memory";
    snprintf(info->missing, sizeof info->missing, "%s", missing);
}

static void describe(const struct zn_cl_api *cl, cl_platform_id platform, cl_device_id id, struct zn_opencl_info *info)
{
    *info = (struct zn_opencl_info){
        .memory_bytes = number_of(cl, id, ZN_CL_DEVICE_GLOBAL_MEM_SIZE, sizeof(cl_ulong)),
        .allocation_bytes = number_of(cl, id, ZN_CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof(cl_ulong)),
        .shares_memory = number_of(cl, id, ZN_CL_DEVICE_HOST_UNIFIED_MEMORY, sizeof(cl_bool)) != 0,
    };
    /* A name that does not fit is left empty. */
    cl->clGetDeviceInfo(id, ZN_CL_DEVICE_NAME, sizeof info->name - 1, info->name, NULL);
    cl->clGetDeviceInfo(id, ZN_CL_DEVICE_VERSION, sizeof info->version - 1, info->version, NULL);
    cl->clGetPlatformInfo(platform, ZN_CL_PLATFORM_NAME, sizeof info->platform - 1, info->platform, NULL);
    find_missing(cl, id, info);
}

zn_status opencl_find(const struct zn_cl_api *cl, struct opencl_found *found, int *n)
{
    cl_platform_id platforms[ZN_OPENCL_MAX_DEVICES];
    cl_uint n_platforms = 0;
    *n = 0;
    cl_int error = cl->clGetPlatformIDs(ZN_OPENCL_MAX_DEVICES, platforms, &n_platforms);
    if (error == ZN_CL_PLATFORM_NOT_FOUND)
        return ZN_OK;
    ZN_TRY(zn_cl_check(error, "clGetPlatformIDs"));
    for (cl_uint p = 0; p < n_platforms && p < ZN_OPENCL_MAX_DEVICES; p++) {
        cl_device_id ids[ZN_OPENCL_MAX_DEVICES];
        cl_uint n_ids = 0;
        error = cl->clGetDeviceIDs(platforms[p], ZN_CL_DEVICE_TYPE_ALL, ZN_OPENCL_MAX_DEVICES, ids, &n_ids);
        if (error == ZN_CL_DEVICE_NOT_FOUND)
            continue;
        ZN_TRY(zn_cl_check(error, "clGetDeviceIDs"));
        for (cl_uint i = 0; i < n_ids && i < ZN_OPENCL_MAX_DEVICES && *n < ZN_OPENCL_MAX_DEVICES; i++) {
            found[*n].id = ids[i];
            describe(cl, platforms[p], ids[i], &found[(*n)++].info);
        }
    }
    return ZN_OK;
}

zn_status opencl_check_count(int n)
{
    return n > 0 ? ZN_OK
                 : zn_fail(ZN_ERR_UNSUPPORTED, "OpenCL is installed but has no device: the driver is missing; install the one of the "
                                               "GPU's maker, or PoCL for processors (Debian: pocl-opencl-icd)");
}

zn_status zn_opencl_list(struct zn_opencl_info *infos, int *n)
{
    struct zn_cl_api cl;
    struct opencl_found found[ZN_OPENCL_MAX_DEVICES];
    int n_found;
    ZN_TRY(zn_cl_load(&cl));
    ZN_TRY(opencl_find(&cl, found, &n_found));
    for (int i = 0; i < n_found; i++)
        infos[i] = found[i].info;
    *n = n_found;
    return ZN_OK;
}
