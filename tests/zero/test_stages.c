/* Stages 0 to 3 give the same losses, norms and weights to the last bit, for every number of
 * ranks, precision, accumulation and clipping. Ranks are threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

#include "zero/ranks.h"

#define DATA ZN_TEST_DATA "/parity/tokens.bin"

static const char *const data[] = {DATA};

static struct zn_train_options options_of(const char *model, const char *precision, int stage,
                                          const char *output)
{
    struct zn_train_options o;
    zn_train_options_init(&o);
    ZN_SET(o, model, model);
    ZN_SET_WORDS(o, data, data, 1);
    ZN_SET(o, output, output);
    ZN_SET(o, overwrite, true);
    ZN_SET(o, steps, IS_SANITIZED ? 3 : 4);
    ZN_SET(o, micro_batch, 2);
    ZN_SET(o, seq_len, 16);
    ZN_SET(o, lr, 1e-3);
    ZN_SET(o, weight_decay, 0.1);
    ZN_SET(o, precision, precision);
    ZN_SET(o, output_dtype, "fp32");
    ZN_SET(o, stage, stage);
    ZN_SET(o, threads, 1);
    ZN_SET(o, shuffle, false);
    ZN_SET(o, prefetch_bytes, 16 * 1024);
    ZN_SET(o, persist_below, 0);
    ZN_SET(o, keep, 0);
    return o;
}

struct result {
    char *losses, *weights;
    size_t n_weights;
};

static struct result run(const struct zn_train_options *o, int n_ranks)
{
    struct result r = {0};
    assert_int_equal(train_on_ranks(o, n_ranks), ZN_OK);
    r.losses = losses_of(o->settings.output);
    r.weights = slurp(o->settings.output, "model.safetensors", &r.n_weights);
    assert_non_null(r.losses);
    assert_non_null(r.weights);
    return r;
}

static void forget(struct result *r)
{
    free(r->losses);
    free(r->weights);
}

static void assert_same(const struct result *a, const struct result *b)
{
    assert_string_equal(a->losses, b->losses);
    assert_int_equal(a->n_weights, b->n_weights);
    assert_memory_equal(a->weights, b->weights, a->n_weights);
}

static void remove_tree(const char *folder)
{
    char command[600];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    assert_int_equal(system(command), 0);
}

/* All stages of one setting against stage `first`. */
static void compare_stages(const char *model, const char *precision, int n_ranks, int64_t accumulate, double clip,
                           const char *reduce, int first, int last)
{
    char folder[] = "/tmp/zinc-stages-XXXXXX";
    assert_non_null(mkdtemp(folder));
    struct result base = {0};
    for (int stage = first; stage <= last; stage++) {
        struct zn_train_options o = options_of(model, precision, stage, folder);
        ZN_SET(o, accumulate, accumulate);
        ZN_SET(o, clip, clip);
        if (reduce)
            ZN_SET(o, reduce, reduce);
        struct result r = run(&o, n_ranks);
        if (stage == first) {
            base = r;
            continue;
        }
        assert_same(&base, &r);
        forget(&r);
    }
    forget(&base);
    remove_tree(folder);
}

static const char *const models[] = {ZN_TEST_DATA "/parity/gpt2", ZN_TEST_DATA "/parity/qwen3"};
static const char *const precisions[] = {"fp32", "bf16"};

/* Under a sanitizer one model and precision for each number of ranks. */
static void compare_matrix(int n_ranks)
{
    for (size_t m = 0; m < 2; m++) {
        for (size_t p = 0; p < 2; p++) {
            if (IS_SANITIZED && 2 * m + p != (size_t)(n_ranks - 1))
                continue;
            compare_stages(models[m], precisions[p], n_ranks, 1, 1.0, NULL, 0, 3);
            compare_stages(models[m], precisions[p], n_ranks, 1, 0.0, NULL, 0, 3);
            compare_stages(models[m], precisions[p], n_ranks, 3, 1.0, "every", 0, 3);
            compare_stages(models[m], precisions[p], n_ranks, 3, 1.0, NULL, 0, 1);
            compare_stages(models[m], precisions[p], n_ranks, 3, 1.0, NULL, 2, 3);
        }
    }
}

static void one_rank(void **state)
{
    (void)state;
    compare_matrix(1);
}

static void two_ranks(void **state)
{
    (void)state;
    compare_matrix(2);
}

static void three_ranks(void **state)
{
    (void)state;
    compare_matrix(3);
}

static void four_ranks(void **state)
{
    (void)state;
    compare_matrix(4);
}

static void eight_ranks(void **state)
{
    (void)state;
    compare_stages(models[0], "fp32", 8, 1, 1.0, NULL, 0, 3);
}

static void prefetch_persistence_and_recompute_change_nothing(void **state)
{
    (void)state;
    char folder[] = "/tmp/zinc-stages-XXXXXX";
    assert_non_null(mkdtemp(folder));
    struct zn_train_options o = options_of(models[0], "fp32", 3, folder);
    struct result base = run(&o, 2);
    const struct {
        size_t prefetch, persist;
        const char *recompute;
    } variants[] = {{0, 0, "off"}, {1 << 20, 0, "on"}, {0, 1 << 20, "keep=1"}, {1 << 14, 1 << 14, "off"}, {0, 0, "keep=2"}};
    for (size_t i = 0; i < sizeof variants / sizeof variants[0]; i++) {
        ZN_SET(o, prefetch_bytes, variants[i].prefetch);
        ZN_SET(o, persist_below, variants[i].persist);
        ZN_SET(o, recompute, variants[i].recompute);
        struct result r = run(&o, 2);
        assert_same(&base, &r);
        forget(&r);
    }
    forget(&base);
    remove_tree(folder);
}

/* Frozen parameters stay as they were, at every stage: a learning rate that would ruin the rest
 * leaves them, so the untrained and the trained file agree where the pattern says. */
static void frozen_parameters_stay(void **state)
{
    (void)state;
    static const char *const all_but_norms[] = {"*.wte.*", "*.wpe.*", "*.attn.*", "*.mlp.*"};
    char folder[] = "/tmp/zinc-stages-XXXXXX";
    assert_non_null(mkdtemp(folder));
    struct zn_train_options o = options_of(models[0], "fp32", 0, folder);
    ZN_SET(o, steps, 0);
    struct result initial = run(&o, 2), base = {0};
    ZN_SET(o, steps, 3);
    ZN_SET_WORDS(o, freeze, all_but_norms, 4);
    for (int stage = 0; stage <= 3; stage++) {
        ZN_SET(o, stage, stage);
        struct result r = run(&o, 2);
        size_t n_changed = 0;
        assert_int_equal(r.n_weights, initial.n_weights);
        for (size_t i = 0; i < r.n_weights; i += sizeof(float))
            n_changed += memcmp(r.weights + i, initial.weights + i, sizeof(float)) != 0;
        assert_in_range(n_changed, 1, 10 * 32); /* five norms with weight and bias of 32 */
        if (stage == 0) {
            base = r;
            continue;
        }
        assert_same(&base, &r);
        forget(&r);
    }
    forget(&base);
    forget(&initial);
    remove_tree(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank),
        cmocka_unit_test(two_ranks),
        cmocka_unit_test(three_ranks),
        cmocka_unit_test(four_ranks),
        cmocka_unit_test(eight_ranks),
        cmocka_unit_test(prefetch_persistence_and_recompute_change_nothing),
        cmocka_unit_test(frozen_parameters_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
