/* The tape itself: gradients of what is used several times or not at all, failures that stick,
 * and a program that leaves its plan. */
#include "autograd/lab.h"

#define DIMS(...) ((const int64_t[]){__VA_ARGS__, 0})

enum { B = 2, T = 3, ROWS = B * T, WIDTH = 4 };

static struct lab *new_lab(void)
{
    struct lab *lab = lab_create(B, T);
    lab_param(lab, "x", DIMS(ROWS, WIDTH), 0, 1);
    lab_param(lab, "weight", DIMS(WIDTH, WIDTH), 0, 1);
    lab_param(lab, "norm", DIMS(WIDTH), 1, 0.2);
    return lab;
}

static void check(struct lab *lab, void (*forward)(struct lab *, zn_tape *))
{
    lab->forward = forward;
    lab_check_gradients(lab, 1e-3);
    lab_destroy(lab);
}

/* ---- Used twice, used never ---- */

/* The residual stream: x goes on and into a branch; the sum of the branches is used twice again. */
static void run_residual(struct lab *lab, zn_tape *t)
{
    zn_tensor *x = lab_input(lab, t, 0);
    for (int i = 0; i < 2; i++) {
        zn_tensor *h = zn_rmsnorm(t, x, lab_at(lab, 2), 1e-2f);
        x = zn_add(t, x, zn_linear(t, h, lab_at(lab, 1), NULL, ZN_OUT_IN));
    }
    lab_functional(lab, t, x);
}

static void a_tensor_used_twice_accumulates(void **state)
{
    (void)state;
    check(new_lab(), run_residual);
}

/* One tensor as every input of an operator. */
static void run_same_inputs(struct lab *lab, zn_tape *t)
{
    struct zn_attention how = {.heads = 2, .kv_heads = 2, .head_dim = 2, .scale = 0.7f};
    zn_tensor *x = zn_rmsnorm(t, lab_input(lab, t, 0), lab_at(lab, 2), 1e-2f);
    zn_tensor *y = zn_add(t, zn_mul(t, x, x), zn_swiglu(t, x, x));
    y = zn_add(t, zn_add(t, y, y), zn_attention(t, x, x, x, &how));
    lab_functional(lab, t, zn_linear(t, y, lab_at(lab, 1), NULL, ZN_IN_OUT));
}

static void one_tensor_as_all_inputs_of_an_operator(void **state)
{
    (void)state;
    check(new_lab(), run_same_inputs);
}

static void run_same_weight(struct lab *lab, zn_tape *t)
{
    zn_tensor *x = zn_rmsnorm(t, lab_input(lab, t, 0), lab_at(lab, 2), 1e-2f);
    for (int i = 0; i < 3; i++)
        x = zn_gelu(t, zn_linear(t, x, lab_at(lab, 1), NULL, i % 2 ? ZN_IN_OUT : ZN_OUT_IN),
                    ZN_GELU_TANH);
    lab_functional(lab, t, x);
}

static void a_parameter_used_three_times_accumulates(void **state)
{
    (void)state;
    check(new_lab(), run_same_weight);
}

static void run_dead_end(struct lab *lab, zn_tape *t)
{
    zn_tensor *x = zn_rmsnorm(t, lab_input(lab, t, 0), lab_at(lab, 2), 1e-2f);
    zn_gelu(t, zn_linear(t, x, lab_at(lab, 1), NULL, ZN_OUT_IN),
            ZN_GELU_TANH); /* nobody wants it */
    lab_functional(lab, t, x);
}

static void what_has_no_part_in_the_loss_gets_no_gradient(void **state)
{
    (void)state;
    struct lab *lab = new_lab();
    lab->forward = run_dead_end;
    struct lab_plan plan = lab_record(lab, true);
    lab_replay(lab, &plan, true);
    assert_int_equal(lab->params[0].n_uses, 1);
    assert_int_equal(lab->params[1].n_uses, 0);
    assert_int_equal(lab->params[2].n_uses, 1);
    lab_plan_fini(&plan);
    lab_destroy(lab);
}

