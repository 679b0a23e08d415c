/* The work of one kernel call: flops of its matrix products and the bytes it must read and write,
 * each operand once. Scratch (`partial`, `delta`) counts written and read. */
#include "device/kernels.h"
#include "tensor/quantum.h"

#define FLOAT 4.0
#define DOUBLE 8.0
#define ID 4.0

typedef struct zn_kernel_cost cost;

static double pieces(int64_t n, int64_t piece)
{
    return (double)((n + piece - 1) / piece);
}

static cost moved(double n_bytes)
{
    return (cost){.n_bytes = n_bytes};
}

/* n_floats for each of n elements. */
static cost floats(double n_floats, int64_t n)
{
    return moved(FLOAT * n_floats * (double)n);
}

static cost zero_cost(const struct zn_zero_args *a)
{
    return moved((double)a->n_bytes);
}

static cost copy_cost(const struct zn_copy_args *a)
{
    return moved(2.0 * (double)a->n_bytes);
}

static cost copy_rows_cost(const struct zn_copy_rows_args *a)
{
    return moved(2.0 * FLOAT * (double)a->rows * (double)a->width);
}

static cost cast_cost(const struct zn_cast_args *a)
{
    return moved((double)a->n_elements *
                 (double)(zn_dtype_bytes(a->dst_type) + zn_dtype_bytes(a->src_type)));
}

static cost block_scales_cost(const struct zn_block_scales_args *a)
{
    return moved(FLOAT * ((double)a->n_elements + pieces(a->n_elements, ZN_QUANTISED_BLOCK)));
}

static cost quantise_cost(const struct zn_quantise_args *a)
{
    return moved(FLOAT * (double)a->n_elements + (double)zn_dtype_size(a->type, a->n_elements));
}

static cost dequantise_cost(const struct zn_dequantise_args *a)
{
    return moved(FLOAT * (double)a->n_elements + (double)zn_dtype_size(a->type, a->n_elements));
}

static cost fill_cost(const struct zn_fill_args *a)
{
    return floats(1, a->n_elements);
}

static cost fill_normal_cost(const struct zn_fill_normal_args *a)
{
    return floats(1, a->n_elements);
}

static cost fill_uniform_cost(const struct zn_fill_uniform_args *a)
{
    return floats(1, a->n_elements);
}

static cost add_scaled_cost(const struct zn_add_scaled_args *a)
{
    return floats(a->a ? 3 : 2, a->n_elements);
}

static cost add_cost(const struct zn_add_args *a)
{
    return floats(3, a->n_elements);
}

static cost mul_cost(const struct zn_mul_args *a)
{
    return floats(3, a->n_elements);
}

static cost round_cost(const struct zn_round_args *a)
{
    return floats(2, a->n_elements);
}

/* Of n parameters. */
static double param_bytes(zn_dtype type, double n)
{
    return (double)zn_dtype_bytes(type) * n;
}

static cost gemm_cost(const struct zn_gemm_args *a)
{
    double m = (double)a->m, n = (double)a->n, k = (double)a->k;
    double activations = m * k + m * n * (a->adds ? 2.0 : 1.0);
    double params = param_bytes(a->b_type, k * n) + (a->bias ? param_bytes(a->bias_type, n) : 0.0);
    return (cost){.flops = 2.0 * m * n * k, .n_bytes = FLOAT * activations + params};
}

static cost column_sum_cost(const struct zn_column_sum_args *a)
{
    double rows = (double)a->rows + 2.0 * pieces(a->rows, ZN_SUM_ROWS) + 1.0;
    return moved(FLOAT * rows * (double)a->cols);
}

static cost embedding_forward_cost(const struct zn_embedding_forward_args *a)
{
    double values = (double)a->rows * (double)a->width;
    return moved(FLOAT * values + param_bytes(a->table_type, values * (a->positions ? 2.0 : 1.0)) +
                 ID * (double)a->rows);
}

static cost embedding_backward_cost(const struct zn_embedding_backward_args *a)
{
    double rows = a->d_table ? (double)a->rows + (double)a->n_ids : 0.0;
    if (a->d_positions)
        rows += (double)a->rows + (double)a->n_positions;
    return moved(FLOAT * rows * (double)a->width + ID * (double)a->rows);
}

static cost layernorm_forward_cost(const struct zn_layernorm_forward_args *a)
{
    double rows = 2.0 * (double)a->rows, cols = (double)a->cols;
    return moved(FLOAT * (rows * cols + 2.0 * (double)a->rows) +
                 param_bytes(a->weight_type, cols) + (a->bias ? param_bytes(a->bias_type, cols) : 0));
}

static cost layernorm_backward_cost(const struct zn_layernorm_backward_args *a)
{
    double sums = a->d_bias ? 2.0 : 1.0;
    double rows = 3.0 * (double)a->rows + sums * (2.0 * pieces(a->rows, ZN_SUM_ROWS) + 1.0);
    return moved(FLOAT * (rows * (double)a->cols + 2.0 * (double)a->rows) +
                 param_bytes(a->weight_type, (double)a->cols));
}

static cost rmsnorm_forward_cost(const struct zn_rmsnorm_forward_args *a)
{
    double rows = 2.0 * (double)a->rows;
    return moved(FLOAT * (rows * (double)a->cols + (double)a->rows) +
                 param_bytes(a->weight_type, (double)a->cols));
}

static cost rmsnorm_backward_cost(const struct zn_rmsnorm_backward_args *a)
{
    double rows = 3.0 * (double)a->rows + 1.0 + 2.0 * pieces(a->rows, ZN_SUM_ROWS);
    return moved(FLOAT * (rows * (double)a->cols + (double)a->rows) +
                 param_bytes(a->weight_type, (double)a->cols));
}

