/* The gradient of every operator, to its inputs and parameters, against finite differences. */
#include "autograd/lab.h"

/* Central differences with Richardson's extrapolation in fp32 leave about 1e-4 of error. */
static const double BOUND = 1e-3;

enum { B = 2, T = 3, ROWS = B * T };

#define DIMS(...) ((const int64_t[]){__VA_ARGS__, 0})

static void check(struct lab *lab, void (*forward)(struct lab *, zn_tape *))
{
    lab->forward = forward;
    lab_check_gradients(lab, BOUND);
    lab_destroy(lab);
}

/* ---- Embedding: ids repeat, and one is never used ---- */

static void run_embedding(struct lab *lab, zn_tape *t)
{
    lab_functional(lab, t,
                   zn_embedding(t, lab_ids(lab, t, lab->ids), lab_at(lab, 0), lab_at(lab, 1)));
}

static struct lab *embedding_lab(void)
{
    static const int32_t ids[ROWS] = {3, 0, 3, 1, 3, 0};
    struct lab *lab = lab_create(B, T);
    memcpy(lab->ids, ids, sizeof ids);
    lab_param(lab, "table", DIMS(5, 4), 0, 1);
    return lab;
}

static void embedding(void **state)
{
    (void)state;
    check(embedding_lab(), run_embedding);
}

static void embedding_with_positions(void **state)
{
    (void)state;
    struct lab *lab = embedding_lab();
    lab_param(lab, "positions", DIMS(T + 2, 4), 0, 1); /* two more than are used */
    check(lab, run_embedding);
}

/* ---- Linear ---- */

static void run_linear(struct lab *lab, zn_tape *t)
{
    zn_tensor *x = lab_input(lab, t, 0);
    lab_functional(lab, t, zn_linear(t, x, lab_at(lab, 1), lab_at(lab, 2), lab->layout));
}

static void check_linear(zn_layout layout, bool has_bias)
{
    enum { IN = 4, OUT = 5 };
    struct lab *lab = lab_create(B, T);
    lab->layout = layout;
    lab_param(lab, "x", DIMS(ROWS, IN), 0, 1);
    lab_param(lab, "weight", layout == ZN_OUT_IN ? DIMS(OUT, IN) : DIMS(IN, OUT), 0, 1);
    if (has_bias)
        lab_param(lab, "bias", DIMS(OUT), 0, 1);
    check(lab, run_linear);
}

/* With a branch of low rank beside the weight. */
static void check_adapter(zn_layout layout)
{
    enum { IN = 4, OUT = 5, RANK = 2 };
    struct lab *lab = lab_create(B, T);
    lab->layout = layout;
    lab_param(lab, "x", DIMS(ROWS, IN), 0, 1);
    lab_param(lab, "weight", layout == ZN_OUT_IN ? DIMS(OUT, IN) : DIMS(IN, OUT), 0, 1);
    lab_param(lab, "bias", DIMS(OUT), 0, 1);
    lab_param(lab, "a", DIMS(RANK, IN), 0, 1);
    lab_param(lab, "b", DIMS(OUT, RANK), 0, 1);
    const struct zn_adapter adapter = {.a = lab_at(lab, 3), .b = lab_at(lab, 4), .scale = 1.75f};
    lab->params[1].param.adapter = &adapter;
    check(lab, run_linear);
}

static void linear_with_an_adapter(void **state)
{
    (void)state;
    check_adapter(ZN_OUT_IN);
    check_adapter(ZN_IN_OUT);
}

static void linear_out_in(void **state)
{
    (void)state;
    check_linear(ZN_OUT_IN, false);
}

static void linear_out_in_with_bias(void **state)
{
    (void)state;
    check_linear(ZN_OUT_IN, true);
}

static void linear_in_out(void **state)
{
    (void)state;
    check_linear(ZN_IN_OUT, false);
}

static void linear_in_out_with_bias(void **state)
{
    (void)state;
    check_linear(ZN_IN_OUT, true);
}

/* ---- Norms ---- */