enum { TABLE, POSITIONS, WEIGHT, BIAS, NORM, NORM_BIAS, HEAD, N_PARAMS };

/* Every operator that has parameters. */
static void run_all(struct lab *lab, zn_tape *t)
{
    zn_tensor *x =
        zn_embedding(t, lab_ids(lab, t, lab->ids), lab_at(lab, TABLE), lab_at(lab, POSITIONS));
    x = zn_layernorm(t, x, lab_at(lab, NORM), lab_at(lab, NORM_BIAS), 1e-5f);
    x = zn_linear(t, x, lab_at(lab, WEIGHT), lab_at(lab, BIAS), ZN_IN_OUT);
    x = zn_rmsnorm(t, x, lab_at(lab, NORM), 1e-5f);
    struct zn_head head = {.weight = lab_at(lab, HEAD),
                           .targets = lab_ids(lab, t, lab->targets),
                           .loss = (zn_addr)(uintptr_t)&lab->head_loss,
                           .scale = 1};
    zn_head_loss(t, x, &head);
}

static struct lab *all_lab(void)
{
    struct lab *lab = lab_create(B, T);
    lab_param(lab, "table", DIMS(ROWS, WIDTH), 0, 1);
    lab_param(lab, "positions", DIMS(T, WIDTH), 0, 1);
    lab_param(lab, "weight", DIMS(WIDTH, WIDTH), 0, 1);
    lab_param(lab, "bias", DIMS(WIDTH), 0, 1);
    lab_param(lab, "norm", DIMS(WIDTH), 1, 1);
    lab_param(lab, "norm_bias", DIMS(WIDTH), 0, 1);
    lab_param(lab, "head", DIMS(5, WIDTH), 0, 1);
    for (int i = 0; i < ROWS; i++)
        lab->targets[i] = i % 5;
    lab->forward = run_all;
    return lab;
}

/* A hook that wants no gradient of a parameter gets none, and the others are as they were. */
static void check_frozen(unsigned frozen)
{
    struct lab *all = all_lab(), *some = all_lab();
    for (int i = 0; i < N_PARAMS; i++)
        some->params[i].is_frozen = frozen >> i & 1;
    struct lab_plan all_plan = lab_record(all, true), some_plan = lab_record(some, true);
    lab_replay(all, &all_plan, true);
    lab_replay(some, &some_plan, true);
    for (int i = 0; i < N_PARAMS; i++) {
        size_t n_bytes = (size_t)all->params[i].param.n_elements * sizeof(float);
        if (!some->params[i].is_frozen)
            assert_memory_equal(some->params[i].gradient, all->params[i].gradient, n_bytes);
    }
    lab_plan_fini(&all_plan);
    lab_plan_fini(&some_plan);
    lab_destroy(all);
    lab_destroy(some);
}

static void a_gradient_that_is_not_wanted_changes_no_other(void **state)
{
    (void)state;
    for (int i = 0; i < N_PARAMS; i++) {
        check_frozen(1u << i);
        check_frozen((1u << N_PARAMS) - 1 - (1u << i)); /* all but one */
    }
}

/* A tensor from outside wants no gradient unless it is asked to. */
static void a_leaf_gets_a_gradient_when_it_wants_one(void **state)
{
    (void)state;
    struct lab *lab = new_lab();
    zn_lifetimes *lifetimes;
    zn_tape *tape;
    OK(zn_lifetimes_create(&lifetimes));
    OK(zn_tape_create(lab->sim, &lab_hooks, lab, ZN_F32, &tape));
    for (int wants = 0; wants < 2; wants++) {
        zn_tape_start(tape, lifetimes, true, 4096);
        zn_tape_record(tape, true);
        zn_tensor *leaf = zn_tape_external(tape, ZN_F32, 3, DIMS(B, T, WIDTH), 64);
        if (wants)
            zn_tape_want_gradient(tape, leaf);
        zn_tensor *x = zn_linear(tape, zn_rmsnorm(tape, leaf, lab_at(lab, 2), 1e-5f),
                                 lab_at(lab, 1), NULL, ZN_OUT_IN);
        lab_functional(lab, tape, zn_layernorm(tape, x, lab_at(lab, 2), NULL, 1e-5f));
        OK(zn_tape_backward(tape, NULL));
        assert_int_equal(zn_tensor_gradient(leaf) != 0, wants);
        assert_int_equal(lab->params[1].n_uses, 1);
        lab->params[1].n_uses = 0;
    }
    zn_tape_destroy(tape);
    zn_lifetimes_destroy(lifetimes);
    lab_destroy(lab);
}

