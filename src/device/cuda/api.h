/* The part of CUDA's driver and of NVRTC that is used, declared here so that no toolkit is needed to build: the libraries are loaded at
 * run time. Functions have the names and shapes of cuda.h and nvrtc.h, whose enumerations are plain numbers here; a test holds them
 * against the headers. */
#ifndef ZN_DEVICE_CUDA_API_H
#define ZN_DEVICE_CUDA_API_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef unsigned zn_cu_enum; /* CUresult, CUdevice_attribute … */
typedef int zn_cu_device;
typedef unsigned long long zn_cu_address;
typedef struct CUctx_st *zn_cu_context;
typedef struct CUmod_st *zn_cu_module;
typedef struct CUfunc_st *zn_cu_function;
typedef struct CUstream_st *zn_cu_stream;
typedef struct CUevent_st *zn_cu_event;
typedef struct _nvrtcProgram *zn_nvrtc_program;

enum {
    ZN_CUDA_SUCCESS = 0,
    ZN_CUDA_ERROR_INVALID_VALUE = 1,
    ZN_CUDA_ERROR_OUT_OF_MEMORY = 2,
    ZN_CUDA_ERROR_NOT_INITIALIZED = 3,
    ZN_CUDA_ERROR_NO_DEVICE = 100,
    ZN_CUDA_ERROR_INVALID_DEVICE = 101,
    ZN_CUDA_ERROR_INVALID_CONTEXT = 201,
    ZN_CUDA_ERROR_ECC_UNCORRECTABLE = 214,
    ZN_CUDA_ERROR_INVALID_PTX = 218,
    ZN_CUDA_ERROR_INVALID_HANDLE = 400,
    ZN_CUDA_ERROR_NOT_FOUND = 500,
    ZN_CUDA_ERROR_ILLEGAL_ADDRESS = 700,
    ZN_CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701,
    ZN_CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712,
    ZN_CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED = 713,
    ZN_CUDA_ERROR_LAUNCH_FAILED = 719,
    ZN_CUDA_ERROR_NOT_SUPPORTED = 801,
    ZN_CU_DEVICE_ATTRIBUTE_INTEGRATED = 18,
    ZN_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
    ZN_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
    ZN_CU_CTX_SCHED_BLOCKING_SYNC = 4,
    ZN_CU_STREAM_NON_BLOCKING = 1,
    ZN_CU_EVENT_BLOCKING_SYNC = 1,
    ZN_CU_EVENT_DISABLE_TIMING = 2,
    ZN_CU_MEMHOSTREGISTER_PORTABLE = 1,
    ZN_CU_MEMHOSTALLOC_PORTABLE = 1,
    ZN_CU_JIT_ERROR_LOG_BUFFER = 5,
    ZN_CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6,
};

