/* The kernels every device offers, and their arguments.
 *
 * A kernel is named once in ZN_KERNELS and has one argument struct zn_<name>_args. Memory is
 * named by zn_addr, an address in the device's own memory that only the device's backend may
 * turn into a pointer. Values are fp32 unless a field says otherwise; matrices are row-major
 * and a "stride" is the distance of two rows in elements. An output may be the same buffer as
 * an input only where it is said. Outputs are overwritten unless the word "adds" stands there.
 *
 * Parameters (weights, biases, tables) may be bf16 or fp16 where a field *_type says so: results have
 * the bits of the same values in fp32. Activations, gradients and sums are fp32 always.
 *
 * Every kernel gives the same bits whatever the number of threads: work is cut in chunks whose
 * sizes are constants and partial sums are added in chunk order. It gives the same bits on every instruction set and device, too:
 * operations are those that are written, in their order, each rounded by itself (fused only where "fma" or "chain" stands);
 * functions are the cpu backend's (device/cpu/fastmath.h). "The lane sum" of n terms adds term i to lane i mod ZN_LANES, ascending
 * from zero, and then the lanes: lane l and l + 8, then l + 4, l + 2, l + 1. */
#ifndef ZN_DEVICE_KERNELS_H
#define ZN_DEVICE_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

#include "device/kernels_optimizer.h"
#include "memory/address.h"
#include "tensor/dtype.h"
#include "tensor/sums.h"

enum { ZN_LANES = 16 };

#define ZN_KERNELS(X)                                                                              \
    X(zero)                                                                                        \
    X(copy)                                                                                        \
    X(copy_rows)                                                                                   \
    X(cast)                                                                                        \
    X(block_scales)                                                                                \
    X(quantise)                                                                                    \
    X(dequantise)                                                                                  \
    X(fill)                                                                                        \
    X(fill_normal)                                                                                 \
    X(fill_uniform)                                                                                \
    X(add)                                                                                         \
    X(add_scaled)                                                                                  \
    X(mul)                                                                                         \
    X(round)                                                                                       \
    X(gemm)                                                                                        \
    X(column_sum)                                                                                  \
    X(embedding_forward)                                                                           \
    X(embedding_backward)                                                                          \
    X(layernorm_forward)                                                                           \
    X(layernorm_backward)                                                                          \
    X(rmsnorm_forward)                                                                             \
    X(rmsnorm_backward)                                                                            \
    X(rope)                                                                                        \
    X(attention_forward)                                                                           \
    X(attention_backward)                                                                          \
    X(gelu_forward)                                                                                \
    X(gelu_backward)                                                                               \
    X(swiglu_forward)                                                                              \
    X(swiglu_backward)                                                                             \
    X(loss_panel)                                                                                  \
    X(loss_finish)                                                                                 \
    X(loss_gradient)                                                                               \
    X(pair_loss)                                                                                   \
    X(sum_squares)                                                                                 \
    X(adam)                                                                                        \
    X(adam_8bit)                                                                                   \
    X(sgd)                                                                                         \
    X(lion)                                                                                        \
    X(adagrad)

typedef enum zn_kernel {
#define ZN_KERNEL_ENUM(name) ZN_KERNEL_##name,
    ZN_KERNELS(ZN_KERNEL_ENUM)
#undef ZN_KERNEL_ENUM
        ZN_N_KERNELS
} zn_kernel;

struct zn_zero_args {
    zn_addr dst;
    int64_t n_bytes;
};

struct zn_copy_args {
    zn_addr dst, src; /* no overlap */
    int64_t n_bytes;
};

/* Rows of `width` floats from one stride to another; no overlap. */
struct zn_copy_rows_args {
    zn_addr dst, src;
    int64_t rows, width;
    int64_t dst_stride, src_stride;
};

/* dst[i] = (dst_type)src[i], round to nearest even; fp32, bf16 and fp16 both ways. NaN stays
 * NaN, fp16 overflow becomes infinity. */
struct zn_cast_args {
    zn_addr dst, src;
    zn_dtype dst_type, src_type;
    int64_t n_elements;
};

/* dst[b] = the largest |src[i]| of block b: ZN_QUANTISED_BLOCK elements, the last may be short (tensor/quantum.h). */
struct zn_block_scales_args {
    zn_addr dst, src;
    int64_t n_elements;
};

/* Whole quanta of int8 or nf4 from n_elements values, the first of a group; the rest of the last quantum is zero. `mean` is that of
 * all scales of the parameter (nf4). */
