/* Random shapes of every kernel but products: odd sizes, strides with gaps, absent operands, every type. */
#include <stdio.h>
#include <string.h>

#include "base/exact.h"
#include "device/check/both.h"

static const zn_dtype types[] = {ZN_F32, ZN_BF16, ZN_F16};

static int64_t draw_elements(struct both *b)
{
    return both_draw(b, 1, both_draw(b, 0, 1) ? 300 : 6000);
}

static void check_moving_and_filling(struct both *b)
{
    int64_t n = draw_elements(b), rows = both_draw(b, 1, 9), width = both_draw(b, 1, 70),
            gap = both_draw(b, 0, 5);
    BOTH(b, zero, ((struct zn_zero_args){both_bits(b, n), n}), "any bytes");
    BOTH(b, copy, ((struct zn_copy_args){both_bits(b, n), both_bits(b, n), n}), "any bytes");
    BOTH(b, copy_rows,
         ((struct zn_copy_rows_args){.dst = both_floats(b, rows * (width + gap), 1),
                                     .src = both_floats(b, rows * width, 1),
                                     .rows = rows,
                                     .width = width,
                                     .dst_stride = width + gap,
                                     .src_stride = width}),
         "rows");
    BOTH(b, fill, ((struct zn_fill_args){both_floats(b, n, 1), n, 0.3f}), "0.3");
    BOTH(b, fill_normal,
         ((struct zn_fill_normal_args){both_floats(b, n, 1), both_draw(b, 0, 1 << 20), n, 77,
                                       0.02f}),
         "");
    BOTH(b, fill_uniform,
         ((struct zn_fill_uniform_args){both_floats(b, n, 1), both_draw(b, 0, 1 << 20), n, 78,
                                        0.1f}),
         "");
}

static void check_casts(struct both *b)
{
    int64_t n = draw_elements(b);
    for (int t = 0; t < 9; t++)
        BOTH(b, cast,
             ((struct zn_cast_args){.dst = both_bits(b, 4 * n),
                                    .src = both_bits(b, 4 * n),
                                    .n_elements = n,
                                    .dst_type = types[t / 3],
                                    .src_type = types[t % 3]}),
             zn_dtype_name(types[t % 3]));
    for (int t = 1; t < 3; t++)
        BOTH(b, round, ((struct zn_round_args){both_bits(b, 4 * n), types[t], n}),
             zn_dtype_name(types[t]));
}

static void check_elementwise(struct both *b)
{
    int64_t n = draw_elements(b);
    zn_addr x = both_floats(b, n, 4), y = both_floats(b, n, 1), z = both_floats(b, n, 1),
            w = both_floats(b, n, 1);
    zn_addr u = both_floats(b, n, 1);
    BOTH(b, add, ((struct zn_add_args){y, x, y, n}), "");
    BOTH(b, mul, ((struct zn_mul_args){z, x, y, n}), "");
    BOTH(b, add_scaled, ((struct zn_add_scaled_args){z, both_draw(b, 0, 1) ? x : 0, y, n, 0.7f}),
         "");
    BOTH(b, swiglu_forward, ((struct zn_swiglu_forward_args){y, x, z, n}), "");
    BOTH(b, swiglu_backward, ((struct zn_swiglu_backward_args){z, w, z, x, u, n}), "");
    for (int form = 0; form < 2; form++) {
        BOTH(b, gelu_forward, ((struct zn_gelu_forward_args){y, x, n, form}),
             form ? "tanh" : "erf");
        BOTH(b, gelu_backward, ((struct zn_gelu_backward_args){y, y, x, n, form}),
             form ? "tanh" : "erf");
    }
    zn_addr wide = both_floats(b, n, 80);
    BOTH(b, swiglu_forward, ((struct zn_swiglu_forward_args){y, wide, z, n}), "large values");
    BOTH(b, gelu_forward, ((struct zn_gelu_forward_args){y, wide, n, false}), "large values");
}

