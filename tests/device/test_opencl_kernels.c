/* Every kernel on an OpenCL device against the processor's, to the bit, over random shapes. ZINC_TEST_ROUNDS sets how many
 * shapes each kernel gets (4). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "device/both_devices.h"
#include "base/exact.h"

static struct both both, *b = &both;
static const zn_dtype types[] = {ZN_F32, ZN_BF16, ZN_F16};

static int n_rounds(void)
{
    const char *text = getenv("ZINC_TEST_ROUNDS");
    return text ? atoi(text) : 4;
}

#define ROUNDS for (int round_ = 0, n_ = n_rounds(); round_ < n_; begin(b), round_++)

static int64_t draw_elements(void)
{
    return draw(b, 1, draw(b, 0, 1) ? 300 : 6000);
}

static void moving_and_filling(void **state)
{
    (void)state;
    begin(b);
    ROUNDS {
        int64_t n = draw_elements(), rows = draw(b, 1, 9), width = draw(b, 1, 70), gap = draw(b, 0, 5);
        CHECK_BOTH(b, zero, (&(struct zn_zero_args){place_bits(b, n), n}), "any bytes");
        CHECK_BOTH(b, copy, (&(struct zn_copy_args){place_bits(b, n), place_bits(b, n), n}), "any bytes");
        CHECK_BOTH(b, copy_rows,
                   (&(struct zn_copy_rows_args){.dst = place_floats(b, rows * (width + gap), 1),
                                                .src = place_floats(b, rows * width, 1),
                                                .rows = rows, .width = width, .dst_stride = width + gap, .src_stride = width}),
                   "rows");
        CHECK_BOTH(b, fill, (&(struct zn_fill_args){place_floats(b, n, 1), n, 0.3f}), "0.3");
        CHECK_BOTH(b, fill_normal, (&(struct zn_fill_normal_args){place_floats(b, n, 1), draw(b, 0, 1 << 20), n, 77, 0.02f}), "");
        CHECK_BOTH(b, fill_uniform, (&(struct zn_fill_uniform_args){place_floats(b, n, 1), draw(b, 0, 1 << 20), n, 78, 0.1f}), "");
    }
}

static void casts(void **state)
{
    (void)state;
    begin(b);
    ROUNDS {
        int64_t n = draw_elements();
        for (int t = 0; t < 9; t++)
            CHECK_BOTH(b, cast,
                       (&(struct zn_cast_args){.dst = place_bits(b, 4 * n), .src = place_bits(b, 4 * n), .n_elements = n,
                                               .dst_type = types[t / 3], .src_type = types[t % 3]}),
                       zn_dtype_name(types[t % 3]));
        for (int t = 1; t < 3; t++)
            CHECK_BOTH(b, round, (&(struct zn_round_args){place_bits(b, 4 * n), types[t], n}), zn_dtype_name(types[t]));
    }
}

static void elementwise(void **state)
{
    (void)state;
    begin(b);
    ROUNDS {
        int64_t n = draw_elements();
        zn_addr x = place_floats(b, n, 4), y = place_floats(b, n, 1), z = place_floats(b, n, 1), w = place_floats(b, n, 1);
        zn_addr u = place_floats(b, n, 1);
        CHECK_BOTH(b, add, (&(struct zn_add_args){y, x, y, n}), "");
        CHECK_BOTH(b, mul, (&(struct zn_mul_args){z, x, y, n}), "");
        CHECK_BOTH(b, add_scaled, (&(struct zn_add_scaled_args){z, draw(b, 0, 1) ? x : 0, y, n, 0.7f}), "");
        CHECK_BOTH(b, swiglu_forward, (&(struct zn_swiglu_forward_args){y, x, z, n}), "");
        CHECK_BOTH(b, swiglu_backward, (&(struct zn_swiglu_backward_args){z, w, z, x, u, n}), "");
        for (int form = 0; form < 2; form++) {
            CHECK_BOTH(b, gelu_forward, (&(struct zn_gelu_forward_args){y, x, n, form}), form ? "tanh" : "erf");
            CHECK_BOTH(b, gelu_backward, (&(struct zn_gelu_backward_args){y, y, x, n, form}), form ? "tanh" : "erf");
        }
        zn_addr wide = place_floats(b, n, 80);
        CHECK_BOTH(b, swiglu_forward, (&(struct zn_swiglu_forward_args){y, wide, z, n}), "large values");
        CHECK_BOTH(b, gelu_forward, (&(struct zn_gelu_forward_args){y, wide, n, false}), "large values");
    }
}

static void optimizers(void **state)
{
    (void)state;
    begin(b);
    ROUNDS {
        int64_t n = draw_elements();
        zn_dtype type = types[draw(b, 0, 2)];
        zn_addr p = place_floats(b, n, 1), g = place_floats(b, n, 0.1f), m = place_floats(b, n, 0.1f), v = place_bytes(b, 4 * n);
        for (int64_t i = 0; i < n; i++)
            ((float *)(void *)(b->image + v))[i] = (float)draw(b, 0, 1000) * 1e-6f;
        zn_addr copy = draw(b, 0, 2) ? place_bits(b, 4 * n) : 0;
        CHECK_BOTH(b, adam,
                   (&(struct zn_adam_args){.param = p, .grad = g, .exp_avg = m, .exp_avg_sq = v, .copy = copy, .copy_type = type,
                                           .n_elements = n, .grad_scale = 0.5f, .one_minus_beta1 = 0.1f, .beta2 = 0.999f,
                                           .one_minus_beta2 = 0.001f, .eps = 1e-8f, .step_size = 1e-3f, .root_correction = 0.7f,
                                           .keep = 0.9999f, .coupled_decay = draw(b, 0, 1) ? 0.01f : 0}),
                   zn_dtype_name(type));
        CHECK_BOTH(b, sgd,
                   (&(struct zn_sgd_args){.param = p, .grad = g, .momentum_buffer = draw(b, 0, 2) ? m : 0, .copy = copy,
                                          .copy_type = type, .n_elements = n, .grad_scale = 0.5f, .lr = 0.01f, .momentum = 0.9f,
                                          .coupled_decay = 0.02f, .first = draw(b, 0, 1) == 1}),
                   zn_dtype_name(type));
    }
}

static void sums(void **state)
{
    (void)state;
    begin(b);
    ROUNDS {
        int64_t rows = draw(b, 1, 200), cols = draw(b, 1, 90), stride = cols + draw(b, 0, 9), n = draw(b, 1, 9000);
        CHECK_BOTH(b, column_sum,
                   (&(struct zn_column_sum_args){place_floats(b, cols, 1), place_floats(b, rows * stride, 1),
                                                 place_scratch(b, 4 * (rows / ZN_SUM_ROWS + 1) * cols), rows, cols, stride}),
                   "");
        zn_addr sum = place_bytes(b, sizeof(zn_exact));
        memset(b->image + sum, 0, sizeof(zn_exact));
        CHECK_BOTH(b, sum_squares,
                   (&(struct zn_sum_squares_args){sum, place_floats(b, n, draw(b, 0, 1) ? 1e-3f : 1e12f),
                                                  place_scratch(b, 8 * (n / ZN_SUM_ELEMENTS + 1)), n}),
                   "");
        zn_addr bits = place_bits(b, 4 * n); /* also what is not finite, or least */
        CHECK_BOTH(b, sum_squares,
                   (&(struct zn_sum_squares_args){sum, bits, place_scratch(b, 8 * (n / ZN_SUM_ELEMENTS + 1)), n}), "any bits");
    }
}

