/* The rest of the driver: devices, the primary context, modules, words for errors. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "standin/exports.h"
#include "standin/standin.h"

enum { N_DEVICES = 2, VERSION = 12080, MAJOR = 7, MINOR = 5 };

struct CUctx_st {
    pthread_mutex_t lock; /* guards n_users */
    int n_users;
};
struct CUmod_st {
    char *ptx;
};

static struct CUctx_st context = {.lock = PTHREAD_MUTEX_INITIALIZER};
static _Thread_local zn_cu_context current;

zn_cu_enum cuInit(unsigned flags)
{
    const char *fault = getenv("ZINC_STANDIN_FAULT");
    if (fault && strcmp(fault, "init") == 0)
        return 803; /* of a driver whose parts do not fit each other */
    return flags ? ZN_CUDA_ERROR_INVALID_VALUE : 0;
}

zn_cu_enum cuDriverGetVersion(int *version)
{
    *version = VERSION;
    return 0;
}

zn_cu_enum cuGetErrorName(zn_cu_enum error, const char **name)
{
    switch (error) {
    case ZN_CUDA_ERROR_INVALID_VALUE: *name = "CUDA_ERROR_INVALID_VALUE"; return 0;
    case ZN_CUDA_ERROR_OUT_OF_MEMORY: *name = "CUDA_ERROR_OUT_OF_MEMORY"; return 0;
    case ZN_CUDA_ERROR_ECC_UNCORRECTABLE: *name = "CUDA_ERROR_ECC_UNCORRECTABLE"; return 0;
    case ZN_CUDA_ERROR_INVALID_PTX: *name = "CUDA_ERROR_INVALID_PTX"; return 0;
    case ZN_CUDA_ERROR_ILLEGAL_ADDRESS: *name = "CUDA_ERROR_ILLEGAL_ADDRESS"; return 0;
    case ZN_CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES: *name = "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"; return 0;
    case ZN_CUDA_ERROR_LAUNCH_FAILED: *name = "CUDA_ERROR_LAUNCH_FAILED"; return 0;
    case ZN_CUDA_ERROR_NOT_SUPPORTED: *name = "CUDA_ERROR_NOT_SUPPORTED"; return 0;
    case 803: *name = "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"; return 0;
    default: return ZN_CUDA_ERROR_INVALID_VALUE;
    }
}

zn_cu_enum cuGetErrorString(zn_cu_enum error, const char **text)
{
    (void)error;
    *text = "the stand-in says no more";
    return 0;
}

zn_cu_enum cuDeviceGetCount(int *n)
{
    const char *fault = getenv("ZINC_STANDIN_FAULT");
    *n = fault && strcmp(fault, "no_device") == 0 ? 0 : N_DEVICES;
    return 0;
}

zn_cu_enum cuDeviceGet(zn_cu_device *device, int index)
{
    *device = index;
    return index >= 0 && index < N_DEVICES ? 0 : ZN_CUDA_ERROR_INVALID_DEVICE;
}

zn_cu_enum cuDeviceGetName(char *name, int size, zn_cu_device device)
{
    snprintf(name, (size_t)size, "stand-in %d", device);
    return 0;
}

zn_cu_enum cuDeviceTotalMem_v2(size_t *n_bytes, zn_cu_device device)
{
    size_t free_bytes;
    (void)device;
    return cuMemGetInfo_v2(&free_bytes, n_bytes);
}

zn_cu_enum cuDeviceGetAttribute(int *value, zn_cu_enum attribute, zn_cu_device device)
{
    (void)device;
    switch (attribute) {
    case ZN_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = MAJOR; return 0;
    case ZN_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = MINOR; return 0;
    case ZN_CU_DEVICE_ATTRIBUTE_INTEGRATED: *value = 0; return 0;
    default: return ZN_CUDA_ERROR_INVALID_VALUE;
    }
}

zn_cu_enum cuDevicePrimaryCtxSetFlags_v2(zn_cu_device device, unsigned flags)
{
    (void)device;
    return flags == ZN_CU_CTX_SCHED_BLOCKING_SYNC ? 0 : ZN_CUDA_ERROR_INVALID_VALUE;
}

zn_cu_enum cuDevicePrimaryCtxRetain(zn_cu_context *made, zn_cu_device device)
{
    (void)device;
    pthread_mutex_lock(&context.lock);
    if (context.n_users++ == 0) {
        standin_start();
        install_fault_handler();
    }
    pthread_mutex_unlock(&context.lock);
    *made = &context;
    return 0;
}

zn_cu_enum cuDevicePrimaryCtxRelease_v2(zn_cu_device device)
{
    (void)device;
    pthread_mutex_lock(&context.lock);
    context.n_users--;
    pthread_mutex_unlock(&context.lock);
    return 0;
}

zn_cu_enum cuCtxSetCurrent(zn_cu_context made)
{
    current = made;
    return 0;
}

/* The kernels run as C; of the PTX only names and the sizes of arguments are read. */
zn_cu_enum cuModuleLoadDataEx(zn_cu_module *module, const void *image, unsigned n_options, zn_cu_enum *options, void **values)
{
    if (fault_is_due(FAULT_ptx)) {
        for (unsigned i = 0; i < n_options; i++)
            if (options[i] == ZN_CU_JIT_ERROR_LOG_BUFFER)
                strcpy(values[i], "line 1; a planted fault");
        return ZN_CUDA_ERROR_INVALID_PTX;
    }
    struct CUmod_st *m = calloc(1, sizeof *m);
    if (!m || !current)
        abort();
    m->ptx = strdup(image);
    *module = m;
    return strstr(m->ptx, ".target sm_") ? 0 : ZN_CUDA_ERROR_INVALID_PTX;
}

zn_cu_enum cuModuleUnload(zn_cu_module module)
{
    free(module->ptx);
    free(module);
    return 0;
}

zn_cu_enum cuModuleGetFunction(zn_cu_function *function, zn_cu_module module, const char *name)
{
    char declared[200];
    for (int i = 0; i < standin_n_functions; i++) {
        const struct CUfunc_st *f = &standin_functions[i];
        snprintf(declared, sizeof declared, "%s_param_0[%zu]", name, f->n_bytes);
        if (strcmp(f->name, name) != 0)
            continue;
        *function = (zn_cu_function)(uintptr_t)f;
        return strstr(module->ptx, declared) ? 0 : ZN_CUDA_ERROR_INVALID_PTX; /* the host has another struct */
    }
    return ZN_CUDA_ERROR_NOT_FOUND;
}