static void check_optimizers(struct both *b)
{
    int64_t n = draw_elements(b);
    zn_dtype type = types[both_draw(b, 0, 2)];
    zn_addr p = both_floats(b, n, 1), g = both_floats(b, n, 0.1f), m = both_floats(b, n, 0.1f),
            v = both_bytes(b, 4 * n);
    for (int64_t i = 0; i < n; i++)
        both_values(b, v)[i] = (float)both_draw(b, 0, 1000) * 1e-6f;
    zn_addr copy = both_draw(b, 0, 2) ? both_bits(b, 4 * n) : 0;
    BOTH(b, adam,
         ((struct zn_adam_args){.param = p,
                                .grad = g,
                                .exp_avg = m,
                                .exp_avg_sq = v,
                                .copy = copy,
                                .copy_type = type,
                                .n_elements = n,
                                .grad_scale = 0.5f,
                                .one_minus_beta1 = 0.1f,
                                .beta2 = 0.999f,
                                .one_minus_beta2 = 0.001f,
                                .eps = 1e-8f,
                                .step_size = 1e-3f,
                                .root_correction = 0.7f,
                                .keep = 0.9999f,
                                .coupled_decay = both_draw(b, 0, 1) ? 0.01f : 0}),
         zn_dtype_name(type));
    BOTH(b, sgd,
         ((struct zn_sgd_args){.param = p,
                               .grad = g,
                               .momentum_buffer = both_draw(b, 0, 2) ? m : 0,
                               .copy = copy,
                               .copy_type = type,
                               .n_elements = n,
                               .grad_scale = 0.5f,
                               .lr = 0.01f,
                               .momentum = 0.9f,
                               .coupled_decay = 0.02f,
                               .first = both_draw(b, 0, 1) == 1}),
         zn_dtype_name(type));
}

static void check_sums(struct both *b)
{
    int64_t rows = both_draw(b, 1, 200), cols = both_draw(b, 1, 90),
            stride = cols + both_draw(b, 0, 9), n = both_draw(b, 1, 9000);
    BOTH(b, column_sum,
         ((struct zn_column_sum_args){both_floats(b, cols, 1), both_floats(b, rows * stride, 1),
                                      both_scratch(b, 4 * (rows / ZN_SUM_ROWS + 1) * cols), rows,
                                      cols, stride}),
         "");
    zn_addr sum = both_bytes(b, sizeof(zn_exact));
    memset(b->image + sum, 0, sizeof(zn_exact));
    BOTH(b, sum_squares,
         ((struct zn_sum_squares_args){sum, both_floats(b, n, both_draw(b, 0, 1) ? 1e-3f : 1e12f),
                                       both_scratch(b, 8 * (n / ZN_SUM_ELEMENTS + 1)), n}),
         "");
    zn_addr bits = both_bits(b, 4 * n); /* also what is not finite, or least */
    BOTH(b, sum_squares,
         ((struct zn_sum_squares_args){sum, bits, both_scratch(b, 8 * (n / ZN_SUM_ELEMENTS + 1)),
                                       n}),
         "any bits");
}

static void check_norms(struct both *b)
{
    int64_t rows = both_draw(b, 1, 150), cols = both_draw(b, 1, 100);
    zn_dtype type = types[both_draw(b, 0, 2)];
    zn_addr x = both_floats(b, rows * cols, 2), dy = both_floats(b, rows * cols, 1),
            y = both_floats(b, rows * cols, 1);
    zn_addr weight = both_params(b, cols, type),
            bias = both_draw(b, 0, 1) ? both_params(b, cols, type) : 0;
    zn_addr mean = both_floats(b, rows, 1), rstd = both_floats(b, rows, 1),
            d_weight = both_floats(b, cols, 1);
    zn_addr d_bias = both_draw(b, 0, 1) ? both_floats(b, cols, 1) : 0;
    zn_addr partial = both_scratch(b, 8 * (rows / ZN_SUM_ROWS + 1) * cols);
    BOTH(b, layernorm_forward,
         ((struct zn_layernorm_forward_args){y, x, weight, bias, mean, rstd, rows, cols, type, type,
                                             1e-5f}),
         "");
    BOTH(b, rmsnorm_forward,
         ((struct zn_rmsnorm_forward_args){y, x, weight, rstd, rows, cols, type, 1e-5f}), "");
    BOTH(b, layernorm_backward,
         ((struct zn_layernorm_backward_args){y, d_weight, d_bias, dy, x, weight, mean, rstd,
                                              partial, rows, cols, type}),
         "");
    BOTH(b, rmsnorm_backward,
         ((struct zn_rmsnorm_backward_args){y, d_weight, dy, x, weight, rstd, partial, rows, cols,
                                            type}),
         "");
}