static void norms(void **state)
{
    (void)state;
    begin(b);
    ROUNDS {
        int64_t rows = draw(b, 1, 150), cols = draw(b, 1, 100);
        zn_dtype type = types[draw(b, 0, 2)];
        zn_addr x = place_floats(b, rows * cols, 2), dy = place_floats(b, rows * cols, 1), y = place_floats(b, rows * cols, 1);
        zn_addr weight = place_params(b, cols, type), bias = draw(b, 0, 1) ? place_params(b, cols, type) : 0;
        zn_addr mean = place_floats(b, rows, 1), rstd = place_floats(b, rows, 1), d_weight = place_floats(b, cols, 1);
        zn_addr d_bias = draw(b, 0, 1) ? place_floats(b, cols, 1) : 0;
        zn_addr partial = place_scratch(b, 8 * (rows / ZN_SUM_ROWS + 1) * cols);
        CHECK_BOTH(b, layernorm_forward,
                   (&(struct zn_layernorm_forward_args){y, x, weight, bias, mean, rstd, rows, cols, type, type, 1e-5f}), "");
        CHECK_BOTH(b, rmsnorm_forward, (&(struct zn_rmsnorm_forward_args){y, x, weight, rstd, rows, cols, type, 1e-5f}), "");
        CHECK_BOTH(b, layernorm_backward,
                   (&(struct zn_layernorm_backward_args){y, d_weight, d_bias, dy, x, weight, mean, rstd, partial, rows, cols, type}),
                   "");
        CHECK_BOTH(b, rmsnorm_backward,
                   (&(struct zn_rmsnorm_backward_args){y, d_weight, dy, x, weight, rstd, partial, rows, cols, type}), "");
    }
}