struct zn_quantise_args {
    zn_addr dst, src;
    zn_dtype type;
    int64_t n_elements;
    float mean;
};

/* dst[i] = element first + i of the quanta at src, in fp32. */
struct zn_dequantise_args {
    zn_addr dst, src;
    zn_dtype type;
    int64_t first, n_elements;
};

struct zn_fill_args {
    zn_addr dst;
    int64_t n_elements;
    float value;
};

/* dst[i] = stddev × normal(key, first + i): a counter-based generator, so the value of an element does
 * not depend on which part of the tensor is filled (base/rng.h). */
struct zn_fill_normal_args {
    zn_addr dst;
    int64_t first, n_elements;
    uint64_t key;
    float stddev;
};

/* dst[i] = bound × (2 × uniform(key, first + i) - 1), in the same way. */
struct zn_fill_uniform_args {
    zn_addr dst;
    int64_t first, n_elements;
    uint64_t key;
    float bound;
};

/* y[i] = a[i] + scale × b[i], both rounded; without a (0) scale × b[i]. y may be a or b. */
struct zn_add_scaled_args {
    zn_addr y, a, b;
    int64_t n_elements;
    float scale;
};

/* y[i] = a[i] + b[i]; y may be a or b. */
struct zn_add_args {
    zn_addr y, a, b;
    int64_t n_elements;
};

/* y[i] = a[i] × b[i]; y may be a or b. */
struct zn_mul_args {
    zn_addr y, a, b;
    int64_t n_elements;
};

/* x[i] = (float)(type)x[i], round to nearest even as `cast` does; bf16 and fp16. */
struct zn_round_args {
    zn_addr x;
    zn_dtype type;
    int64_t n_elements;
};

/* C(m,n) = op(A)(m,k) · op(B)(k,n) [+ C when `adds`] [+ bias(n) on every row].
 * op is the transpose where transpose_x is set; A is stored (m,k) or, transposed, (k,m). B and bias
 * may be 16-bit parameters.
 *
 * The order is canonical: the sum over k is cut into chunks of ZN_GEMM_K, counted from the call's first k. A chunk is a chain of
 * fused multiply-adds from zero, ascending. C is the first chunk, or C plus it where it adds, then plus the next chunks one by one,
 * then plus the bias. So a product may be cut into calls along m and n anywhere and along k, where the later calls add and the last
 * has the bias, at multiples of ZN_GEMM_K. */
enum { ZN_GEMM_K = 256 };

struct zn_gemm_args {
    zn_addr a, b, c, bias; /* bias may be 0 */
    int64_t m, n, k;
    int64_t a_stride, b_stride, c_stride;
    zn_dtype b_type, bias_type;
    bool transpose_a, transpose_b, adds;
};

/* dst(cols) = sum over rows of src(rows,cols). Rows are summed in chunks of ZN_SUM_ROWS, the
 * chunks in order. `partial` holds ceil(rows / ZN_SUM_ROWS) × cols floats. */
enum { ZN_SUM_ROWS = 64 };

struct zn_column_sum_args {
    zn_addr dst, src, partial;
    int64_t rows, cols, stride;
};

/* y(row,:) = table(ids[row],:) [+ positions(p,:)], p the row's position: position_ids[row], or row mod period where
 * there are none. Both are int32 in range (checked by the host before). */
struct zn_embedding_forward_args {
    zn_addr y, table, positions, ids; /* table, and then ids, or positions may be 0 */
    zn_addr position_ids;             /* may be 0 */
    int64_t rows, width, period;
    int64_t first_id, n_ids; /* what the table holds; other ids leave their rows alone */
    zn_dtype table_type; /* of table and positions */
};

/* d_table(n_ids,width), when not 0: for each of n_ids ids from first_id on the sum, in row order, of
 * dy(row,:) with ids[row] = id; rows never named are zero. d_positions(n_positions,width), when not 0: the sum over rows at
 * position p, in row order; zero for positions that no row has. */
struct zn_embedding_backward_args {
    zn_addr d_table, d_positions, dy, ids;
    zn_addr position_ids; /* may be 0 */
    int64_t rows, width, period, first_id, n_ids, n_positions;
};

/* y = (x - mean) × rstd × weight + bias, row by row; mean and rstd (rows floats each) are outputs: mean = the lane sum of x / cols,
 * rstd = 1 / sqrt(the lane sum of (x - mean)² / cols + eps). */
struct zn_layernorm_forward_args {
    zn_addr y, x, weight, bias, mean, rstd; /* bias may be 0 */
    int64_t rows, cols;
    zn_dtype weight_type, bias_type;
    float eps;
};

