/* A stand-in for cuBLASLt: products summed in double. Its first candidates are such that the backend must not take: one splits k, one cannot
 * be used; pointers must have the alignment that was promised. */
#include <stdlib.h>
#include <string.h>

#include "device/cuda/blas_api.h"
#include "standin/standin.h"

#define EXPORT(name, parameters) __attribute__((visibility("default"))) zn_cu_enum name parameters;
ZN_LT_FUNCTIONS(EXPORT)

enum { INVALID_VALUE = 7, NOT_SUPPORTED = 15, MAX_ATTRIBUTE = 64 };

/* A description or a preference: numbers by attribute. A layout: its sizes. */
struct object {
    uint64_t attributes[MAX_ATTRIBUTE];
    int64_t rows, cols, stride;
};

/* What an algorithm's words are. */
enum { SPLITS, ALIGN_A, ALIGN_B, ALIGN_C };

static zn_cu_enum create(zn_lt_object *object)
{
    *object = calloc(1, sizeof(struct object));
    return *object ? 0 : INVALID_VALUE;
}

static zn_cu_enum destroy(zn_lt_object object)
{
    free(object);
    return 0;
}

static zn_cu_enum set_attribute(struct object *object, zn_cu_enum attribute, const void *value, size_t n_bytes)
{
    if (attribute >= MAX_ATTRIBUTE || n_bytes > sizeof(uint64_t))
        return INVALID_VALUE;
    object->attributes[attribute] = 0;
    memcpy(&object->attributes[attribute], value, n_bytes); /* little-endian, as the device */
    return 0;
}

zn_cu_enum cublasLtCreate(zn_lt_object *handle)
{
    return create(handle);
}

zn_cu_enum cublasLtDestroy(zn_lt_object handle)
{
    return destroy(handle);
}

zn_cu_enum cublasLtMatmulDescCreate(zn_lt_object *description, zn_cu_enum compute, zn_cu_enum scale)
{
    return compute == ZN_CUBLAS_COMPUTE_32F && scale == ZN_CUDA_R_32F ? create(description) : NOT_SUPPORTED;
}

zn_cu_enum cublasLtMatmulDescDestroy(zn_lt_object description)
{
    return destroy(description);
}

zn_cu_enum cublasLtMatmulDescSetAttribute(zn_lt_object description, zn_cu_enum attribute, const void *value, size_t n_bytes)
{
    return set_attribute(description, attribute, value, n_bytes);
}

zn_cu_enum cublasLtMatrixLayoutCreate(zn_lt_object *layout, zn_cu_enum type, uint64_t rows, uint64_t cols, int64_t stride)
{
    if (type != ZN_CUDA_R_32F || rows == 0 || cols == 0 || stride < (int64_t)rows || create(layout) != 0)
        return INVALID_VALUE;
    struct object *o = *layout;
    o->rows = (int64_t)rows;
    o->cols = (int64_t)cols;
    o->stride = stride;
    return 0;
}

zn_cu_enum cublasLtMatrixLayoutDestroy(zn_lt_object layout)
{
    return destroy(layout);
}

zn_cu_enum cublasLtMatmulPreferenceCreate(zn_lt_object *preference)
{
    if (create(preference) != 0)
        return INVALID_VALUE;
    struct object *o = *preference;
    o->attributes[ZN_CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK] = 7; /* all */
    for (int i = 0; i < 4; i++)
        o->attributes[ZN_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + i] = 256;
    return 0;
}

zn_cu_enum cublasLtMatmulPreferenceDestroy(zn_lt_object preference)
{
    return destroy(preference);
}

zn_cu_enum cublasLtMatmulPreferenceSetAttribute(zn_lt_object preference, zn_cu_enum attribute, const void *value, size_t n_bytes)
{
    return set_attribute(preference, attribute, value, n_bytes);
}

zn_cu_enum cublasLtMatmulAlgoGetHeuristic(zn_lt_object handle, zn_lt_object description, zn_lt_object a, zn_lt_object b, zn_lt_object c,
                                          zn_lt_object d, zn_lt_object preference, int n_asked, struct zn_lt_candidate *candidates, int *n)
{
    const uint64_t *wanted = ((struct object *)preference)->attributes;
    if (!handle || !description || !a || !b || c != d || n_asked < 3 || wanted[ZN_CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK] != 0)
        return INVALID_VALUE;
    for (int i = 0; i < 3; i++) {
        candidates[i] = (struct zn_lt_candidate){.state = i == 1 ? NOT_SUPPORTED : 0};
        candidates[i].algo.data[SPLITS] = i == 0 ? 4 : 1;
        for (int x = 0; x < 3; x++)
            candidates[i].algo.data[ALIGN_A + x] = wanted[ZN_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + x];
    }
    *n = 3;
    return 0;
}