static void rope_and_embedding(void **state)
{
    (void)state;
    begin(b);
    ROUNDS {
        int64_t rows = draw(b, 1, 60), heads = draw(b, 1, 4), dim = 2 * draw(b, 1, 20), period = draw(b, 1, 30);
        int64_t gap = draw(b, 0, 7), width = draw(b, 1, 300), first = draw(b, 0, 20), n_ids = draw(b, 1, 30);
        zn_dtype type = types[draw(b, 0, 2)];
        zn_addr positions = draw(b, 0, 1) ? place_ids(b, rows, 0, (int)period - 1) : 0;
        zn_addr x = place_floats(b, rows * (heads * dim + gap), 1);
        CHECK_BOTH(b, rope,
                   (&(struct zn_rope_args){.y = draw(b, 0, 1) ? x : place_floats(b, rows * (heads * dim + gap), 1), .x = x,
                                           .cos = place_floats(b, period * dim / 2, 1), .sin = place_floats(b, period * dim / 2, 1),
                                           .position_ids = positions, .rows = rows, .heads = heads, .head_dim = dim,
                                           .period = period, .y_stride = heads * dim + gap, .x_stride = heads * dim + gap,
                                           .inverse = draw(b, 0, 1) == 1}),
                   "");
        zn_addr ids = place_ids(b, rows, 0, 50), dy = place_floats(b, rows * width, 1);
        CHECK_BOTH(b, embedding_forward,
                   (&(struct zn_embedding_forward_args){place_floats(b, rows * width, 1), place_params(b, n_ids * width, type),
                                                        draw(b, 0, 1) ? place_params(b, period * width, type) : 0, ids, positions,
                                                        rows, width, period, first, n_ids, type}),
                   "");
        CHECK_BOTH(b, embedding_backward,
                   (&(struct zn_embedding_backward_args){place_bits(b, 4 * n_ids * width),
                                                         draw(b, 0, 1) ? place_bits(b, 4 * period * width) : 0, dy, ids, positions,
                                                         rows, width, period, first, n_ids, period}),
                   "");
    }
}