/* ---- Failures stick ---- */

static const zn_param narrow = {.name = "narrow", .ndim = 2, .dims = {WIDTH, 3}, .n_elements = 12};
static const zn_param wide_row = {.name = "wide_row", .ndim = 1, .dims = {7}, .n_elements = 7};
static const zn_param short_table = {
    .name = "short_table", .ndim = 2, .dims = {T - 1, WIDTH}, .n_elements = 8};
static const zn_param thin_table = {
    .name = "thin_table", .ndim = 2, .dims = {T, 3}, .n_elements = 9};
static const zn_constant few_angles = {.name = "cos", .n_elements = 2};

struct mistake {
    const char *name;
    zn_tensor *(*make)(struct lab *lab, zn_tape *t, zn_tensor *x);
};

static zn_tensor *wrong_linear(struct lab *lab, zn_tape *t, zn_tensor *x)
{
    (void)lab;
    return zn_linear(t, x, &narrow, NULL, ZN_OUT_IN);
}

static zn_tensor *wrong_bias(struct lab *lab, zn_tape *t, zn_tensor *x)
{
    return zn_linear(t, x, lab_at(lab, 1), &wide_row, ZN_OUT_IN);
}

static zn_tensor *wrong_linear_rank(struct lab *lab, zn_tape *t, zn_tensor *x)
{
    return zn_linear(t, x, lab_at(lab, 2), NULL, ZN_OUT_IN);
}

static zn_tensor *wrong_layernorm(struct lab *lab, zn_tape *t, zn_tensor *x)
{
    (void)lab;
    return zn_layernorm(t, x, &wide_row, NULL, 1e-5f);
}

static zn_tensor *wrong_layernorm_bias(struct lab *lab, zn_tape *t, zn_tensor *x)
{
    return zn_layernorm(t, x, lab_at(lab, 2), &wide_row, 1e-5f);
}

static zn_tensor *wrong_rmsnorm(struct lab *lab, zn_tape *t, zn_tensor *x)
{
    (void)lab;
    return zn_rmsnorm(t, x, &wide_row, 1e-5f);
}

static zn_tensor *wrong_positions(struct lab *lab, zn_tape *t, zn_tensor *x)
{
    (void)x;
    return zn_embedding(t, lab_ids(lab, t, lab->ids), lab_at(lab, 0), &short_table);
}

static zn_tensor *wrong_position_width(struct lab *lab, zn_tape *t, zn_tensor *x)
{
    (void)x;
    return zn_embedding(t, lab_ids(lab, t, lab->ids), lab_at(lab, 0), &thin_table);
}

static zn_tensor *wrong_rope_length(struct lab *lab, zn_tape *t, zn_tensor *x)
{
    (void)lab;
    return zn_rope(t, x, 2, &few_angles, &few_angles);
}

static zn_tensor *wrong_rope_heads(struct lab *lab, zn_tape *t, zn_tensor *x)
{
    (void)lab;
    return zn_rope(t, x, 3, &few_angles, &few_angles);
}

static zn_tensor *wrong_attention(struct lab *lab, zn_tape *t, zn_tensor *x)
{
    (void)lab;
    return zn_attention(t, x, x, x,
                        &(struct zn_attention){.heads = 2, .kv_heads = 1, .head_dim = 2});
}

