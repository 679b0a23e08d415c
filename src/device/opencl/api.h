/* The part of OpenCL 1.2 that is used, declared here so that no header of it is needed to build: the library is loaded at run
 * time. Types and functions have the names and shapes of CL/cl.h; a test holds them against it. */
#ifndef ZN_DEVICE_OPENCL_API_H
#define ZN_DEVICE_OPENCL_API_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef int32_t cl_int;
typedef uint32_t cl_uint;
typedef uint64_t cl_ulong;
typedef cl_uint cl_bool;
typedef cl_ulong cl_bitfield;
typedef struct _cl_platform_id *cl_platform_id;
typedef struct _cl_device_id *cl_device_id;
typedef struct _cl_context *cl_context;
typedef struct _cl_command_queue *cl_command_queue;
typedef struct _cl_mem *cl_mem;
typedef struct _cl_program *cl_program;
typedef struct _cl_kernel *cl_kernel;
typedef struct _cl_event *cl_event;

enum {
    ZN_CL_DEVICE_NOT_FOUND = -1,
    ZN_CL_PLATFORM_NOT_FOUND = -1001,
    ZN_CL_TRUE = 1,
    ZN_CL_PLATFORM_NAME = 0x0902,
    ZN_CL_DEVICE_MAX_MEM_ALLOC_SIZE = 0x1010,
    ZN_CL_DEVICE_GLOBAL_MEM_SIZE = 0x101F,
    ZN_CL_DEVICE_LOCAL_MEM_SIZE = 0x1023,
    ZN_CL_DEVICE_ENDIAN_LITTLE = 0x1026,
    ZN_CL_DEVICE_AVAILABLE = 0x1027,
    ZN_CL_DEVICE_COMPILER_AVAILABLE = 0x1028,
    ZN_CL_DEVICE_NAME = 0x102B,
    ZN_CL_DEVICE_VERSION = 0x102F,
    ZN_CL_DEVICE_SINGLE_FP_CONFIG = 0x101B,
    ZN_CL_DEVICE_DOUBLE_FP_CONFIG = 0x1032,
    ZN_CL_DEVICE_HOST_UNIFIED_MEMORY = 0x1035,
    ZN_CL_FP_DENORM = 1 << 0,
    ZN_CL_FP_FMA = 1 << 5,
    ZN_CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT = 1 << 7,
    ZN_CL_MEM_READ_WRITE = 1 << 0,
    ZN_CL_PROGRAM_BUILD_LOG = 0x1183,
};
#define ZN_CL_DEVICE_TYPE_ALL 0xFFFFFFFFu

/* Result, name, parameters. */
#define ZN_CL_FUNCTIONS(X)                                                                                                        \
    X(cl_int, clGetPlatformIDs, (cl_uint n, cl_platform_id *platforms, cl_uint *n_there))                                         \
    X(cl_int, clGetPlatformInfo, (cl_platform_id platform, cl_uint what, size_t size, void *value, size_t *size_there))           \
    X(cl_int, clGetDeviceIDs, (cl_platform_id platform, cl_bitfield type, cl_uint n, cl_device_id *devices, cl_uint *n_there))    \
    X(cl_int, clGetDeviceInfo, (cl_device_id device, cl_uint what, size_t size, void *value, size_t *size_there))                 \
    X(cl_context, clCreateContext,                                                                                                \
      (const intptr_t *properties, cl_uint n, const cl_device_id *devices,                                                        \
       void (*notify)(const char *text, const void *private_info, size_t size, void *user), void *user, cl_int *error))           \
    X(cl_int, clReleaseContext, (cl_context context))                                                                             \
    X(cl_command_queue, clCreateCommandQueue, (cl_context context, cl_device_id device, cl_bitfield properties, cl_int *error))   \
    X(cl_int, clReleaseCommandQueue, (cl_command_queue queue))                                                                    \
    X(cl_mem, clCreateBuffer, (cl_context context, cl_bitfield flags, size_t size, void *host, cl_int *error))                    \
    X(cl_int, clReleaseMemObject, (cl_mem memory))                                                                                \
    X(cl_program, clCreateProgramWithSource,                                                                                      \
      (cl_context context, cl_uint n, const char **texts, const size_t *lengths, cl_int *error))                                  \
    X(cl_int, clBuildProgram,                                                                                                     \
      (cl_program program, cl_uint n, const cl_device_id *devices, const char *options,                                           \
       void (*notify)(cl_program program, void *user), void *user))                                                               \
    X(cl_int, clGetProgramBuildInfo,                                                                                              \
      (cl_program program, cl_device_id device, cl_uint what, size_t size, void *value, size_t *size_there))                      \
    X(cl_int, clReleaseProgram, (cl_program program))                                                                             \
    X(cl_kernel, clCreateKernel, (cl_program program, const char *name, cl_int *error))                                           \
    X(cl_int, clReleaseKernel, (cl_kernel function))                                                                              \
    X(cl_int, clSetKernelArg, (cl_kernel function, cl_uint index, size_t size, const void *value))                                \
    X(cl_int, clEnqueueNDRangeKernel,                                                                                             \
      (cl_command_queue queue, cl_kernel function, cl_uint n_dimensions, const size_t *offset, const size_t *global,              \
       const size_t *local, cl_uint n_after, const cl_event *after, cl_event *done))                                              \
    X(cl_int, clEnqueueFillBuffer,                                                                                                \
      (cl_command_queue queue, cl_mem memory, const void *pattern, size_t pattern_size, size_t offset, size_t size,               \
       cl_uint n_after, const cl_event *after, cl_event *done))                                                                   \
    X(cl_int, clEnqueueCopyBuffer,                                                                                                \
      (cl_command_queue queue, cl_mem from, cl_mem to, size_t from_offset, size_t to_offset, size_t size, cl_uint n_after,        \
       const cl_event *after, cl_event *done))                                                                                    \
    X(cl_int, clEnqueueReadBuffer,                                                                                                \
      (cl_command_queue queue, cl_mem memory, cl_bool blocks, size_t offset, size_t size, void *to, cl_uint n_after,              \
       const cl_event *after, cl_event *done))                                                                                    \
    X(cl_int, clEnqueueWriteBuffer,                                                                                               \
      (cl_command_queue queue, cl_mem memory, cl_bool blocks, size_t offset, size_t size, const void *from, cl_uint n_after,      \
       const cl_event *after, cl_event *done))                                                                                    \
    X(cl_int, clEnqueueMarkerWithWaitList, (cl_command_queue queue, cl_uint n_after, const cl_event *after, cl_event *done))      \
    X(cl_int, clWaitForEvents, (cl_uint n, const cl_event *events))                                                               \
    X(cl_int, clReleaseEvent, (cl_event event))                                                                                   \
    X(cl_int, clFlush, (cl_command_queue queue))                                                                                  \
    X(cl_int, clFinish, (cl_command_queue queue))

struct zn_cl_api {
    void *library;
#define ZN_CL_MEMBER(result, name, parameters) result(*name) parameters;
    ZN_CL_FUNCTIONS(ZN_CL_MEMBER)
#undef ZN_CL_MEMBER
};

/* Loads libOpenCL.so.1, which stays loaded as long as the program: implementations do not end cleanly before it. Fails with what is
 * missing. */
zn_status zn_cl_load(struct zn_cl_api *api);

/* ZN_OK, or a failure that names the call and the cause. */
zn_status zn_cl_check(cl_int error, const char *call);

#endif
