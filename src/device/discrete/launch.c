/* Which launches a kernel takes, and how many groups of items. Sizes agree with device/discrete/kernels/. */
#include "device/discrete/launch.h"

#include <string.h>

#include "base/status.h"

enum { ITEMS = 256, LANE_ROWS = 4, GEMM_ROWS = 16, GEMM_COLUMNS = 64, ATTEND_ITEMS = 32 };

const struct zn_launch_info zn_launch_infos[ZN_N_LAUNCHES] = {
#define INFO(name, args, addresses, items) [ZN_LAUNCH_##name] = {"k_" #name, sizeof(struct zn_##args##_args), addresses, items},
    ZN_LAUNCHES(INFO)
#undef INFO
};

#define FITS(name) _Static_assert(sizeof(struct zn_##name##_args) <= ZN_LAUNCH_BYTES, "arguments of " #name);
ZN_KERNELS(FITS)
#undef FITS

static int64_t pieces(int64_t n, int64_t piece)
{
    return (n + piece - 1) / piece;
}

static void push(struct zn_launch_list *list, zn_launch_kernel kernel, int64_t n_groups, const void *args, size_t n_bytes)
{
    if (n_groups <= 0)
        return;
    struct zn_launch *l = &list->launches[list->n++];
    l->kernel = kernel;
    l->n_groups = n_groups;
    memcpy(l->args, args, n_bytes);
}

#define PUSH(kernel, n_groups) push(list, ZN_LAUNCH_##kernel, n_groups, a, sizeof *a)

static void push_zero(struct zn_launch_list *list, zn_addr dst, int64_t n_bytes)
{
    struct zn_zero_args zero = {dst, n_bytes}, *a = &zero;
    if (dst && n_bytes > 0)
        PUSH(ZERO, 1);
}

/* dst(cols) = the sum of the rows of `partial`, of which there is one for each chunk of `rows`. */
static void push_column_sum_end(struct zn_launch_list *list, zn_addr dst, zn_addr partial, int64_t rows, int64_t cols)
{
    struct zn_column_sum_args sum = {.dst = dst, .partial = partial, .rows = rows, .cols = cols}, *a = &sum;
    PUSH(column_sum_end, pieces(cols, ITEMS));
}

static zn_status check_type(zn_kernel kernel, zn_dtype type)
{
    if (type != ZN_F32 && type != ZN_BF16 && type != ZN_F16)
        return zn_fail(ZN_ERR_UNSUPPORTED, "%s: a parameter in %s", zn_kernel_name(kernel), zn_dtype_name(type));
    return ZN_OK;
}

/* What only the processor has so far; without this a device would take narrow moments for fp32. */
static zn_status check_moments(zn_dtype type)
{
    if (type != ZN_F32)
        return zn_fail(ZN_ERR_UNSUPPORTED, "adam: moments in %s are not updated on this device; --offload-optimizer cpu updates them "
                                           "on the host", zn_dtype_name(type));
    return ZN_OK;
}

static zn_status check_heads(int64_t heads, int64_t kv_heads)
{
    if (kv_heads < 1 || heads % kv_heads != 0)
        return zn_fail(ZN_ERR_UNSUPPORTED, "attention: %lld heads do not divide among %lld kv heads", (long long)heads,
                       (long long)kv_heads);
    return ZN_OK;
}

static void plan_embedding_backward(const struct zn_embedding_backward_args *a, struct zn_launch_list *list)
{
    push_zero(list, a->d_table, a->n_ids * a->width * 4);
    push_zero(list, a->d_positions, a->n_positions * a->width * 4);
    if (a->rows > 0)
        PUSH(embedding_backward, pieces(a->width, ITEMS));
}