static zn_tensor *wrong_attention_rows(struct lab *lab, zn_tape *t, zn_tensor *x)
{
    (void)lab;
    zn_tensor *k = zn_tape_external(t, ZN_F32, 3, DIMS(B, T - 1, WIDTH), 64);
    return zn_attention(t, x, k, x,
                        &(struct zn_attention){.heads = 2, .kv_heads = 2, .head_dim = 2});
}

static zn_tensor *wrong_attention_fused(struct lab *lab, zn_tape *t, zn_tensor *x)
{
    (void)lab;
    return zn_attention_fused(t, x,
                              &(struct zn_attention){.heads = 2, .kv_heads = 2, .head_dim = 2});
}

static zn_tensor *wrong_add(struct lab *lab, zn_tape *t, zn_tensor *x)
{
    (void)lab;
    return zn_add(t, x, zn_tape_external(t, ZN_F32, 1, DIMS(5), 64));
}

static zn_tensor *wrong_head(struct lab *lab, zn_tape *t, zn_tensor *x)
{
    struct zn_head head = {.weight = &narrow, .targets = lab_ids(lab, t, lab->ids), .loss = 64};
    zn_head_loss(t, x, &head);
    return x;
}

static zn_tensor *wrong_targets(struct lab *lab, zn_tape *t, zn_tensor *x)
{
    zn_tensor *targets = zn_tape_external(t, ZN_I32, 2, DIMS(B, T - 1), 64);
    zn_head_loss(t, x, &(struct zn_head){.weight = lab_at(lab, 1), .targets = targets, .loss = 64});
    return x;
}

static const struct mistake mistakes[] = {
    {"narrow", wrong_linear},
    {"weight", wrong_bias},
    {"norm", wrong_linear_rank},
    {"wide_row", wrong_layernorm},
    {"wide_row", wrong_layernorm_bias},
    {"wide_row", wrong_rmsnorm},
    {"short_table", wrong_positions},
    {"thin_table", wrong_position_width},
    {"rope", wrong_rope_length},
    {"rope", wrong_rope_heads},
    {"attention", wrong_attention},
    {"attention", wrong_attention_rows},
    {"attention", wrong_attention_fused},
    {"add", wrong_add},
    {"narrow", wrong_head},
    {"head", wrong_targets},
};

/* Wrong shapes are said once, by name; operators after it touch nothing and backward gives the same failure. */
static void wrong_shapes_stick_and_are_named(void **state)
{
    (void)state;
    struct lab *lab = new_lab();
    zn_lifetimes *lifetimes;
    zn_tape *tape;
    OK(zn_lifetimes_create(&lifetimes));
    OK(zn_tape_create(lab->cpu, &lab_hooks, lab, ZN_F32, &tape));
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
        /* External memory that is not there: whoever reads it crashes. */
        zn_tape_start(tape, lifetimes, true, 4096);
        zn_tape_record(tape, true);
        zn_tensor *x = zn_tape_external(tape, ZN_F32, 3, DIMS(B, T, WIDTH), 64);
        zn_fail_text(ZN_OK, "");
        zn_tensor *y = mistakes[i].make(lab, tape, x);
        if (zn_tape_status(tape) != ZN_ERR_INTERNAL ||
            !strstr(zn_error_message(), mistakes[i].name))
            fail_msg("mistake %zu (%s) gave '%s'", i, mistakes[i].name, zn_error_message());
        y = zn_gelu(tape, zn_add(tape, y, y), ZN_GELU_TANH);
        zn_tensor *z = zn_layernorm(tape, x, lab_at(lab, 2), NULL, 1e-5f);
        assert_int_equal(zn_tensor_dim(z, 2), WIDTH);
        assert_int_equal(zn_tape_backward(tape, NULL), ZN_ERR_INTERNAL);
        assert_non_null(strstr(zn_error_message(), mistakes[i].name));
    }
    lab_check_balance(lab);
    zn_tape_destroy(tape);
    zn_lifetimes_destroy(lifetimes);
    lab_destroy(lab);
}