/* d_bias may be 0. `partial` holds 2 × ceil(rows / ZN_SUM_ROWS) × cols floats. With g = dy × weight, h = (x - mean) × rstd:
 * dx = (g - the lane sum of g / cols - h × (the lane sum of g × h / cols)) × rstd; d_weight sums dy × h, d_bias dy, both as
 * column_sum does. */
struct zn_layernorm_backward_args {
    zn_addr dx, d_weight, d_bias, dy, x, weight, mean, rstd, partial;
    int64_t rows, cols;
    zn_dtype weight_type;
};

/* y = x × rstd × weight, rstd = 1 / sqrt(the lane sum of x² / cols + eps), row by row. With cols = head_dim and
 * rows = tokens × heads it is the q/k norm of a head. */
struct zn_rmsnorm_forward_args {
    zn_addr y, x, weight, rstd;
    int64_t rows, cols;
    zn_dtype weight_type;
    float eps;
};

/* `partial` holds ceil(rows / ZN_SUM_ROWS) × cols floats. The order is layernorm's with h = x × rstd, without the term of g. */
struct zn_rmsnorm_backward_args {
    zn_addr dx, d_weight, dy, x, weight, rstd, partial;
    int64_t rows, cols;
    zn_dtype weight_type;
};

/* Rotary embedding in halves, as the hub's models do: for each row (at position p = position_ids[row], or row mod period
 * where there are none) and head, with d = head_dim/2, (a,b) = (x[i], x[i+d]):
 *   y[i] = a·cos - b·sin, y[i+d] = b·cos + a·sin,
 * cos and sin from tables (period, head_dim/2). `inverse` turns the other way (the gradient). y may be x. */
struct zn_rope_args {
    zn_addr y, x, cos, sin;
    zn_addr position_ids; /* int32, may be 0 */
    int64_t rows, heads, head_dim, period;
    int64_t y_stride, x_stride;
    bool inverse;
};

/* Causal attention with grouped heads. q (batch·time, heads·head_dim), k and v (batch·time,
 * kv_heads·head_dim), out like q, each with its own row stride; lse (batch, heads, seq_len) is
 * log-sum-exp of the scaled scores. Query i sees keys j with j <= i and, when window > 0,
 * i - j < window. head h uses kv head h / (heads / kv_heads). No seq_len × seq_len matrix exists. Where `past` is not 0,
 * k and v have past + time rows for each sequence and query i stands at place past + i among them.
 *
 * With position_ids (batch, seq_len) a sequence is several examples one after another, and each query sees its own
 * example alone: position_ids[i] counts from 0 within the example, so that query i sees no key before
 * i - position_ids[i]. `past` is 0 then.
 *
 * The order of all operations is a constant, so that the bits depend neither on how the work is cut nor on the device. Keys, and
 * queries where they are summed over, come in blocks that begin at multiples of ZN_ATTENTION_TILE of their place in the sequence.
 * Chains are of fused multiply-adds from zero, ascending. With score = scale × chain over head_dim of q·k, each query goes along
 * the blocks of keys, ascending, with max = -infinity and sum = out = 0 before the first:
 *   max' = greatest of max and the block's scores, factor = exp(max - max'), weight = exp(score - max'),
 *   sum = fma(sum, factor, the block's weights added ascending),
 *   out = fma(out, factor, chain over the block's keys of weight·v),
 * and in the end out = out × (1 / sum), lse = max + log(sum). A key that a query does not see has no score and the weight 0,
 * which leaves a chain as it is: a block of which a query sees nothing changes no bit and may be left out. */
enum { ZN_ATTENTION_TILE = 64 };

struct zn_attention_forward_args {
    zn_addr out, lse, q, k, v;
    zn_addr position_ids; /* int32, may be 0 */
    int64_t batch, seq_len, past, heads, kv_heads, head_dim;
    int64_t q_stride, k_stride, v_stride, out_stride;
    int64_t window; /* 0 is none */
    float scale;
};

/* Gradients of the above. `delta` holds batch·heads·time floats. `partial` holds
 * 2 × batch × heads × seq_len × head_dim floats where heads != kv_heads (dk and dv of each query
 * head, summed in head order), else it may be 0. dq, dk, dv have the strides of q, k, v.
 *
 * The order, for each query head: delta = the lane sum over head_dim of d_out × out, weight = exp(score - lse),
 * d_score = weight × (chain over head_dim of d_out·v - delta) × scale. From 0, dq adds a chain of d_score·k over the keys of each
 * block, ascending; dk and dv add chains of d_score·q and weight·d_out over the queries of each block, ascending. */