static void loss(void **state)
{
    (void)state;
    begin(b);
    ROUNDS {
        int64_t rows = draw(b, 1, 30), cols = draw(b, 1, 200), stride = cols + draw(b, 0, 9), first = draw(b, 0, 40);
        zn_addr logits = place_floats(b, rows * stride, 6), targets = place_ids(b, rows, -1, 260);
        zn_addr max = place_floats(b, rows, 1), sum = place_floats(b, rows, 1), at = place_floats(b, rows, 1);
        for (int64_t i = 0; i < rows; i++)
            ((float *)(void *)(b->image + sum))[i] = (float)draw(b, 1, 1000) * 0.37f;
        zn_addr total = place_bytes(b, 8);
        memset(b->image + total, 0, 8);
        CHECK_BOTH(b, loss_panel,
                   (&(struct zn_loss_panel_args){logits, targets, max, sum, at, rows, cols, stride, first, draw(b, 0, 1) == 1}), "");
        CHECK_BOTH(b, loss_finish, (&(struct zn_loss_finish_args){sum, total, max, sum, at, targets, rows}), "");
        CHECK_BOTH(b, loss_gradient,
                   (&(struct zn_loss_gradient_args){logits, targets, place_floats(b, rows, 1), rows, cols, stride, first, 0.01f}), "");
    }
}

static void attention(void **state)
{
    (void)state;
    begin(b);
    ROUNDS {
        int64_t batch = draw(b, 1, 2), time = draw(b, 1, 140), kv = draw(b, 1, 2), heads = kv * draw(b, 1, 3), dim = draw(b, 1, 70);
        int64_t past = draw(b, 0, 2) ? 0 : draw(b, 1, 90), gap = draw(b, 0, 5), window = draw(b, 0, 1) ? 0 : draw(b, 1, 100);
        int64_t q_stride = heads * dim + gap, k_stride = kv * dim + gap, rows = batch * time;
        zn_addr positions = past || draw(b, 0, 1) ? 0 : place_examples(b, rows, time);
        zn_addr q = place_floats(b, rows * q_stride, 1), k = place_floats(b, batch * (past + time) * k_stride, 1);
        zn_addr v = place_floats(b, batch * (past + time) * k_stride, 1), out = place_floats(b, rows * q_stride, 1);
        zn_addr lse = place_floats(b, batch * heads * time, 1);
        char what[100];
        snprintf(what, sizeof what, "time %d, past %d, heads %d of %d, dim %d, window %d%s", (int)time, (int)past, (int)heads,
                 (int)kv, (int)dim, (int)window, positions ? ", examples" : "");
        CHECK_BOTH(b, attention_forward,
                   (&(struct zn_attention_forward_args){out, lse, q, k, v, positions, batch, time, past, heads, kv, dim, q_stride,
                                                        k_stride, k_stride, q_stride, window, 0.2f}),
                   what);
        memcpy(b->image, b->result[0], b->used); /* backward takes what forward gave */
        CHECK_BOTH(b, attention_backward,
                   (&(struct zn_attention_backward_args){
                       .dq = place_floats(b, rows * q_stride, 1), .dk = place_floats(b, rows * k_stride, 1),
                       .dv = place_floats(b, rows * k_stride, 1), .d_out = place_floats(b, rows * q_stride, 1), .out = out,
                       .lse = lse, .q = q, .k = k, .v = v, .delta = place_floats(b, batch * heads * time, 1),
                       .partial = heads == kv ? 0 : place_scratch(b, 8 * batch * heads * time * dim), .position_ids = positions,
                       .batch = batch, .seq_len = time, .heads = heads, .kv_heads = kv, .head_dim = dim, .q_stride = q_stride,
                       .k_stride = k_stride, .v_stride = k_stride, .out_stride = q_stride, .dq_stride = q_stride,
                       .dk_stride = k_stride, .dv_stride = k_stride, .window = window, .scale = 0.2f}),
                   what);
    }
}

static int set_up(void **state)
{
    (void)state;
    both_open(b, 1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    both_close(b);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moving_and_filling), cmocka_unit_test(casts), cmocka_unit_test(elementwise),
        cmocka_unit_test(optimizers),         cmocka_unit_test(sums),  cmocka_unit_test(norms),
        cmocka_unit_test(rope_and_embedding), cmocka_unit_test(loss),  cmocka_unit_test(attention),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
