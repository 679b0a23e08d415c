/* The declarations of device/cuda/api.h against the headers of CUDA, where these are installed. */
#include <stdio.h>
#if __has_include(<cuda.h>) && __has_include(<nvrtc.h>) && __has_include(<cublasLt.h>)
#include <cuda.h>
#include <cublasLt.h>
#include <nvrtc.h>
#include <stddef.h>

#include "device/cuda/api.h"
#include "device/cuda/blas_api.h"

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

SAME_NUMBER(CUDA_R_32F)
SAME_NUMBER(CUBLAS_COMPUTE_32F)
SAME_NUMBER(CUBLAS_OP_N)
SAME_NUMBER(CUBLAS_OP_T)
SAME_NUMBER(CUBLASLT_MATMUL_DESC_TRANSA)
SAME_NUMBER(CUBLASLT_MATMUL_DESC_TRANSB)
SAME_NUMBER(CUBLASLT_MATMUL_DESC_EPILOGUE)
SAME_NUMBER(CUBLASLT_MATMUL_DESC_BIAS_POINTER)
SAME_NUMBER(CUBLASLT_EPILOGUE_DEFAULT)
SAME_NUMBER(CUBLASLT_EPILOGUE_BIAS)
SAME_NUMBER(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
SAME_NUMBER(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK)
SAME_NUMBER(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES)
SAME_NUMBER(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES)
SAME_NUMBER(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES)
SAME_NUMBER(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES)
SAME_NUMBER(CUBLASLT_REDUCTION_SCHEME_NONE)
SAME_NUMBER(CUBLASLT_ALGO_CONFIG_SPLITK_NUM)
_Static_assert(sizeof(struct zn_lt_algo) == sizeof(cublasLtMatmulAlgo_t), "an algorithm");
_Static_assert(sizeof(struct zn_lt_candidate) == sizeof(cublasLtMatmulHeuristicResult_t), "a candidate");
_Static_assert(offsetof(struct zn_lt_candidate, workspace_bytes) == offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize), "its workspace");
_Static_assert(offsetof(struct zn_lt_candidate, state) == offsetof(cublasLtMatmulHeuristicResult_t, state), "its state");

/* cuBLASLt's descriptors have no names of their own, so its functions are compared with their descriptors as they are there. */
#define SHAPE(name, ...) _Static_assert(__builtin_types_compatible_p(__typeof__(name), zn_cu_enum(__VA_ARGS__)), #name);
typedef cublasLtMatmulDesc_t description;
typedef cublasLtMatrixLayout_t layout;
typedef cublasLtMatmulPreference_t preference;
SHAPE(cublasLtCreate, cublasLtHandle_t *)
SHAPE(cublasLtDestroy, cublasLtHandle_t)
SHAPE(cublasLtMatmulDescCreate, description *, zn_cu_enum, zn_cu_enum)
SHAPE(cublasLtMatmulDescDestroy, description)
SHAPE(cublasLtMatmulDescSetAttribute, description, zn_cu_enum, const void *, size_t)
SHAPE(cublasLtMatrixLayoutCreate, layout *, zn_cu_enum, uint64_t, uint64_t, int64_t)
SHAPE(cublasLtMatrixLayoutDestroy, layout)
SHAPE(cublasLtMatmulPreferenceCreate, preference *)
SHAPE(cublasLtMatmulPreferenceDestroy, preference)
SHAPE(cublasLtMatmulPreferenceSetAttribute, preference, zn_cu_enum, const void *, size_t)
SHAPE(cublasLtMatmulAlgoGetHeuristic, cublasLtHandle_t, description, layout, layout, layout, layout, preference, int,
      cublasLtMatmulHeuristicResult_t *, int *)
SHAPE(cublasLtMatmulAlgoConfigGetAttribute, const cublasLtMatmulAlgo_t *, zn_cu_enum, void *, size_t, size_t *)
SHAPE(cublasLtMatmul, cublasLtHandle_t, description, const void *, const void *, layout, const void *, layout, const void *, const void *,
      layout, void *, layout, const cublasLtMatmulAlgo_t *, void *, size_t, zn_cu_stream)

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