static void run_layernorm(struct lab *lab, zn_tape *t)
{
    zn_tensor *x = lab_input(lab, t, 0);
    lab_functional(lab, t, zn_layernorm(t, x, lab_at(lab, 1), lab_at(lab, 2), 1e-2f));
}

static void run_rmsnorm(struct lab *lab, zn_tape *t)
{
    lab_functional(lab, t, zn_rmsnorm(t, lab_input(lab, t, 0), lab_at(lab, 1), 1e-2f));
}

/* The weight may be as wide as a part of the row: a head. */
static struct lab *norm_lab(int64_t cols, int64_t n_weights)
{
    struct lab *lab = lab_create(B, T);
    lab_param(lab, "x", DIMS(ROWS, cols), 0.3, 1);
    lab_param(lab, "weight", DIMS(n_weights), 1, 0.3);
    return lab;
}

static void layernorm(void **state)
{
    (void)state;
    struct lab *lab = norm_lab(6, 6);
    lab_param(lab, "bias", DIMS(6), 0, 1);
    check(lab, run_layernorm);
}

static void layernorm_without_bias(void **state)
{
    (void)state;
    check(norm_lab(6, 6), run_layernorm);
}

static void rmsnorm(void **state)
{
    (void)state;
    check(norm_lab(6, 6), run_rmsnorm);
}

static void rmsnorm_of_each_head(void **state)
{
    (void)state;
    check(norm_lab(12, 4), run_rmsnorm);
}

/* ---- Rotary embedding ---- */

static void run_rope(struct lab *lab, zn_tape *t)
{
    zn_tensor *x = lab_input(lab, t, 0);
    lab_functional(lab, t, zn_rope(t, x, 2, &lab->constants[0], &lab->constants[1]));
}

static void rope(void **state)
{
    (void)state;
    enum { HEADS = 2, HALF = 2, POSITIONS = T + 1 };
    float cosines[POSITIONS * HALF], sines[POSITIONS * HALF];
    struct lab *lab = lab_create(B, T);
    for (int i = 0; i < POSITIONS * HALF; i++) {
        cosines[i] = cosf(0.7f * (float)i);
        sines[i] = sinf(0.7f * (float)i);
    }
    lab->constants[0] = (zn_constant){"cos", 0, POSITIONS * HALF, cosines};
    lab->constants[1] = (zn_constant){"sin", 1, POSITIONS * HALF, sines};
    lab_param(lab, "x", DIMS(ROWS, HEADS * HALF * 2), 0, 1);
    check(lab, run_rope);
}

/* ---- Attention ---- */

enum { HEAD_DIM = 4, LONG = 6 };

static void run_attention(struct lab *lab, zn_tape *t)
{
    zn_tensor *q = lab_input(lab, t, 0), *k = lab_input(lab, t, 1), *v = lab_input(lab, t, 2);
    lab_functional(lab, t, zn_attention(t, q, k, v, &lab->attention));
}

static void run_attention_fused(struct lab *lab, zn_tape *t)
{
    lab_functional(lab, t, zn_attention_fused(t, lab_input(lab, t, 0), &lab->attention));
}

static struct lab *attention_lab(int64_t heads, int64_t kv_heads, int64_t window)
{
    struct lab *lab = lab_create(B, LONG);
    lab->attention = (struct zn_attention){.heads = heads,
                                           .kv_heads = kv_heads,
                                           .head_dim = HEAD_DIM,
                                           .window = window,
                                           .scale = 0.5f};
    return lab;
}

static void check_attention(int64_t heads, int64_t kv_heads, int64_t window)
{
    struct lab *lab = attention_lab(heads, kv_heads, window);
    lab_param(lab, "q", DIMS(B * LONG, heads * HEAD_DIM), 0, 1);
    lab_param(lab, "k", DIMS(B * LONG, kv_heads * HEAD_DIM), 0, 1);
    lab_param(lab, "v", DIMS(B * LONG, kv_heads * HEAD_DIM), 0, 1);
    check(lab, run_attention);
}