static cost rope_cost(const struct zn_rope_args *a)
{
    double values = 2.0 * (double)a->rows * (double)a->heads * (double)a->head_dim;
    int64_t positions = a->rows < a->period ? a->rows : a->period;
    return moved(FLOAT * (values + (double)positions * (double)a->head_dim));
}

/* Pairs of a query and a key it sees, for one head of one sequence. */
static double attention_pairs(int64_t seq_len, int64_t window)
{
    double t = (double)seq_len, w = (double)window;
    if (window <= 0 || window >= seq_len)
        return t * (t + 1.0) / 2.0;
    return w * (w + 1.0) / 2.0 + (t - w) * w;
}

static cost attention_forward_cost(const struct zn_attention_forward_args *a)
{
    double tokens = (double)a->batch * (double)a->seq_len, dim = (double)a->head_dim;
    double heads = (double)a->heads, kv_heads = (double)a->kv_heads;
    double pairs = attention_pairs(a->past + a->seq_len, a->window) - attention_pairs(a->past, a->window);
    double past = (double)a->batch * (double)a->past;
    return (cost){
        .flops = 4.0 * (double)a->batch * heads * dim * pairs,
        .n_bytes = FLOAT * (tokens * (dim * (2.0 * heads + 2.0 * kv_heads) + heads) +
                            past * dim * 2.0 * kv_heads),
    };
}

static cost attention_backward_cost(const struct zn_attention_backward_args *a)
{
    double tokens = (double)a->batch * (double)a->seq_len, dim = (double)a->head_dim;
    double heads = (double)a->heads, kv_heads = (double)a->kv_heads;
    double pairs = attention_pairs(a->seq_len, a->window);
    double partial = a->heads == a->kv_heads ? 0.0 : 4.0 * heads;
    return (cost){
        .flops = 10.0 * (double)a->batch * heads * dim * pairs,
        .n_bytes = FLOAT * tokens * (dim * (4.0 * heads + 4.0 * kv_heads + partial) + 3.0 * heads),
    };
}

static cost gelu_forward_cost(const struct zn_gelu_forward_args *a)
{
    return floats(2, a->n_elements);
}

static cost gelu_backward_cost(const struct zn_gelu_backward_args *a)
{
    return floats(3, a->n_elements);
}

static cost swiglu_forward_cost(const struct zn_swiglu_forward_args *a)
{
    return floats(3, a->n_elements);
}

static cost swiglu_backward_cost(const struct zn_swiglu_backward_args *a)
{
    return floats(5, a->n_elements);
}

/* The logits, the targets, and three running values of each row. */
static cost loss_panel_cost(const struct zn_loss_panel_args *a)
{
    double rows = (double)a->rows, running = a->first ? 3.0 : 6.0;
    return moved(FLOAT * rows * (double)a->cols + ID * rows + FLOAT * running * rows);
}

static cost loss_finish_cost(const struct zn_loss_finish_args *a)
{
    return moved((4.0 * FLOAT + ID) * (double)a->rows + 2.0 * DOUBLE);
}

static cost loss_gradient_cost(const struct zn_loss_gradient_args *a)
{
    double rows = (double)a->rows;
    return moved(2.0 * FLOAT * rows * (double)a->cols + (ID + FLOAT) * rows + (a->weights ? FLOAT * rows : 0.0));
}

static cost pair_loss_cost(const struct zn_pair_loss_args *a)
{
    return moved((5.0 * FLOAT + 2.0 * ID) * (double)a->rows + 6.0 * DOUBLE);
}

static cost sum_squares_cost(const struct zn_sum_squares_args *a)
{
    double partial = pieces(a->n_elements, ZN_SUM_ELEMENTS);
    return moved(FLOAT * (double)a->n_elements + 2.0 * DOUBLE * (partial + 1.0));
}

static cost adam_cost(const struct zn_adam_args *a)
{
    double copy = a->copy ? (double)zn_dtype_bytes(a->copy_type) : 0.0;
    return moved((3.0 * FLOAT + 4.0 * (double)zn_dtype_bytes(a->state_type) + copy) * (double)a->n_elements);
}

static cost adam_8bit_cost(const struct zn_adam_8bit_args *a)
{
    double copy = a->adam.copy ? (double)zn_dtype_bytes(a->adam.copy_type) : 0.0, scales = 4.0 * FLOAT / ZN_STATE_BLOCK;
    return moved((3.0 * FLOAT + 4.0 + scales + copy) * (double)a->adam.n_elements);
}

static cost sgd_cost(const struct zn_sgd_args *a)
{
    double copy = a->copy ? (double)zn_dtype_bytes(a->copy_type) : 0.0;
    double buffer = !a->momentum_buffer ? 0.0 : a->first ? 1.0 : 2.0;
    return moved(((3.0 + buffer) * FLOAT + copy) * (double)a->n_elements);
}

static cost lion_cost(const struct zn_lion_args *a)
{
    double copy = a->copy ? (double)zn_dtype_bytes(a->copy_type) : 0.0;
    return moved((5.0 * FLOAT + copy) * (double)a->n_elements);
}

static cost adagrad_cost(const struct zn_adagrad_args *a)
{
    double copy = a->copy ? (double)zn_dtype_bytes(a->copy_type) : 0.0;
    return moved((5.0 * FLOAT + copy) * (double)a->n_elements);
}

struct zn_kernel_cost zn_kernel_cost(zn_kernel kernel, const void *args)
{
    switch (kernel) {
#define COST(name)                                                                                 \
    case ZN_KERNEL_##name:                                                                         \
        return name##_cost(args);
        ZN_KERNELS(COST)
#undef COST
    case ZN_N_KERNELS:
        break;
    }
    return (cost){0};
}