static void plan_layernorm_backward(const struct zn_layernorm_backward_args *a, struct zn_launch_list *list)
{
    int64_t n_chunks = pieces(a->rows, ZN_SUM_ROWS);
    PUSH(layernorm_backward_partial, pieces(n_chunks * a->cols, ITEMS));
    push_column_sum_end(list, a->d_weight, a->partial, a->rows, a->cols);
    if (a->d_bias)
        push_column_sum_end(list, a->d_bias, a->partial + (zn_addr)(n_chunks * a->cols * 4), a->rows, a->cols);
    PUSH(layernorm_backward, pieces(a->rows, LANE_ROWS));
}

static void plan_rmsnorm_backward(const struct zn_rmsnorm_backward_args *a, struct zn_launch_list *list)
{
    PUSH(rmsnorm_backward_partial, pieces(pieces(a->rows, ZN_SUM_ROWS) * a->cols, ITEMS));
    push_column_sum_end(list, a->d_weight, a->partial, a->rows, a->cols);
    PUSH(rmsnorm_backward, pieces(a->rows, LANE_ROWS));
}

static zn_status plan_attention_backward(const struct zn_attention_backward_args *a, struct zn_launch_list *list)
{
    int64_t n_heads = a->batch * a->heads, n_groups = n_heads * pieces(a->seq_len, ATTEND_ITEMS);
    ZN_TRY(check_heads(a->heads, a->kv_heads));
    PUSH(attention_backward_delta, pieces(n_heads * a->seq_len, LANE_ROWS));
    PUSH(attention_backward, n_groups);
    PUSH(attention_backward_keys, n_groups);
    if (a->heads != a->kv_heads)
        PUSH(attention_backward_sum, pieces(a->batch * a->seq_len * a->kv_heads * a->head_dim, ITEMS));
    return ZN_OK;
}

static void plan_sum_squares(const struct zn_sum_squares_args *a, struct zn_launch_list *list)
{
    PUSH(sum_squares, pieces(pieces(a->n_elements, ZN_SUM_ELEMENTS), LANE_ROWS));
    if (a->n_elements > 0)
        PUSH(sum_squares_end, 1);
}

/* Kernels of one launch whose items are elements. */
#define ELEMENTWISE(name)                                                                                                         \
    case ZN_KERNEL_##name: {                                                                                                      \
        const struct zn_##name##_args *a = args;                                                                                  \
        PUSH(name, pieces(a->n_elements, ITEMS));                                                                                 \
        return ZN_OK;                                                                                                             \
    }
/* Others of one launch: `groups` of them, after a check. */
#define SINGLE(name, groups, check)                                                                                               \
    case ZN_KERNEL_##name: {                                                                                                      \
        const struct zn_##name##_args *a = args;                                                                                  \
        ZN_TRY(check);                                                                                                            \
        PUSH(name, groups);                                                                                                       \
        return ZN_OK;                                                                                                             \
    }