static void check_rope_and_embedding(struct both *b)
{
    int64_t rows = both_draw(b, 1, 60), heads = both_draw(b, 1, 4), dim = 2 * both_draw(b, 1, 20),
            period = both_draw(b, 1, 30);
    int64_t gap = both_draw(b, 0, 7), width = both_draw(b, 1, 300), first = both_draw(b, 0, 20),
            n_ids = both_draw(b, 1, 30);
    zn_dtype type = types[both_draw(b, 0, 2)];
    zn_addr positions = both_draw(b, 0, 1) ? both_ids(b, rows, 0, (int)period - 1) : 0;
    zn_addr x = both_floats(b, rows * (heads * dim + gap), 1);
    BOTH(b, rope,
         ((struct zn_rope_args){
             .y = both_draw(b, 0, 1) ? x : both_floats(b, rows * (heads * dim + gap), 1),
             .x = x,
             .cos = both_floats(b, period * dim / 2, 1),
             .sin = both_floats(b, period * dim / 2, 1),
             .position_ids = positions,
             .rows = rows,
             .heads = heads,
             .head_dim = dim,
             .period = period,
             .y_stride = heads * dim + gap,
             .x_stride = heads * dim + gap,
             .inverse = both_draw(b, 0, 1) == 1}),
         "");
    zn_addr ids = both_ids(b, rows, 0, 50), dy = both_floats(b, rows * width, 1);
    BOTH(b, embedding_forward,
         ((struct zn_embedding_forward_args){
             both_floats(b, rows * width, 1), both_params(b, n_ids * width, type),
             both_draw(b, 0, 1) ? both_params(b, period * width, type) : 0, ids, positions, rows,
             width, period, first, n_ids, type}),
         "");
    BOTH(b, embedding_backward,
         ((struct zn_embedding_backward_args){
             both_bits(b, 4 * n_ids * width),
             both_draw(b, 0, 1) ? both_bits(b, 4 * period * width) : 0, dy, ids, positions, rows,
             width, period, first, n_ids, period}),
         "");
}

static void check_loss(struct both *b)
{
    int64_t rows = both_draw(b, 1, 30), cols = both_draw(b, 1, 200),
            stride = cols + both_draw(b, 0, 9), first = both_draw(b, 0, 40);
    zn_addr logits = both_floats(b, rows * stride, 6), targets = both_ids(b, rows, -1, 260);
    zn_addr max = both_floats(b, rows, 1), sum = both_floats(b, rows, 1),
            at = both_floats(b, rows, 1);
    for (int64_t i = 0; i < rows; i++)
        both_values(b, sum)[i] = (float)both_draw(b, 1, 1000) * 0.37f;
    zn_addr total = both_bytes(b, 8);
    memset(b->image + total, 0, 8);
    BOTH(b, loss_panel,
         ((struct zn_loss_panel_args){logits, targets, max, sum, at, rows, cols, stride, first,
                                      both_draw(b, 0, 1) == 1}),
         "");
    BOTH(b, loss_finish, ((struct zn_loss_finish_args){sum, total, max, sum, at, targets, rows}),
         "");
    BOTH(b, loss_gradient,
         ((struct zn_loss_gradient_args){logits, targets, both_floats(b, rows, 1), 0, rows, cols,
                                         stride, first, 0.01f}),
         "");
    BOTH(b, loss_gradient,
         ((struct zn_loss_gradient_args){logits, targets, both_floats(b, rows, 1), both_floats(b, rows, 1),
                                         rows, cols, stride, first, 0.01f}),
         "weights");
}

