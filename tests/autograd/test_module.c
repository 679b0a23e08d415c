/* Segments run forward and backward, with their inner activations kept or computed again: the
 * same bits from less memory. */
#include "autograd/lab.h"
#include "autograd/module.h"

#define DIMS(...) ((const int64_t[]){__VA_ARGS__, 0})

/* Embedding, two blocks, head. The head's weight is the embedding's table. */
enum { SEGMENTS = 4, B = 2, T = 16, WIDTH = 8, INNER = 32, VOCABULARY = 19 };
enum { TABLE, NORM, UP, DOWN, BIAS, FINAL_NORM, N_PARAMS };

struct toy {
    zn_module module;
    struct lab *lab;
};

static zn_tensor *block(struct lab *lab, zn_tape *t, zn_tensor *x)
{
    struct zn_attention how = {.heads = 2, .kv_heads = 2, .head_dim = WIDTH / 2, .scale = 0.5f};
    zn_tensor *h = zn_rmsnorm(t, x, lab_at(lab, NORM), 1e-5f);
    x = zn_add(t, x, zn_attention(t, h, h, h, &how));
    h = zn_linear(t, x, lab_at(lab, UP), NULL, ZN_OUT_IN);
    h = zn_linear(t, zn_gelu(t, h, ZN_GELU_TANH), lab_at(lab, DOWN), lab_at(lab, BIAS), ZN_OUT_IN);
    return zn_add(t, x, h);
}

static zn_tensor *toy_forward(const zn_module *m, zn_tape *t, int segment, zn_tensor *x,
                              const struct zn_batch *batch)
{
    struct lab *lab = ((const struct toy *)m)->lab;
    if (segment == 0)
        return zn_embedding(t, batch->ids, lab_at(lab, TABLE), NULL);
    if (segment < SEGMENTS - 1)
        return block(lab, t, x);
    x = zn_rmsnorm(t, x, lab_at(lab, FINAL_NORM), 1e-5f);
    return zn_head_loss(t, x,
                        &(struct zn_head){.weight = lab_at(lab, TABLE),
                                          .targets = batch->targets,
                                          .loss = batch->loss,
                                          .scale = batch->scale,
                                          .keep_logits = batch->keep_logits});
}

static struct lab *toy_lab(void)
{
    struct lab *lab = lab_create(B, T);
    lab_param(lab, "table", DIMS(VOCABULARY, WIDTH), 0, 0.5);
    lab_param(lab, "norm", DIMS(WIDTH), 1, 0.1);
    lab_param(lab, "up", DIMS(INNER, WIDTH), 0, 0.4);
    lab_param(lab, "down", DIMS(WIDTH, INNER), 0, 0.2);
    lab_param(lab, "bias", DIMS(WIDTH), 0, 0.2);
    lab_param(lab, "final_norm", DIMS(WIDTH), 1, 0.1);
    lab->scale = 1.0f / (B * T);
    for (int i = 0; i < B * T; i++) {
        lab->ids[i] = (int32_t)zn_random_below(1, (uint64_t)i, VOCABULARY);
        lab->targets[i] = i == 5 ? -1 : (int32_t)zn_random_below(2, (uint64_t)i, VOCABULARY);
    }
    return lab;
}

/* What the laboratory runs as its forward: no operators but a whole module. */
static struct zn_module_style style;
static bool evaluates;
static zn_status module_status;

static void run_module(struct lab *lab, zn_tape *t)
{
    struct toy toy = {.module = {.forward = toy_forward, .n_segments = SEGMENTS}, .lab = lab};
    struct zn_batch batch = {.ids = lab_ids(lab, t, lab->ids),
                             .targets = lab_ids(lab, t, lab->targets),
                             .loss = (zn_addr)(uintptr_t)&lab->head_loss,
                             .scale = lab->scale};
    module_status = evaluates ? zn_module_evaluate(&toy.module, t, &batch)
                              : zn_module_train(&toy.module, t, &batch, 1, &style);
}

/* Runs one pass into the laboratory's gradients; returns what the arena held. */
static size_t run_keeping(struct lab *lab, bool recompute, int64_t keep, bool without_gradients)
{
    style = (struct zn_module_style){.recompute = recompute, .keep = keep};
    evaluates = without_gradients;
    lab->forward = run_module;
    struct lab_plan plan = lab_record(lab, false);
    lab_replay(lab, &plan, false);
    OK(module_status);
    size_t peak = zn_lifetimes_peak(plan.lifetimes);
    lab_plan_fini(&plan);
    return peak;
}

static size_t run(struct lab *lab, bool recompute, bool without_gradients)
{
    return run_keeping(lab, recompute, 0, without_gradients);
}

/* The more segments are kept the more memory it takes; all of them are what is kept without recompute. */
static void recompute_gives_the_same_bits_from_less_memory(void **state)
{
    (void)state;
    struct lab *kept = toy_lab();
    size_t kept_bytes = run(kept, false, false), before = 0;
    for (int64_t keep = 0; keep < SEGMENTS; keep++) {
        struct lab *again = toy_lab();
        size_t again_bytes = run_keeping(again, true, keep, false);
        assert_memory_equal(&kept->head_loss, &again->head_loss, sizeof kept->head_loss);
        for (int i = 0; i < N_PARAMS; i++) {
            size_t n_bytes = (size_t)kept->params[i].param.n_elements * sizeof(float);
            assert_memory_equal(kept->params[i].gradient, again->params[i].gradient, n_bytes);
            assert_int_equal(kept->params[i].n_uses, again->params[i].n_uses);
        }
        assert_true(again_bytes >= before && (keep < SEGMENTS - 2 ? again_bytes < kept_bytes : again_bytes == kept_bytes));
        before = again_bytes;
        lab_destroy(again);
    }
    lab_destroy(kept);
}

static void evaluation_gives_the_loss_of_training(void **state)
{
    (void)state;
    struct lab *lab = toy_lab();
    size_t train_bytes = run(lab, false, false);
    double loss = lab->head_loss;
    size_t evaluate_bytes = run(lab, false, true);
    assert_memory_equal(&loss, &lab->head_loss, sizeof loss);
    assert_true(loss > 0 && evaluate_bytes < train_bytes);
    for (int i = 0; i < N_PARAMS; i++)
        assert_int_equal(lab->params[i].n_uses, 0); /* no gradient was opened */
    lab_destroy(lab);
}

/* Both blocks share their parameters and the head its table: (f(x+h) - f(x-h)) / 2h by hand. */
static void gradients_match_finite_differences(void **state)
{
    (void)state;
    struct lab *lab = toy_lab();
    run(lab, true, false);
    evaluates = true;
    struct lab_plan plan = lab_record(lab, false);
    for (int i = 0; i < N_PARAMS; i++) {
        struct lab_param *p = &lab->params[i];
        for (int64_t e = 0; e < p->param.n_elements; e += 7) {
            double g = (double)p->gradient[e], slope = lab_slope(lab, &plan, &p->values[e]);
            if (!(fabs(g - slope) <= 1e-3 * fabs(slope) + 2e-5))
                fail_msg("gradient of %s[%lld] is %.7g, finite differences say %.7g", p->param.name,
                         (long long)e, g, slope);
        }
    }
    lab_plan_fini(&plan);
    lab_destroy(lab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recompute_gives_the_same_bits_from_less_memory),
        cmocka_unit_test(evaluation_gives_the_loss_of_training),
        cmocka_unit_test(gradients_match_finite_differences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
