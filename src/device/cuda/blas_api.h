/* The part of cuBLASLt that is used, loaded at run time as device/cuda/api.h is. Its descriptors are pointers to the library's own memory. */
#ifndef ZN_DEVICE_CUDA_BLAS_API_H
#define ZN_DEVICE_CUDA_BLAS_API_H

#include "device/cuda/api.h"

typedef void *zn_lt_object; /* a handle, description, layout or preference */

struct zn_lt_algo {
    uint64_t data[8];
};

struct zn_lt_candidate {
    struct zn_lt_algo algo;
    size_t workspace_bytes;
    zn_cu_enum state; /* 0: it can be used */
    float waves;
    int reserved[4];
};

enum {
    ZN_CUDA_R_32F = 0,
    ZN_CUBLAS_COMPUTE_32F = 68,
    ZN_CUBLAS_OP_N = 0,
    ZN_CUBLAS_OP_T = 1,
    ZN_CUBLASLT_MATMUL_DESC_TRANSA = 3,
    ZN_CUBLASLT_MATMUL_DESC_TRANSB = 4,
    ZN_CUBLASLT_MATMUL_DESC_EPILOGUE = 7,
    ZN_CUBLASLT_MATMUL_DESC_BIAS_POINTER = 8,
    ZN_CUBLASLT_EPILOGUE_DEFAULT = 1,
    ZN_CUBLASLT_EPILOGUE_BIAS = 4,
    ZN_CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1,
    ZN_CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK = 3,
    ZN_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5,
    ZN_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES = 6,
    ZN_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES = 7,
    ZN_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES = 8,
    ZN_CUBLASLT_REDUCTION_SCHEME_NONE = 0,
    ZN_CUBLASLT_ALGO_CONFIG_SPLITK_NUM = 2,
};

/* Name and parameters; all give a cublasStatus_t. */
#define ZN_LT_FUNCTIONS(X)                                                                                                        \
    X(cublasLtCreate, (zn_lt_object * handle))                                                                                    \
    X(cublasLtDestroy, (zn_lt_object handle))                                                                                     \
    X(cublasLtMatmulDescCreate, (zn_lt_object * description, zn_cu_enum compute, zn_cu_enum scale))                               \
    X(cublasLtMatmulDescDestroy, (zn_lt_object description))                                                                      \
    X(cublasLtMatmulDescSetAttribute, (zn_lt_object description, zn_cu_enum attribute, const void *value, size_t n_bytes))        \
    X(cublasLtMatrixLayoutCreate, (zn_lt_object * layout, zn_cu_enum type, uint64_t rows, uint64_t cols, int64_t stride))         \
    X(cublasLtMatrixLayoutDestroy, (zn_lt_object layout))                                                                         \
    X(cublasLtMatmulPreferenceCreate, (zn_lt_object * preference))                                                                \
    X(cublasLtMatmulPreferenceDestroy, (zn_lt_object preference))                                                                 \
    X(cublasLtMatmulPreferenceSetAttribute, (zn_lt_object preference, zn_cu_enum attribute, const void *value, size_t n_bytes))   \
    X(cublasLtMatmulAlgoGetHeuristic,                                                                                             \
      (zn_lt_object handle, zn_lt_object description, zn_lt_object a, zn_lt_object b, zn_lt_object c, zn_lt_object d,             \
       zn_lt_object preference, int n_asked, struct zn_lt_candidate *candidates, int *n))                                         \
    X(cublasLtMatmulAlgoConfigGetAttribute,                                                                                       \
      (const struct zn_lt_algo *algo, zn_cu_enum attribute, void *value, size_t n_bytes, size_t *n_written))                      \
    X(cublasLtMatmul, (zn_lt_object handle, zn_lt_object description, const void *alpha, const void *a, zn_lt_object a_layout,    \
                       const void *b, zn_lt_object b_layout, const void *beta, const void *c, zn_lt_object c_layout, void *d,     \
                       zn_lt_object d_layout, const struct zn_lt_algo *algo, void *workspace, size_t workspace_bytes,             \
                       zn_cu_stream stream))

struct zn_lt_api {
    void *library;
#define ZN_LT_MEMBER(name, parameters) zn_cu_enum(*name) parameters;
    ZN_LT_FUNCTIONS(ZN_LT_MEMBER)
#undef ZN_LT_MEMBER
};

/* Loads libcublasLt, which stays loaded. Fails with what is missing. */
zn_status zn_lt_load(struct zn_lt_api *api);

#endif
