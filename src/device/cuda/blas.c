/* Products by cuBLASLt, for --math fast.
 *
 * The library's matrices are column-major: row-major C = A × B is C' = B' × A' there, so B is its first operand and A its second. It takes
 * no fp32 A beside a 16-bit B: B is made fp32 in memory of our own, in pieces of its rows, by the cast kernel. A shape has one algorithm,
 * the first that the library offers without a split along k, as long as the device lives. */
#include <stdlib.h>
#include <string.h>

#include "device/cuda/private.h"

enum {
    WORKSPACE_BYTES = ZN_CUDA_FAST_BYTES / 2,
    BIAS_ELEMENTS = 1 << 20,
    WIDE_ELEMENTS = (ZN_CUDA_FAST_BYTES - WORKSPACE_BYTES) / 4 - BIAS_ELEMENTS,
    MAX_ALIGNMENT = 256,
    N_CANDIDATES = 16,
    N_BUCKETS = 256
};

/* A product of matrices that the library can take: row-major, fp32. */
struct product {
    int64_t m, n, k, a_stride, b_stride, c_stride;
    int32_t transpose_a, transpose_b, has_bias;
    uint32_t alignment[3]; /* of a, b and c */
};

struct shape {
    struct product product;
    zn_lt_object description, layouts[3]; /* of B, A and C */
    struct zn_lt_algo algo;
    struct shape *next;
};

struct cuda_blas {
    struct cuda_driver *driver;
    zn_lt_object handle;
    zn_cu_address memory; /* workspace, 16-bit operands in fp32, a bias in fp32 */
    struct shape *shapes[N_BUCKETS];
};

static zn_status check(zn_cu_enum result, const char *call)
{
    return result == 0 ? ZN_OK : zn_fail(ZN_ERR_IO, "cuBLASLt: %s gave %u (see cublas_api.h)", call, result);
}

#define LT_TRY(call, ...) ZN_TRY(check(lt->call(__VA_ARGS__), #call))

zn_status cuda_create_blas(struct cuda_driver *d, struct cuda_blas **blas)
{
    const struct zn_lt_api *lt = &d->cuda->lt;
    struct cuda_blas *b = calloc(1, sizeof *b);
    if (!b)
        return zn_fail(ZN_ERR_MEMORY, "no memory for cuBLASLt");
    b->driver = d;
    zn_status status = check(lt->cublasLtCreate(&b->handle), "cublasLtCreate");
    if (status == ZN_OK)
        status = zn_cu_check(&d->cuda->cu, d->cuda->cu.cuMemAlloc_v2(&b->memory, ZN_CUDA_FAST_BYTES), "memory for cuBLASLt");
    if (status != ZN_OK) {
        cuda_destroy_blas(b);
        return status;
    }
    *blas = b;
    return ZN_OK;
}

static void destroy_shape(const struct zn_lt_api *lt, struct shape *s)
{
    for (int i = 0; i < 3; i++)
        if (s->layouts[i])
            lt->cublasLtMatrixLayoutDestroy(s->layouts[i]);
    if (s->description)
        lt->cublasLtMatmulDescDestroy(s->description);
    free(s);
}

void cuda_destroy_blas(struct cuda_blas *b)
{
    if (!b)
        return;
    const zn_cuda *cuda = b->driver->cuda;
    for (int i = 0; i < N_BUCKETS; i++)
        for (struct shape *s = b->shapes[i], *next; s; s = next) {
            next = s->next;
            destroy_shape(&cuda->lt, s);
        }
    if (b->memory)
        cuda->cu.cuMemFree_v2(b->memory);
    if (b->handle)
        cuda->lt.cublasLtDestroy(b->handle);
    free(b);
}