/* Pairs of any lengths, and padding at the end. */
static void check_pair_loss(struct both *b)
{
    int64_t rows = both_draw(b, 1, 30);
    zn_addr sequences = both_ids(b, rows, 0, 1), sums = both_bytes(b, 24);
    for (int64_t i = 0, sequence = 0; i < rows; i++)
        ((int32_t *)(void *)(b->image + sequences))[i] =
            i > rows - 3 ? -1 : (int32_t)(sequence += both_draw(b, 0, 2) == 0);
    memset(b->image + sums, 0, 24);
    BOTH(b, pair_loss,
         ((struct zn_pair_loss_args){.weights = both_floats(b, rows, 1),
                                     .sums = sums,
                                     .lse = both_floats(b, rows, 1),
                                     .target_logit = both_floats(b, rows, 1),
                                     .reference_lse = both_floats(b, rows, 1),
                                     .reference_logit = both_floats(b, rows, 1),
                                     .targets = both_ids(b, rows, -1, 260),
                                     .sequences = sequences,
                                     .rows = rows,
                                     .beta = 0.1f,
                                     .scale = 0.25f}),
         "");
}

static void check_attention(struct both *b)
{
    int64_t batch = both_draw(b, 1, 2), time = both_draw(b, 1, 140), kv = both_draw(b, 1, 2),
            heads = kv * both_draw(b, 1, 3), dim = both_draw(b, 1, 70);
    int64_t past = both_draw(b, 0, 2) ? 0 : both_draw(b, 1, 90), gap = both_draw(b, 0, 5),
            window = both_draw(b, 0, 1) ? 0 : both_draw(b, 1, 100);
    int64_t q_stride = heads * dim + gap, k_stride = kv * dim + gap, rows = batch * time;
    zn_addr positions = past || both_draw(b, 0, 1) ? 0 : both_examples(b, rows, time);
    zn_addr q = both_floats(b, rows * q_stride, 1),
            k = both_floats(b, batch * (past + time) * k_stride, 1);
    zn_addr v = both_floats(b, batch * (past + time) * k_stride, 1),
            out = both_floats(b, rows * q_stride, 1);
    zn_addr lse = both_floats(b, batch * heads * time, 1);
    char what[100];
    snprintf(what, sizeof what, "time %d, past %d, heads %d of %d, dim %d, window %d%s", (int)time,
             (int)past, (int)heads, (int)kv, (int)dim, (int)window, positions ? ", examples" : "");
    BOTH(b, attention_forward,
         ((struct zn_attention_forward_args){out, lse, q, k, v, positions, batch, time, past, heads,
                                             kv, dim, q_stride, k_stride, k_stride, q_stride,
                                             window, 0.2f}),
         what);
    memcpy(b->image, b->result[0], b->used); /* backward takes what forward gave */
    BOTH(b, attention_backward,
         ((struct zn_attention_backward_args){
             .dq = both_floats(b, rows * q_stride, 1),
             .dk = both_floats(b, rows * k_stride, 1),
             .dv = both_floats(b, rows * k_stride, 1),
             .d_out = both_floats(b, rows * q_stride, 1),
             .out = out,
             .lse = lse,
             .q = q,
             .k = k,
             .v = v,
             .delta = both_floats(b, batch * heads * time, 1),
             .partial = heads == kv ? 0 : both_scratch(b, 8 * batch * heads * time * dim),
             .position_ids = positions,
             .batch = batch,
             .seq_len = time,
             .heads = heads,
             .kv_heads = kv,
             .head_dim = dim,
             .q_stride = q_stride,
             .k_stride = k_stride,
             .v_stride = k_stride,
             .out_stride = q_stride,
             .dq_stride = q_stride,
             .dk_stride = k_stride,
             .dv_stride = k_stride,
             .window = window,
             .scale = 0.2f}),
         what);
}

zn_status zn_check_kernels(zn_device *processor, zn_device *device, int n_rounds, uint64_t seed,
                           struct zn_check *check)
{
    static void (*const parts[])(struct both *) = {
        check_moving_and_filling, check_casts, check_elementwise,
        check_optimizers,         check_sums,  check_norms,
        check_rope_and_embedding, check_loss,  check_pair_loss,
        check_attention};
    struct both b;
    b.status = both_init(&b, processor, device, seed, check);
    for (int round = 0; round < n_rounds; round++) {
        for (size_t i = 0; i < sizeof parts / sizeof parts[0] && b.status == ZN_OK; i++) {
            both_begin(&b);
            parts[i](&b);
        }
    }
    both_fini(&b);
    return b.status;
}
