/* Loading of the OpenCL library, and its errors in words. */
#include "device/opencl/api.h"

#include <dlfcn.h>

static const char *const library_name = "libOpenCL.so.1";

zn_status zn_cl_load(struct zn_cl_api *api)
{
    void *library = dlopen(library_name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library)
        return zn_fail(ZN_ERR_UNSUPPORTED, "OpenCL is not installed: %s cannot be loaded (%s); install an OpenCL loader and the "
                                           "device's driver (Debian: ocl-icd-libopencl1; PoCL, for processors: pocl-opencl-icd)",
                       library_name, dlerror());
    struct zn_cl_api loaded = {.library = library};
#define LOAD(result, name, parameters)                                                                                            \
    *(void **)&loaded.name = dlsym(library, #name);                                                                               \
    if (!loaded.name) {                                                                                                           \
        dlclose(library);                                                                                                         \
        return zn_fail(ZN_ERR_UNSUPPORTED, "%s has no %s: OpenCL 1.2 or later is needed", library_name, #name);                   \
    }
    ZN_CL_FUNCTIONS(LOAD)
#undef LOAD
    *api = loaded;
    return ZN_OK;
}

static const char *name_of(cl_int error)
{
    switch (error) {
    case -4: return "CL_MEM_OBJECT_ALLOCATION_FAILURE: the device has no memory for it";
    case -5: return "CL_OUT_OF_RESOURCES";
    case -6: return "CL_OUT_OF_HOST_MEMORY";
    case -11: return "CL_BUILD_PROGRAM_FAILURE";
    case -14: return "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST";
    case -30: return "CL_INVALID_VALUE";
    case -36: return "CL_INVALID_COMMAND_QUEUE";
    case -38: return "CL_INVALID_MEM_OBJECT";
    case -54: return "CL_INVALID_WORK_GROUP_SIZE";
    case -61: return "CL_INVALID_BUFFER_SIZE";
    default: return "see CL/cl.h";
    }
}

zn_status zn_cl_check(cl_int error, const char *call)
{
    if (error == 0)
        return ZN_OK;
    zn_status code = error == -4 || error == -6 ? ZN_ERR_MEMORY : ZN_ERR_IO;
    return zn_fail(code, "OpenCL: %s gave %d (%s)", call, (int)error, name_of(error));
}