struct zn_attention_backward_args {
    zn_addr dq, dk, dv, d_out, out, lse, q, k, v, delta, partial;
    zn_addr position_ids; /* int32, may be 0 */
    int64_t batch, seq_len, heads, kv_heads, head_dim;
    int64_t q_stride, k_stride, v_stride, out_stride; /* d_out has out's stride */
    int64_t dq_stride, dk_stride, dv_stride;
    int64_t window;
    float scale;
};

/* Exact (erf) or tanh form; the tanh form is x × sigmoid(2√(2/π) × (x + 0.044715 x³)). y may be x. */
struct zn_gelu_forward_args {
    zn_addr y, x;
    int64_t n_elements;
    bool tanh_form;
};

/* dx may be dy. */
struct zn_gelu_backward_args {
    zn_addr dx, dy, x;
    int64_t n_elements;
    bool tanh_form;
};

/* y = silu(gate) × up */
struct zn_swiglu_forward_args {
    zn_addr y, gate, up;
    int64_t n_elements;
};

/* d_gate may be dy. */
struct zn_swiglu_backward_args {
    zn_addr d_gate, d_up, dy, gate, up;
    int64_t n_elements;
};

/* Cross-entropy over panels of the vocabulary. One panel of logits (rows, cols) holds the columns
 * first_col … first_col+cols. row_max, row_sum and target_logit (rows floats each) run along the
 * panels in order; `first` starts them. target < 0 is an ignored position.
 *   m = max of the panel, s = the lane sum of exp(x - m); combined: M = max(row_max, m),
 *   row_sum = row_sum·exp(row_max - M) + s·exp(m - M). */
struct zn_loss_panel_args {
    zn_addr logits, targets, row_max, row_sum, target_logit; /* targets int32 */
    int64_t rows, cols, stride, first_col;
    bool first;
};

/* lse[row] = row_max + log(row_sum), and *loss (one double) adds the sum, in row order, of
 * lse - target_logit over rows with target >= 0. lse may be row_sum. */
struct zn_loss_finish_args {
    zn_addr lse, loss, row_max, row_sum, target_logit, targets;
    int64_t rows;
};

/* logits ← (exp(logits - lse) - [column is the target]) × scale in place; a row with target < 0
 * becomes zero. Where there are weights, a row's weight takes the place of the scale. */
struct zn_loss_gradient_args {
    zn_addr logits, targets, lse, weights; /* weights: rows floats, or 0 */
    int64_t rows, cols, stride, first_col;
    float scale;
};

/* The loss of pairs (DPO). Rows of one sequence follow one another and have its number in `sequences` (int32; -1: padding); the
 * rejected one of a pair follows the chosen one and has the next number. With the log-probability of a row whose target counts
 * target_logit - lse, and the reference's, the sums s of their differences are taken in double, in row order, and
 *   x = beta × (s(chosen) - s(rejected)); sums[0] += log(1 + exp(-x)), sums[1] += [x > 0], sums[2] += x;
 *   weights = ±beta × sigmoid(-x) × scale, + in rows of the chosen one: what zn_loss_gradient_args takes.
 * exp and log are those of fp32. */
struct zn_pair_loss_args {
    zn_addr weights, sums; /* rows floats, three doubles */
    zn_addr lse, target_logit, reference_lse, reference_logit, targets, sequences;
    int64_t rows;
    float beta, scale;
};

/* Adds the sum of squares of src, lane sums in double over chunks of ZN_SUM_ELEMENTS, to *sum (a zn_exact of
 * base/exact.h): a sum over parts that are cut at multiples of a chunk does not depend on the cuts.
 * `partial` holds ceil(n / ZN_SUM_ELEMENTS) doubles. */

struct zn_sum_squares_args {
    zn_addr sum, src, partial;
    int64_t n_elements;
};

const char *zn_kernel_name(zn_kernel kernel);

/* Work of one call: what the sim device turns into time. */
struct zn_kernel_cost {
    double flops;   /* of matrix products */
    double n_bytes; /* moved to and from memory */
};
struct zn_kernel_cost zn_kernel_cost(zn_kernel kernel, const void *args);

/* The same of the cpu device with so many cores, as one figure: flops, or bytes where a kernel has none. More than the cost by
 * what its grids add: blocks of a product that cores cannot share evenly, groups of queries of attention. */
double zn_kernel_work(zn_kernel kernel, const void *args, int n_cores);

#endif
