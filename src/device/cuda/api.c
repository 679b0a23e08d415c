/* Loading of CUDA's libraries, and the driver's errors in words. */
#include "device/cuda/api.h"

#include <dlfcn.h>

#include "device/cuda/blas_api.h"

/* The first of the names that can be loaded, NULL at their end. */
static void *open_library(const char *const *names)
{
    void *library = NULL;
    for (int i = 0; names[i] && !library; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    return library;
}

#define LOAD(name, parameters)                                                                                                    \
    *(void **)&loaded.name = dlsym(loaded.library, #name);                                                                        \
    if (!loaded.name) {                                                                                                           \
        dlclose(loaded.library);                                                                                                  \
        return zn_fail(ZN_ERR_UNSUPPORTED, "%s has no %s: a later version is needed", library_name, #name);                       \
    }

zn_status zn_cu_load(struct zn_cu_api *api)
{
    static const char *const library_name = "libcuda.so.1";
    const char *const names[] = {library_name, NULL};
    struct zn_cu_api loaded = {.library = open_library(names)};
    if (!loaded.library)
        return zn_fail(ZN_ERR_UNSUPPORTED, "NVIDIA's driver is not installed: %s cannot be loaded (%s)", library_name, dlerror());
    ZN_CU_FUNCTIONS(LOAD)
    *api = loaded;
    return ZN_OK;
}

zn_status zn_nvrtc_load(struct zn_nvrtc_api *api)
{
    static const char *const library_name = "libnvrtc.so";
    const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", library_name, NULL};
    struct zn_nvrtc_api loaded = {.library = open_library(names)};
    if (!loaded.library)
        return zn_fail(ZN_ERR_UNSUPPORTED, "the kernels for CUDA are not in this build, which had no clang, and NVRTC is not installed, "
                                           "which would compile them now: %s cannot be loaded (%s)", library_name, dlerror());
    ZN_NVRTC_FUNCTIONS(LOAD)
    *api = loaded;
    return ZN_OK;
}

zn_status zn_lt_load(struct zn_lt_api *api)
{
    static const char *const library_name = "libcublasLt.so";
    const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12", library_name, NULL};
    struct zn_lt_api loaded = {.library = open_library(names)};
    if (!loaded.library)
        return zn_fail(ZN_ERR_UNSUPPORTED, "--math fast: cuBLASLt is not installed: %s cannot be loaded (%s); --math exact needs no library",
                       library_name, dlerror());
    ZN_LT_FUNCTIONS(LOAD)
    *api = loaded;
    return ZN_OK;
}

zn_status zn_cu_check(const struct zn_cu_api *api, zn_cu_enum result, const char *call)
{
    const char *name = NULL, *text = NULL;
    if (result == ZN_CUDA_SUCCESS)
        return ZN_OK;
    if (api->cuGetErrorName(result, &name) != ZN_CUDA_SUCCESS || !name)
        name = "an error without a name";
    if (api->cuGetErrorString(result, &text) != ZN_CUDA_SUCCESS || !text)
        text = "see cuda.h";
    return zn_fail(result == ZN_CUDA_ERROR_OUT_OF_MEMORY ? ZN_ERR_MEMORY : ZN_ERR_IO, "CUDA: %s gave %u (%s: %s)", call, result, name,
                   text);
}
