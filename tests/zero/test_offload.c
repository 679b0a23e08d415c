/* Where states lie changes no bit: every combination of tiers, tiles, the host cache, updates in backward and
 * the vertical schedule give the losses, norms and weights of the plain run. Ranks are threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "zero/ranks.h"

static const char *const data[] = {ZN_TEST_DATA "/parity/tokens.bin"};
static const char *const tiers[] = {"none", "cpu", "nvme"};
static const char *const precisions[] = {"fp32", "bf16"};
static const char *const tied = ZN_TEST_DATA "/parity/gpt2", *const untied = ZN_TEST_DATA "/parity/qwen3";

/* Sanitizers find in two ranks what they find in three. */
#if IS_SANITIZED
enum { LEAST_RANKS = 2, MOST_RANKS = 2 };
#else
enum { LEAST_RANKS = 1, MOST_RANKS = 3 };
#endif

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/zinc-offload-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

static struct zn_train_options plain(const char *model, const char *precision)
{
    static char output[96];
    struct zn_train_options o;
    snprintf(output, sizeof output, "%s/run", folder);
    zn_train_options_init(&o);
    ZN_SET(o, model, model);
    ZN_SET_WORDS(o, data, data, 1);
    ZN_SET(o, output, output);
    ZN_SET(o, overwrite, true);
    ZN_SET(o, steps, 3);
    ZN_SET(o, accumulate, 2);
    ZN_SET(o, seq_len, 16);
    ZN_SET(o, lr, 1e-3);
    ZN_SET(o, weight_decay, 0.1);
    ZN_SET(o, precision, precision);
    ZN_SET(o, output_dtype, "fp32");
    ZN_SET(o, reduce, "every");
    ZN_SET(o, stage, 3);
    ZN_SET(o, threads, 1);
    ZN_SET(o, shuffle, false);
    ZN_SET(o, prefetch_bytes, 16 * 1024);
    ZN_SET(o, persist_below, 0);
    ZN_SET(o, allow_buffered_swap, true); /* wherever the test's folder is */
    ZN_SET(o, keep, 0);
    ZN_SET(o, offload_optimizer, "none");
    ZN_SET(o, offload_param, "none");
    ZN_SET(o, offload_activations, "none");
    ZN_SET(o, tile_limit, 0);
    return o;
}

struct result {
    char *losses, *weights;
    size_t n_weights;
};

