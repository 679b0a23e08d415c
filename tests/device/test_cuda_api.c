/* The declarations of device/cuda/api.h against the headers of CUDA, where these are installed. */
#include <stdio.h>
#if __has_include(<cuda.h>) && __has_include(<nvrtc.h>)
#include <cuda.h>
#include <nvrtc.h>

#include "device/cuda/api.h"

/* Enumerations are numbers there: results of a function are, and parameters. */
#define SAME_FUNCTION(name, parameters)                                                                                           \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&name), __typeof__(((struct zn_cu_api *)0)->name)), #name);
ZN_CU_FUNCTIONS(SAME_FUNCTION)
#undef SAME_FUNCTION
#define SAME_FUNCTION(name, parameters)                                                                                           \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&name), __typeof__(((struct zn_nvrtc_api *)0)->name)), #name);
ZN_NVRTC_FUNCTIONS(SAME_FUNCTION)

#define SAME_NUMBER(name) _Static_assert((unsigned long long)ZN_##name == (unsigned long long)name, #name);
SAME_NUMBER(CUDA_SUCCESS)
SAME_NUMBER(CUDA_ERROR_INVALID_VALUE)
SAME_NUMBER(CUDA_ERROR_OUT_OF_MEMORY)
SAME_NUMBER(CUDA_ERROR_NOT_INITIALIZED)
SAME_NUMBER(CUDA_ERROR_NO_DEVICE)
SAME_NUMBER(CUDA_ERROR_INVALID_DEVICE)
SAME_NUMBER(CUDA_ERROR_INVALID_CONTEXT)
SAME_NUMBER(CUDA_ERROR_ECC_UNCORRECTABLE)
SAME_NUMBER(CUDA_ERROR_INVALID_PTX)
SAME_NUMBER(CUDA_ERROR_INVALID_HANDLE)
SAME_NUMBER(CUDA_ERROR_NOT_FOUND)
SAME_NUMBER(CUDA_ERROR_ILLEGAL_ADDRESS)
SAME_NUMBER(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES)
SAME_NUMBER(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED)
SAME_NUMBER(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED)
SAME_NUMBER(CUDA_ERROR_LAUNCH_FAILED)
SAME_NUMBER(CUDA_ERROR_NOT_SUPPORTED)
SAME_NUMBER(CU_DEVICE_ATTRIBUTE_INTEGRATED)
SAME_NUMBER(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
SAME_NUMBER(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
SAME_NUMBER(CU_CTX_SCHED_BLOCKING_SYNC)
SAME_NUMBER(CU_STREAM_NON_BLOCKING)
SAME_NUMBER(CU_EVENT_BLOCKING_SYNC)
SAME_NUMBER(CU_EVENT_DISABLE_TIMING)
SAME_NUMBER(CU_MEMHOSTREGISTER_PORTABLE)
SAME_NUMBER(CU_MEMHOSTALLOC_PORTABLE)
SAME_NUMBER(CU_JIT_ERROR_LOG_BUFFER)
SAME_NUMBER(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)

int main(void)
{
    puts("all declarations agree");
    return 0;
}
#else
int main(void)
{
    puts("no headers of CUDA");
    return 77;
}
#endif