/* Name and parameters; all give a CUresult. */
#define ZN_CU_FUNCTIONS(X)                                                                                                        \
    X(cuInit, (unsigned flags))                                                                                                   \
    X(cuDriverGetVersion, (int *version))                                                                                         \
    X(cuGetErrorName, (zn_cu_enum error, const char **name))                                                                      \
    X(cuGetErrorString, (zn_cu_enum error, const char **text))                                                                    \
    X(cuDeviceGetCount, (int *n))                                                                                                 \
    X(cuDeviceGet, (zn_cu_device * device, int index))                                                                            \
    X(cuDeviceGetName, (char *name, int size, zn_cu_device device))                                                               \
    X(cuDeviceTotalMem_v2, (size_t * n_bytes, zn_cu_device device))                                                               \
    X(cuDeviceGetAttribute, (int *value, zn_cu_enum attribute, zn_cu_device device))                                              \
    X(cuDevicePrimaryCtxRetain, (zn_cu_context * context, zn_cu_device device))                                                   \
    X(cuDevicePrimaryCtxRelease_v2, (zn_cu_device device))                                                                        \
    X(cuDevicePrimaryCtxSetFlags_v2, (zn_cu_device device, unsigned flags))                                                       \
    X(cuCtxSetCurrent, (zn_cu_context context))                                                                                   \
    X(cuMemGetInfo_v2, (size_t * free_bytes, size_t * n_bytes))                                                                   \
    X(cuMemAlloc_v2, (zn_cu_address * address, size_t n_bytes))                                                                   \
    X(cuMemFree_v2, (zn_cu_address address))                                                                                      \
    X(cuMemGetAddressRange_v2, (zn_cu_address * base, size_t * n_bytes, zn_cu_address address))                                   \
    X(cuMemHostAlloc, (void **memory, size_t n_bytes, unsigned flags))                                                            \
    X(cuMemFreeHost, (void *memory))                                                                                              \
    X(cuMemHostRegister_v2, (void *memory, size_t n_bytes, unsigned flags))                                                       \
    X(cuMemHostUnregister, (void *memory))                                                                                        \
    X(cuMemcpyHtoDAsync_v2, (zn_cu_address to, const void *from, size_t n_bytes, zn_cu_stream stream))                            \
    X(cuMemcpyDtoHAsync_v2, (void *to, zn_cu_address from, size_t n_bytes, zn_cu_stream stream))                                  \
    X(cuMemcpyDtoDAsync_v2, (zn_cu_address to, zn_cu_address from, size_t n_bytes, zn_cu_stream stream))                          \
    X(cuMemsetD8Async, (zn_cu_address to, unsigned char value, size_t n, zn_cu_stream stream))                                    \
    X(cuStreamCreate, (zn_cu_stream * stream, unsigned flags))                                                                    \
    X(cuStreamDestroy_v2, (zn_cu_stream stream))                                                                                  \
    X(cuStreamSynchronize, (zn_cu_stream stream))                                                                                 \
    X(cuStreamWaitEvent, (zn_cu_stream stream, zn_cu_event event, unsigned flags))                                                \
    X(cuEventCreate, (zn_cu_event * event, unsigned flags))                                                                       \
    X(cuEventDestroy_v2, (zn_cu_event event))                                                                                     \
    X(cuEventRecord, (zn_cu_event event, zn_cu_stream stream))                                                                    \
    X(cuEventSynchronize, (zn_cu_event event))                                                                                    \
    X(cuModuleLoadDataEx,                                                                                                         \
      (zn_cu_module * module, const void *image, unsigned n_options, zn_cu_enum *options, void **values))                         \
    X(cuModuleUnload, (zn_cu_module module))                                                                                      \
    X(cuModuleGetFunction, (zn_cu_function * function, zn_cu_module module, const char *name))                                    \
    X(cuLaunchKernel,                                                                                                             \
      (zn_cu_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,            \
       unsigned block_z, unsigned shared_bytes, zn_cu_stream stream, void **parameters, void **extra))

/* The same of NVRTC, which give an nvrtcResult. */
#define ZN_NVRTC_FUNCTIONS(X)                                                                                                     \
    X(nvrtcCreateProgram, (zn_nvrtc_program * program, const char *text, const char *name, int n_headers,                         \
                           const char *const *headers, const char *const *header_names))                                          \
    X(nvrtcCompileProgram, (zn_nvrtc_program program, int n_options, const char *const *options))                                 \
    X(nvrtcGetProgramLogSize, (zn_nvrtc_program program, size_t * n_bytes))                                                       \
    X(nvrtcGetProgramLog, (zn_nvrtc_program program, char *log))                                                                  \
    X(nvrtcGetPTXSize, (zn_nvrtc_program program, size_t * n_bytes))                                                              \
    X(nvrtcGetPTX, (zn_nvrtc_program program, char *ptx))                                                                         \
    X(nvrtcDestroyProgram, (zn_nvrtc_program * program))

#define ZN_CUDA_MEMBER(name, parameters) zn_cu_enum(*name) parameters;
struct zn_cu_api {
    void *library;
    ZN_CU_FUNCTIONS(ZN_CUDA_MEMBER)
};
struct zn_nvrtc_api {
    void *library;
    ZN_NVRTC_FUNCTIONS(ZN_CUDA_MEMBER)
};

/* Load libcuda.so.1 and libnvrtc, which stay loaded as long as the program. Fail with what is missing. */
zn_status zn_cu_load(struct zn_cu_api *api);
zn_status zn_nvrtc_load(struct zn_nvrtc_api *api);

/* ZN_OK, or a failure that names the call and the cause. */
zn_status zn_cu_check(const struct zn_cu_api *api, zn_cu_enum result, const char *call);

#endif