static struct result run(const struct zn_train_options *o, int n_ranks)
{
    struct result r = {0};
    if (train_on_ranks(o, n_ranks) != ZN_OK)
        fail_msg("training failed: %s", zn_error_message());
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

/* Runs and compares with what is expected. */
static void expect(const struct result *expected, const struct zn_train_options *o, int n_ranks)
{
    const struct zn_settings *s = &o->settings;
    struct result r = run(o, n_ranks);
    if (strcmp(r.losses, expected->losses) != 0)
        fail_msg("%d ranks, %s, optimizer %s, parameters %s, activations %s:\n%s\nand not\n%s", n_ranks, s->precision,
                 s->offload_optimizer, s->offload_param, s->offload_activations, r.losses, expected->losses);
    assert_int_equal(r.n_weights, expected->n_weights);
    assert_memory_equal(r.weights, expected->weights, r.n_weights);
    forget(&r);
}

/* Under a sanitizer the four models and precisions share every second placement: all pairs of tiers are among them. */
static void every_tier(const char *model)
{
    for (int n_ranks = LEAST_RANKS; n_ranks <= MOST_RANKS; n_ranks++) {
        for (int p = 0; p < 2; p++) {
            struct zn_train_options o = plain(model, precisions[p]);
            struct result base = run(&o, n_ranks);
            int first = IS_SANITIZED ? 26 - 2 * (2 * (model == tied) + p) : 26;
            for (int i = first; i > 0; i -= IS_SANITIZED ? 8 : 1) {
                ZN_SET(o, offload_optimizer, tiers[i % 3]);
                ZN_SET(o, offload_param, tiers[i / 3 % 3]);
                ZN_SET(o, offload_activations, tiers[i / 9]);
                expect(&base, &o, n_ranks);
            }
            forget(&base);
        }
    }
}

static void every_tier_of_a_tied_model(void **state)
{
    (void)state;
    every_tier(tied);
}

static void every_tier_of_an_untied_model(void **state)
{
    (void)state;
    every_tier(untied);
}

static void gradients_have_a_tier_of_their_own(void **state)
{
    (void)state;
    for (int n_ranks = LEAST_RANKS; n_ranks <= MOST_RANKS; n_ranks++) {
        struct zn_train_options o = plain(tied, "bf16");
        struct result base = run(&o, n_ranks);
        for (int i = 0; i < 9; i += IS_SANITIZED ? 2 : 1) {
            ZN_SET(o, offload_optimizer, tiers[i % 3]);
            ZN_SET(o, offload_gradients, tiers[i / 3]);
            expect(&base, &o, n_ranks);
        }
        forget(&base);
    }
}

static void sgd_with_and_without_momentum(void **state)
{
    (void)state;
    for (int momentum = 0; momentum < 2; momentum++) {
        struct zn_train_options o = plain(untied, "bf16");
        ZN_SET(o, optimizer, "sgd");
        ZN_SET(o, momentum, momentum * 0.9);
        struct result base = run(&o, 2);
        ZN_SET(o, offload_optimizer, "nvme");
        ZN_SET(o, offload_param, "nvme");
        expect(&base, &o, 2);
        forget(&base);
    }
}

/* A model whose tables and products are tall enough to be split. */
static void write_tall(const char *name, const char *config, char *path, size_t n)
{
    char file[160];
    snprintf(path, n, "%s/%s", folder, name);
    mkdir(path, 0700);
    snprintf(file, sizeof file, "%s/config.json", path);
    FILE *f = fopen(file, "w");
    assert_non_null(f);
    fputs(config, f);
    fclose(f);
}

static const char *const tall_gpt2 =
    "{\"architectures\":[\"GPT2LMHeadModel\"],\"model_type\":\"gpt2\",\"n_embd\":32,\"n_layer\":2,\"n_head\":2,"
    "\"n_positions\":32,\"vocab_size\":2500,\"n_inner\":2304,\"activation_function\":\"gelu_new\"}";
static const char *const tall_llama =
    "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"hidden_size\":32,\"num_hidden_layers\":6,"
    "\"num_attention_heads\":2,\"num_key_value_heads\":1,\"intermediate_size\":2304,\"vocab_size\":2500,"
    "\"max_position_embeddings\":32,\"rms_norm_eps\":1e-5,\"hidden_act\":\"silu\",\"tie_word_embeddings\":false}";

static void tiles_change_nothing(void **state)
{
    (void)state;
    const char *configs[] = {tall_gpt2, tall_llama};
    for (int m = 0; m < 2; m++) {
        char path[128];
        write_tall(m ? "llama" : "gpt2", configs[m], path, sizeof path);
        for (int n_ranks = LEAST_RANKS; n_ranks <= MOST_RANKS; n_ranks++) {
            struct zn_train_options o = plain(path, precisions[n_ranks % 2]);
            ZN_SET(o, from_scratch, true);
            struct result base = run(&o, n_ranks);
            ZN_SET(o, tile_limit, 64 * 1024);
            expect(&base, &o, n_ranks);
            ZN_SET(o, prefetch_bytes, 0);
            ZN_SET(o, offload_optimizer, "nvme");
            ZN_SET(o, offload_param, "nvme");
            ZN_SET(o, offload_activations, "nvme");
            expect(&base, &o, n_ranks);
            forget(&base);
        }
    }
}

/* A chunk of the optimizer is larger than the small models: this one has several. */
static void the_host_cache_changes_nothing_but_traffic(void **state)
{
    (void)state;
    char path[128];
    write_tall("cached", tall_llama, path, sizeof path);
    struct zn_train_options o = plain(path, "bf16");
    ZN_SET(o, from_scratch, true);
    ZN_SET(o, steps, 5); /* sweeps in both directions */
    struct result base = run(&o, 1);
    ZN_SET(o, offload_optimizer, "nvme");
    expect(&base, &o, 1);
    double without = last_number(o.settings.output, "nvme_write_bytes");
    ZN_SET(o, host_cache, 3 << 20);
    expect(&base, &o, 1);
    assert_true(last_number(o.settings.output, "nvme_write_bytes") < without);
    ZN_SET(o, host_cache, (size_t)1 << 40);
    ZN_SET(o, offload_gradients, "none");
    expect(&base, &o, 1);
    assert_true(last_number(o.settings.output, "nvme_read_bytes") == 0 && last_number(o.settings.output, "nvme_write_bytes") == 0);
    forget(&base);
}

static void frozen_parameters_stay_in_every_tier(void **state)
{
    (void)state;
    static const char *const patterns[] = {"*mlp.down_proj*", "*input_layernorm*"};
    struct zn_train_options o = plain(untied, "bf16");
    ZN_SET_WORDS(o, freeze, patterns, 2);
    for (int n_ranks = 1; n_ranks <= 2; n_ranks++) {
        ZN_SET(o, offload_optimizer, "none");
        ZN_SET(o, offload_param, "none");
        struct result base = run(&o, n_ranks);
        ZN_SET(o, offload_optimizer, "nvme");
        ZN_SET(o, offload_param, "nvme");
        expect(&base, &o, n_ranks);
        forget(&base);
    }
}

static void updates_in_backward_are_the_same(void **state)
{
    (void)state;
    for (int n_ranks = LEAST_RANKS; n_ranks <= MOST_RANKS; n_ranks++) {
        for (int i = 0; i < 4; i += IS_SANITIZED ? 3 : 1) {
            struct zn_train_options o = plain(i % 2 ? tied : untied, precisions[i / 2]);
            ZN_SET(o, clip, 0);
            struct result base = run(&o, n_ranks);
            ZN_SET(o, optimizer_in_backward, true);
            for (int stage = n_ranks > 1; stage <= 3; stage++) {
                ZN_SET(o, stage, stage);
                expect(&base, &o, n_ranks);
            }
            ZN_SET(o, stage, 3);
            ZN_SET(o, offload_optimizer, "nvme");
            ZN_SET(o, offload_param, "nvme");
            ZN_SET(o, offload_activations, "nvme");
            expect(&base, &o, n_ranks);
            forget(&base);
        }
    }
}

static void the_vertical_schedule_equals_reduce_last(void **state)
{
    (void)state;
    for (int n_ranks = LEAST_RANKS; n_ranks <= MOST_RANKS; n_ranks++) {
        for (int i = 0; i < 4; i += IS_SANITIZED ? 3 : 1) {
            struct zn_train_options o = plain(i % 2 ? tied : untied, precisions[i / 2]);
            ZN_SET(o, accumulate, 3);
            ZN_SET(o, stage, 0);
            ZN_SET(o, reduce, "last");
            struct result base = run(&o, n_ranks);
            ZN_UNSET(o, reduce);
            ZN_SET(o, schedule, "vertical");
            for (int stage = 0; stage <= 3; stage++) {
                ZN_SET(o, stage, stage);
                expect(&base, &o, n_ranks);
            }
            ZN_SET(o, stage, 3);
            ZN_SET(o, offload_optimizer, "nvme");
            ZN_SET(o, offload_param, "nvme");
            ZN_SET(o, offload_activations, "nvme");
            expect(&base, &o, n_ranks);
            ZN_SET(o, clip, 0);
            forget(&base);
        }
    }
}

/* Parameters are read once in forward and once in backward, whatever the number of micro-batches. */
static void the_vertical_schedule_reads_parameters_once(void **state)
{
    (void)state;
    double bytes[2];
    for (int i = 0; i < 2; i++) {
        struct zn_train_options o = plain(untied, "fp32");
        ZN_UNSET(o, reduce);
        ZN_SET(o, schedule, "vertical");
        ZN_SET(o, accumulate, i ? 4 : 2);
        ZN_SET(o, prefetch_bytes, 0);
        ZN_SET(o, offload_param, "nvme");
        struct result r = run(&o, 1);
        bytes[i] = last_number(o.settings.output, "nvme_read_bytes");
        forget(&r);
    }
    assert_true(bytes[0] > 0 && bytes[0] == bytes[1]);
}

static void delayed_updates_are_the_same_in_every_tier(void **state)
{
    (void)state;
    for (int n_ranks = IS_SANITIZED ? 3 : 1; n_ranks <= 3; n_ranks += 2) {
        struct zn_train_options o = plain(tied, "bf16");
        ZN_SET(o, steps, 5);
        struct result never = run(&o, n_ranks);
        ZN_SET(o, delayed_update, 2);
        struct result base = run(&o, n_ranks);
        assert_string_not_equal(base.losses, never.losses);
        for (int stage = 0; stage < 3; stage++) {
            ZN_SET(o, stage, stage);
            expect(&base, &o, n_ranks);
        }
        ZN_SET(o, stage, 3);
        ZN_SET(o, offload_optimizer, "nvme");
        ZN_SET(o, offload_param, "nvme");
        expect(&base, &o, n_ranks);
        forget(&base);
        forget(&never);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_tier_of_a_tied_model),
        cmocka_unit_test(every_tier_of_an_untied_model),
        cmocka_unit_test(gradients_have_a_tier_of_their_own),
        cmocka_unit_test(sgd_with_and_without_momentum),
        cmocka_unit_test(tiles_change_nothing),
        cmocka_unit_test(the_host_cache_changes_nothing_but_traffic),
        cmocka_unit_test(frozen_parameters_stay_in_every_tier),
        cmocka_unit_test(updates_in_backward_are_the_same),
        cmocka_unit_test(the_vertical_schedule_equals_reduce_last),
        cmocka_unit_test(the_vertical_schedule_reads_parameters_once),
        cmocka_unit_test(delayed_updates_are_the_same_in_every_tier),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