static void check_attention_fused(int64_t heads, int64_t kv_heads, int64_t window)
{
    struct lab *lab = attention_lab(heads, kv_heads, window);
    lab_param(lab, "qkv", DIMS(B * LONG, (heads + 2 * kv_heads) * HEAD_DIM), 0, 1);
    check(lab, run_attention_fused);
}

static void attention_of_three_tensors(void **state)
{
    (void)state;
    check_attention(2, 2, 0);
}

static void attention_with_grouped_heads(void **state)
{
    (void)state;
    check_attention(4, 2, 0);
}

static void attention_with_a_window(void **state)
{
    (void)state;
    check_attention(2, 1, 2);
}

static void attention_fused(void **state)
{
    (void)state;
    check_attention_fused(2, 2, 0);
}

static void attention_fused_with_grouped_heads(void **state)
{
    (void)state;
    check_attention_fused(3, 1, 0);
}

static void attention_fused_with_a_window(void **state)
{
    (void)state;
    check_attention_fused(2, 2, 3);
}

/* ---- Element by element ---- */

static void run_gelu(struct lab *lab, zn_tape *t)
{
    lab_functional(lab, t, zn_gelu(t, lab_input(lab, t, 0), lab->gelu));
}

static void run_swiglu(struct lab *lab, zn_tape *t)
{
    lab_functional(lab, t, zn_swiglu(t, lab_input(lab, t, 0), lab_input(lab, t, 1)));
}

static void run_add(struct lab *lab, zn_tape *t)
{
    lab_functional(lab, t, zn_add(t, lab_input(lab, t, 0), lab_input(lab, t, 1)));
}

static void run_mul(struct lab *lab, zn_tape *t)
{
    lab_functional(lab, t, zn_mul(t, lab_input(lab, t, 0), lab_input(lab, t, 1)));
}

static struct lab *pointwise_lab(int n_inputs)
{
    struct lab *lab = lab_create(B, T);
    lab_param(lab, "a", DIMS(ROWS, 5), 0, 1.5);
    if (n_inputs > 1)
        lab_param(lab, "b", DIMS(ROWS, 5), 0, 1.5);
    return lab;
}

static void gelu_exact(void **state)
{
    (void)state;
    struct lab *lab = pointwise_lab(1);
    lab->gelu = ZN_GELU_EXACT;
    check(lab, run_gelu);
}

static void gelu_tanh(void **state)
{
    (void)state;
    struct lab *lab = pointwise_lab(1);
    lab->gelu = ZN_GELU_TANH;
    check(lab, run_gelu);
}

static void swiglu(void **state)
{
    (void)state;
    check(pointwise_lab(2), run_swiglu);
}

static void add(void **state)
{
    (void)state;
    check(pointwise_lab(2), run_add);
}

static void mul(void **state)
{
    (void)state;
    check(pointwise_lab(2), run_mul);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(embedding),
        cmocka_unit_test(embedding_with_positions),
        cmocka_unit_test(linear_with_an_adapter),
        cmocka_unit_test(linear_out_in),
        cmocka_unit_test(linear_out_in_with_bias),
        cmocka_unit_test(linear_in_out),
        cmocka_unit_test(linear_in_out_with_bias),
        cmocka_unit_test(layernorm),
        cmocka_unit_test(layernorm_without_bias),
        cmocka_unit_test(rmsnorm),
        cmocka_unit_test(rmsnorm_of_each_head),
        cmocka_unit_test(rope),
        cmocka_unit_test(attention_of_three_tensors),
        cmocka_unit_test(attention_with_grouped_heads),
        cmocka_unit_test(attention_with_a_window),
        cmocka_unit_test(attention_fused),
        cmocka_unit_test(attention_fused_with_grouped_heads),
        cmocka_unit_test(attention_fused_with_a_window),
        cmocka_unit_test(gelu_exact),
        cmocka_unit_test(gelu_tanh),
        cmocka_unit_test(swiglu),
        cmocka_unit_test(add),
        cmocka_unit_test(mul),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
