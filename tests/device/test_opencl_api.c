/* The declarations of device/opencl/api.h against the headers of OpenCL, where these are installed. */
#include <stdio.h>
#if __has_include(<CL/cl.h>)
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include "device/opencl/api.h"

#define SAME_FUNCTION(result, name, parameters)                                                                                   \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&name), __typeof__(((struct zn_cl_api *)0)->name)), #name);
ZN_CL_FUNCTIONS(SAME_FUNCTION)

#define SAME_NUMBER(name) _Static_assert((unsigned long long)ZN_##name == (unsigned long long)name, #name);
SAME_NUMBER(CL_DEVICE_NOT_FOUND)
SAME_NUMBER(CL_TRUE)
SAME_NUMBER(CL_PLATFORM_NAME)
SAME_NUMBER(CL_DEVICE_MAX_MEM_ALLOC_SIZE)
SAME_NUMBER(CL_DEVICE_GLOBAL_MEM_SIZE)
SAME_NUMBER(CL_DEVICE_LOCAL_MEM_SIZE)
SAME_NUMBER(CL_DEVICE_ENDIAN_LITTLE)
SAME_NUMBER(CL_DEVICE_AVAILABLE)
SAME_NUMBER(CL_DEVICE_COMPILER_AVAILABLE)
SAME_NUMBER(CL_DEVICE_NAME)
SAME_NUMBER(CL_DEVICE_VERSION)
SAME_NUMBER(CL_DEVICE_SINGLE_FP_CONFIG)
SAME_NUMBER(CL_DEVICE_DOUBLE_FP_CONFIG)
SAME_NUMBER(CL_DEVICE_HOST_UNIFIED_MEMORY)
SAME_NUMBER(CL_FP_DENORM)
SAME_NUMBER(CL_FP_FMA)
SAME_NUMBER(CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT)
SAME_NUMBER(CL_MEM_READ_WRITE)
SAME_NUMBER(CL_PROGRAM_BUILD_LOG)
SAME_NUMBER(CL_DEVICE_TYPE_ALL)

int main(void)
{
    puts("all declarations agree");
    return 0;
}
#else
int main(void)
{
    puts("no headers of OpenCL");
    return 77;
}
#endif