zn_cu_enum cublasLtMatmulAlgoConfigGetAttribute(const struct zn_lt_algo *algo, zn_cu_enum attribute, void *value, size_t n_bytes,
                                                size_t *n_written)
{
    int32_t n_splits = (int32_t)algo->data[SPLITS];
    if (attribute != ZN_CUBLASLT_ALGO_CONFIG_SPLITK_NUM || n_bytes != sizeof n_splits)
        return INVALID_VALUE;
    memcpy(value, &n_splits, n_bytes);
    *n_written = n_bytes;
    return 0;
}

struct matmul {
    struct object description, layouts[3];
    zn_cu_address a, b, c;
    float beta;
};

/* Column-major D = op(A) × op(B) + beta × C + bias. */
static void run_matmul(void *arg)
{
    struct matmul *t = arg;
    const struct object *d = &t->layouts[2];
    bool flips_a = t->description.attributes[ZN_CUBLASLT_MATMUL_DESC_TRANSA] == ZN_CUBLAS_OP_T;
    bool flips_b = t->description.attributes[ZN_CUBLASLT_MATMUL_DESC_TRANSB] == ZN_CUBLAS_OP_T;
    bool has_bias = t->description.attributes[ZN_CUBLASLT_MATMUL_DESC_EPILOGUE] == ZN_CUBLASLT_EPILOGUE_BIAS;
    const float *a = device_pointer(t->a, 4), *b = device_pointer(t->b, 4);
    const float *bias = has_bias ? device_pointer(t->description.attributes[ZN_CUBLASLT_MATMUL_DESC_BIAS_POINTER], 4) : NULL;
    float *c = device_pointer(t->c, 4);
    int64_t depth = flips_a ? t->layouts[0].rows : t->layouts[0].cols, a_stride = t->layouts[0].stride, b_stride = t->layouts[1].stride;
    bool is_legal = a && b && c && (bias || !has_bias);
    if (!is_legal)
        set_sticky_error(ZN_CUDA_ERROR_ILLEGAL_ADDRESS);
    enter_device();
    for (int64_t col = 0; col < d->cols && is_legal; col++)
        for (int64_t row = 0; row < d->rows; row++) {
            double sum = 0;
            for (int64_t k = 0; k < depth; k++)
                sum += (double)a[flips_a ? row * a_stride + k : k * a_stride + row] *
                       (double)b[flips_b ? k * b_stride + col : col * b_stride + k];
            float *at = &c[col * d->stride + row];
            *at = (float)(sum + (t->beta != 0 ? (double)t->beta * (double)*at : 0) + (bias ? (double)bias[row] : 0));
        }
    leave_device();
    free(t);
}

zn_cu_enum cublasLtMatmul(zn_lt_object handle, zn_lt_object description, const void *alpha, const void *a, zn_lt_object a_layout,
                          const void *b, zn_lt_object b_layout, const void *beta, const void *c, zn_lt_object c_layout, void *d,
                          zn_lt_object d_layout, const struct zn_lt_algo *algo, void *workspace, size_t workspace_bytes, zn_cu_stream stream)
{
    const uint64_t *aligned = algo->data;
    if (!handle || *(const float *)alpha != 1 || c != d || c_layout != d_layout || aligned[SPLITS] != 1 ||
        (uintptr_t)a % aligned[ALIGN_A] || (uintptr_t)b % aligned[ALIGN_B] || (uintptr_t)d % aligned[ALIGN_C] ||
        !device_pointer((zn_cu_address)(uintptr_t)workspace, workspace_bytes))
        return INVALID_VALUE;
    struct matmul *t = malloc(sizeof *t);
    if (!t)
        return INVALID_VALUE;
    *t = (struct matmul){.description = *(struct object *)description,
                         .layouts = {*(struct object *)a_layout, *(struct object *)b_layout, *(struct object *)c_layout},
                         .a = (zn_cu_address)(uintptr_t)a, .b = (zn_cu_address)(uintptr_t)b, .c = (zn_cu_address)(uintptr_t)d,
                         .beta = *(const float *)beta};
    return push_call(stream, run_matmul, t) ? INVALID_VALUE : 0;
}