static zn_status refuse(void *self, const zn_param *param, int64_t row, zn_addr *address)
{
    (void)self, (void)row, (void)address;
    return zn_fail(ZN_ERR_IO, "cannot gather '%s'", param->name);
}

static void a_hook_that_fails_ends_the_pass_with_its_message(void **state)
{
    (void)state;
    struct lab *lab = new_lab();
    struct zn_param_hooks hooks = lab_hooks;
    hooks.acquire = refuse;
    zn_lifetimes *lifetimes;
    zn_tape *tape;
    OK(zn_lifetimes_create(&lifetimes));
    OK(zn_tape_create(lab->cpu, &hooks, lab, ZN_F32, &tape));
    zn_tape_start(tape, lifetimes, true, 4096);
    zn_tape_record(tape, true);
    lab->device = lab->cpu;
    run_residual(lab, tape);
    assert_int_equal(zn_tape_status(tape), ZN_ERR_IO);
    assert_int_equal(zn_tape_backward(tape, NULL), ZN_ERR_IO);
    assert_string_equal(zn_error_message(), "cannot gather 'x'");
    lab_check_balance(lab);
    zn_tape_destroy(tape);
    zn_lifetimes_destroy(lifetimes);
    lab_destroy(lab);
}

/* ---- The plan ---- */

static void run_another_size(struct lab *lab, zn_tape *t)
{
    zn_tensor *x = lab_input(lab, t, 0);
    zn_linear(t, x, &narrow, NULL, ZN_IN_OUT);
    lab_functional(lab, t, x);
}

static void run_longer(struct lab *lab, zn_tape *t)
{
    run_residual(lab, t);
    run_residual(lab, t);
}

static void check_leaves_plan(void (*other)(struct lab *, zn_tape *))
{
    struct lab *lab = new_lab();
    lab->forward = run_residual;
    struct lab_plan plan = lab_record(lab, true);
    lab->forward = other;
    lab_start(&plan);
    assert_int_equal(lab_pass(lab, plan.tape, true), ZN_ERR_INTERNAL);
    assert_non_null(strstr(zn_error_message(), "left its plan"));
    lab->forward = run_residual; /* and the next pass is none the worse */
    lab_replay(lab, &plan, true);
    lab_plan_fini(&plan);
    lab_destroy(lab);
}

static void another_size_than_planned_is_an_error(void **state)
{
    (void)state;
    check_leaves_plan(run_another_size);
}

static void more_than_planned_is_an_error(void **state)
{
    (void)state;
    check_leaves_plan(run_longer);
}

/* A pass is the same program each time: it takes the same places and gives the same bits. */
static void a_plan_serves_any_number_of_passes(void **state)
{
    (void)state;
    struct lab *lab = new_lab();
    lab->forward = run_same_inputs;
    struct lab_plan plan = lab_record(lab, true);
    float first[WIDTH * WIDTH];
    lab_replay(lab, &plan, true);
    memcpy(first, lab->params[1].gradient, sizeof first);
    for (int i = 0; i < 3; i++) {
        lab_replay(lab, &plan, true);
        assert_memory_equal(lab->params[1].gradient, first, sizeof first);
    }
    lab_plan_fini(&plan);
    lab_destroy(lab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tensor_used_twice_accumulates),
        cmocka_unit_test(one_tensor_as_all_inputs_of_an_operator),
        cmocka_unit_test(a_parameter_used_three_times_accumulates),
        cmocka_unit_test(what_has_no_part_in_the_loss_gets_no_gradient),
        cmocka_unit_test(a_gradient_that_is_not_wanted_changes_no_other),
        cmocka_unit_test(a_leaf_gets_a_gradient_when_it_wants_one),
        cmocka_unit_test(wrong_shapes_stick_and_are_named),
        cmocka_unit_test(a_hook_that_fails_ends_the_pass_with_its_message),
        cmocka_unit_test(another_size_than_planned_is_an_error),
        cmocka_unit_test(more_than_planned_is_an_error),
        cmocka_unit_test(a_plan_serves_any_number_of_passes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