static zn_status plan_elementwise(zn_kernel kernel, const void *args, struct zn_launch_list *list)
{
    switch (kernel) {
    ELEMENTWISE(fill)
    ELEMENTWISE(fill_normal)
    ELEMENTWISE(fill_uniform)
    ELEMENTWISE(add)
    ELEMENTWISE(add_scaled)
    ELEMENTWISE(mul)
    ELEMENTWISE(gelu_forward)
    ELEMENTWISE(gelu_backward)
    ELEMENTWISE(swiglu_forward)
    ELEMENTWISE(swiglu_backward)
    SINGLE(cast, pieces(a->n_elements, ITEMS),
           check_type(kernel, a->src_type) != ZN_OK ? ZN_ERR_UNSUPPORTED : check_type(kernel, a->dst_type))
    SINGLE(round, pieces(a->n_elements, ITEMS),
           a->type == ZN_F32 ? zn_fail(ZN_ERR_UNSUPPORTED, "rounding to fp32") : check_type(kernel, a->type))
    SINGLE(adam, pieces(a->n_elements, ITEMS),
           check_moments(a->state_type) != ZN_OK ? ZN_ERR_UNSUPPORTED : a->copy ? check_type(kernel, a->copy_type) : ZN_OK)
    SINGLE(sgd, pieces(a->n_elements, ITEMS), a->copy ? check_type(kernel, a->copy_type) : ZN_OK)
    SINGLE(copy_rows, pieces(a->rows * a->width, ITEMS), ZN_OK)
    SINGLE(rope, pieces(a->rows * a->heads * (a->head_dim / 2), ITEMS), ZN_OK)
    SINGLE(embedding_forward, pieces(a->rows * a->width, ITEMS), check_type(kernel, a->table_type))
    SINGLE(loss_gradient, pieces(a->rows * a->cols, ITEMS), ZN_OK)
    SINGLE(pair_loss, a->rows > 0, ZN_OK)
    case ZN_KERNEL_adam_8bit:
    case ZN_KERNEL_lion:
    case ZN_KERNEL_adagrad:
        return zn_fail(ZN_ERR_UNSUPPORTED, "%s is not computed on this device; --offload-optimizer cpu updates on the host",
                       zn_kernel_name(kernel));
    default:
        return zn_fail(ZN_ERR_UNSUPPORTED, "%s: a device with memory of its own does not have this kernel", zn_kernel_name(kernel));
    }
}

zn_status zn_launch_plan(zn_kernel kernel, const void *args, struct zn_launch_list *list)
{
    list->n = 0;
    switch (kernel) {
    case ZN_KERNEL_zero:
        push_zero(list, ((const struct zn_zero_args *)args)->dst, ((const struct zn_zero_args *)args)->n_bytes);
        return ZN_OK;
    case ZN_KERNEL_copy: {
        const struct zn_copy_args *a = args;
        PUSH(COPY, a->n_bytes > 0);
        return ZN_OK;
    }
    case ZN_KERNEL_column_sum: {
        const struct zn_column_sum_args *a = args;
        PUSH(column_sum, pieces(pieces(a->rows, ZN_SUM_ROWS) * a->cols, ITEMS));
        PUSH(column_sum_end, pieces(a->cols, ITEMS));
        return ZN_OK;
    }
    case ZN_KERNEL_embedding_backward:
        plan_embedding_backward(args, list);
        return ZN_OK;
    case ZN_KERNEL_layernorm_backward:
        ZN_TRY(check_type(kernel, ((const struct zn_layernorm_backward_args *)args)->weight_type));
        plan_layernorm_backward(args, list);
        return ZN_OK;
    case ZN_KERNEL_rmsnorm_backward:
        ZN_TRY(check_type(kernel, ((const struct zn_rmsnorm_backward_args *)args)->weight_type));
        plan_rmsnorm_backward(args, list);
        return ZN_OK;
    case ZN_KERNEL_loss_finish: {
        const struct zn_loss_finish_args *a = args;
        PUSH(loss_finish, pieces(a->rows, ITEMS));
        PUSH(loss_finish_sum, a->rows > 0);
        return ZN_OK;
    }
    case ZN_KERNEL_sum_squares:
        plan_sum_squares(args, list);
        return ZN_OK;
    case ZN_KERNEL_attention_backward:
        return plan_attention_backward(args, list);
    SINGLE(gemm, pieces(a->m, GEMM_ROWS) * pieces(a->n, GEMM_COLUMNS), check_type(kernel, a->b_type))
    SINGLE(attention_forward, a->batch * a->heads * pieces(a->seq_len, ATTEND_ITEMS), check_heads(a->heads, a->kv_heads))
    SINGLE(layernorm_forward, pieces(a->rows, LANE_ROWS), check_type(kernel, a->weight_type))
    SINGLE(rmsnorm_forward, pieces(a->rows, LANE_ROWS), check_type(kernel, a->weight_type))
    SINGLE(loss_panel, pieces(a->rows, LANE_ROWS), ZN_OK)
    default:
        return plan_elementwise(kernel, args, list);
    }
}