static zn_status describe(const struct zn_lt_api *lt, struct shape *s)
{
    const struct product *p = &s->product;
    int32_t first = p->transpose_b ? ZN_CUBLAS_OP_T : ZN_CUBLAS_OP_N, second = p->transpose_a ? ZN_CUBLAS_OP_T : ZN_CUBLAS_OP_N;
    uint32_t epilogue = p->has_bias ? ZN_CUBLASLT_EPILOGUE_BIAS : ZN_CUBLASLT_EPILOGUE_DEFAULT;
    uint64_t m = (uint64_t)p->m, n = (uint64_t)p->n, k = (uint64_t)p->k;
    LT_TRY(cublasLtMatmulDescCreate, &s->description, ZN_CUBLAS_COMPUTE_32F, ZN_CUDA_R_32F);
    LT_TRY(cublasLtMatmulDescSetAttribute, s->description, ZN_CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first);
    LT_TRY(cublasLtMatmulDescSetAttribute, s->description, ZN_CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second);
    LT_TRY(cublasLtMatmulDescSetAttribute, s->description, ZN_CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    LT_TRY(cublasLtMatrixLayoutCreate, &s->layouts[0], ZN_CUDA_R_32F, p->transpose_b ? k : n, p->transpose_b ? n : k, p->b_stride);
    LT_TRY(cublasLtMatrixLayoutCreate, &s->layouts[1], ZN_CUDA_R_32F, p->transpose_a ? m : k, p->transpose_a ? k : m, p->a_stride);
    LT_TRY(cublasLtMatrixLayoutCreate, &s->layouts[2], ZN_CUDA_R_32F, n, m, p->c_stride);
    return ZN_OK;
}

static zn_status prefer(const struct zn_lt_api *lt, const struct product *p, zn_lt_object preference)
{
    const uint64_t workspace = WORKSPACE_BYTES;
    const uint32_t no_reduction = ZN_CUBLASLT_REDUCTION_SCHEME_NONE;
    const struct {
        zn_cu_enum attribute;
        uint32_t value;
    } alignments[] = {{ZN_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, p->alignment[1]},
                      {ZN_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, p->alignment[0]},
                      {ZN_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, p->alignment[2]},
                      {ZN_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, p->alignment[2]}};
    LT_TRY(cublasLtMatmulPreferenceSetAttribute, preference, ZN_CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace);
    LT_TRY(cublasLtMatmulPreferenceSetAttribute, preference, ZN_CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &no_reduction,
           sizeof no_reduction);
    for (int i = 0; i < 4; i++)
        LT_TRY(cublasLtMatmulPreferenceSetAttribute, preference, alignments[i].attribute, &alignments[i].value, sizeof(uint32_t));
    return ZN_OK;
}

static zn_status choose_algo(struct cuda_blas *b, struct shape *s, zn_lt_object preference)
{
    const struct zn_lt_api *lt = &b->driver->cuda->lt;
    struct zn_lt_candidate candidates[N_CANDIDATES];
    int n = 0;
    ZN_TRY(prefer(lt, &s->product, preference));
    LT_TRY(cublasLtMatmulAlgoGetHeuristic, b->handle, s->description, s->layouts[0], s->layouts[1], s->layouts[2], s->layouts[2],
           preference, N_CANDIDATES, candidates, &n);
    for (int i = 0; i < n; i++) {
        int32_t n_splits = 0;
        size_t n_written;
        LT_TRY(cublasLtMatmulAlgoConfigGetAttribute, &candidates[i].algo, ZN_CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &n_splits, sizeof n_splits,
               &n_written);
        if (candidates[i].state == 0 && n_splits <= 1 && candidates[i].workspace_bytes <= WORKSPACE_BYTES) {
            s->algo = candidates[i].algo;
            return ZN_OK;
        }
    }
    return zn_fail(ZN_ERR_UNSUPPORTED, "cuBLASLt has no algorithm without a split along k for %lld x %lld x %lld; --math exact has one",
                   (long long)s->product.m, (long long)s->product.n, (long long)s->product.k);
}

static zn_status make_shape(struct cuda_blas *b, const struct product *p, struct shape **shape)
{
    const struct zn_lt_api *lt = &b->driver->cuda->lt;
    zn_lt_object preference = NULL;
    struct shape *s = calloc(1, sizeof *s);
    if (!s)
        return zn_fail(ZN_ERR_MEMORY, "no memory for a product");
    s->product = *p;
    zn_status status = describe(lt, s);
    if (status == ZN_OK)
        status = check(lt->cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
    if (status == ZN_OK)
        status = choose_algo(b, s, preference);
    if (preference)
        lt->cublasLtMatmulPreferenceDestroy(preference);
    if (status != ZN_OK) {
        destroy_shape(lt, s);
        return status;
    }
    *shape = s;
    return ZN_OK;
}

static zn_status find_shape(struct cuda_blas *b, const struct product *p, struct shape **shape)
{
    uint64_t hash = (uint64_t)(p->m * 31 + p->n * 1009 + p->k * 65537 + p->transpose_a + 2 * p->transpose_b);
    struct shape **bucket = &b->shapes[hash % N_BUCKETS];
    for (*shape = *bucket; *shape; *shape = (*shape)->next)
        if (memcmp(&(*shape)->product, p, sizeof *p) == 0)
            return ZN_OK;
    ZN_TRY(make_shape(b, p, shape));
    (*shape)->next = *bucket;
    *bucket = *shape;
    return ZN_OK;
}

static uint32_t alignment_of(zn_addr address)
{
    zn_addr lowest = address & (~address + 1);
    return lowest == 0 || lowest > MAX_ALIGNMENT ? MAX_ALIGNMENT : (uint32_t)lowest;
}

/* A product of fp32 matrices. */
static zn_status multiply_f32(struct cuda_blas *b, zn_cu_stream stream, const struct zn_gemm_args *g)
{
    const struct zn_lt_api *lt = &b->driver->cuda->lt;
    const float one = 1, beta = g->adds ? 1 : 0;
    const struct product p = {.m = g->m, .n = g->n, .k = g->k, .a_stride = g->a_stride, .b_stride = g->b_stride, .c_stride = g->c_stride,
                              .transpose_a = g->transpose_a != 0, .transpose_b = g->transpose_b != 0, .has_bias = g->bias != 0,
                              .alignment = {alignment_of(g->a), alignment_of(g->b), alignment_of(g->c)}};
    void *bias = (void *)(uintptr_t)g->bias, *c = (void *)(uintptr_t)g->c;
    struct shape *s;
    ZN_TRY(find_shape(b, &p, &s));
    if (g->bias)
        LT_TRY(cublasLtMatmulDescSetAttribute, s->description, ZN_CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
    LT_TRY(cublasLtMatmul, b->handle, s->description, &one, (const void *)(uintptr_t)g->b, s->layouts[0], (const void *)(uintptr_t)g->a,
           s->layouts[1], &beta, c, s->layouts[2], c, s->layouts[2], &s->algo, (void *)(uintptr_t)b->memory, WORKSPACE_BYTES, stream);
    return ZN_OK;
}

static zn_status widen(const struct cuda_blas *b, zn_cu_stream stream, zn_addr dst, zn_addr src, zn_dtype type, int64_t n)
{
    struct zn_launch_list list;
    ZN_TRY(zn_launch_plan(ZN_KERNEL_cast, &(struct zn_cast_args){.dst = dst, .src = src, .n_elements = n, .dst_type = ZN_F32, .src_type = type},
                          &list));
    for (int i = 0; i < list.n; i++)
        ZN_TRY(cuda_launch(b->driver->cuda, stream, &list.launches[i]));
    return ZN_OK;
}

/* Rows `first` to first + n of B as it lies in memory: columns of C where B is transposed, else a part of k. */
static zn_status multiply_rows(struct cuda_blas *b, zn_cu_stream stream, const struct zn_gemm_args *whole, int64_t first, int64_t n)
{
    struct zn_gemm_args g = *whole;
    zn_addr wide = b->memory + WORKSPACE_BYTES;
    int64_t width = g.transpose_b ? g.k : g.n;
    ZN_TRY(widen(b, stream, wide, g.b + (zn_addr)(first * g.b_stride * (int64_t)zn_dtype_bytes(g.b_type)), g.b_type,
                 (n - 1) * g.b_stride + width));
    g.b = wide;
    g.b_type = ZN_F32;
    if (g.transpose_b) {
        g.n = n;
        g.c += (zn_addr)(4 * first);
        g.bias += g.bias ? (zn_addr)(4 * first) : 0;
    } else {
        g.adds = g.adds || first > 0;
        g.bias = first + n == g.k ? g.bias : 0;
        g.a += (zn_addr)(4 * first * (g.transpose_a ? g.a_stride : 1));
        g.k = n;
    }
    return multiply_f32(b, stream, &g);
}

zn_status cuda_multiply(struct cuda_blas *b, zn_cu_stream stream, const struct zn_gemm_args *args)
{
    struct zn_gemm_args g = *args;
    zn_addr wide_bias = b->memory + WORKSPACE_BYTES + (zn_addr)WIDE_ELEMENTS * 4;
    int64_t n_rows = g.transpose_b ? g.n : g.k, step = g.b_stride > 0 ? WIDE_ELEMENTS / g.b_stride : 0;
    if (g.bias && g.bias_type != ZN_F32) {
        if (g.n > BIAS_ELEMENTS)
            return zn_fail(ZN_ERR_UNSUPPORTED, "--math fast: a bias of %lld elements in %s", (long long)g.n, zn_dtype_name(g.bias_type));
        ZN_TRY(widen(b, stream, wide_bias, g.bias, g.bias_type, g.n));
        g.bias = wide_bias;
        g.bias_type = ZN_F32;
    }
    if (g.b_type == ZN_F32)
        return multiply_f32(b, stream, &g);
    if (step < 1)
        return zn_fail(ZN_ERR_UNSUPPORTED, "--math fast: rows of %lld elements in %s", (long long)g.b_stride, zn_dtype_name(g.b_type));
    if (step > 64)
        step = step / 64 * 64; /* pieces begin aligned */
    for (int64_t first = 0; first < n_rows; first += step)
        ZN_TRY(multiply_rows(b, stream, &g, first, n_rows - first < step ? n_rows - first : step));
    return ZN_OK;
}
