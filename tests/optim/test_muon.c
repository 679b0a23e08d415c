/* Muon: hidden matrices are updated as a whole, to the same bits at every stage and in every tier, cut in tiles or not, saved and gone
 * on with. Ranks are threads. The model has matrices of several chunks and of up to ten tiles. */
#include "optim/runs.h"

#include <sys/stat.h>

enum { WIDTH = IS_SANITIZED ? 3000 : 10000, STEP = IS_SANITIZED ? 3 : 1 /* of stages */ };

static char wide[96]; /* the model's folder */

static int set_up(void **state)
{
    (void)state;
    char path[128];
    if (make_folder() != 0)
        return -1;
    snprintf(wide, sizeof wide, "%s/model", folder);
    snprintf(path, sizeof path, "%s/config.json", wide);
    FILE *f = mkdir(wide, 0777) == 0 ? fopen(path, "w") : NULL;
    if (!f)
        return -1;
    fprintf(f, "{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": 32, \"intermediate_size\": %d, "
               "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"hidden_act\": \"silu\", "
               "\"initializer_range\": 0.1, \"max_position_embeddings\": 128, \"rms_norm_eps\": 1e-5, \"tie_word_embeddings\": false, "
               "\"vocab_size\": 101, \"rope_theta\": 1000.0, \"torch_dtype\": \"float32\"}",
            WIDTH);
    return fclose(f);
}

static struct zn_train_options wide_options(char output[128], const char *name, const char *precision)
{
    struct zn_train_options o = options_of(output, name, "muon", precision);
    ZN_SET(o, model, wide);
    ZN_SET(o, from_scratch, true);
    ZN_SET(o, momentum, 0.95);
    return o;
}

static void offload(struct zn_train_options *o, const char *optimizer, const char *gradients, const char *param)
{
    ZN_SET(*o, offload_optimizer, optimizer);
    ZN_SET(*o, offload_gradients, gradients);
    ZN_SET(*o, offload_param, param);
}

/* All stages and tiers, with matrices whole and in tiles, against stage 0 in memory. */
static void trains_alike(int n_ranks, const char *precision)
{
    char base[128], output[128];
    struct zn_train_options o = wide_options(base, "base", precision);
    train(&o, n_ranks);
    for (int stage = 0; stage <= 3; stage += STEP) {
        for (int tiled = 0; tiled < 2; tiled++) {
            o = wide_options(output, "other", precision);
            ZN_SET(o, stage, stage);
            if (tiled)
                ZN_SET(o, tile_limit, 200000);
            if (tiled || stage > 0) {
                train(&o, n_ranks);
                assert_same(base, output);
            }
            offload(&o, "nvme", stage >= 2 ? "nvme" : "none", stage == 3 ? "nvme" : "none");
            ZN_SET(o, host_cache, tiled ? 0 : 3000000);
            train(&o, n_ranks);
            assert_same(base, output);
        }
    }
    o = wide_options(output, "other", precision);
    ZN_SET(o, stage, 3);
    offload(&o, "cpu", "cpu", "cpu");
    train(&o, n_ranks);
    assert_same(base, output);
}

static void one_rank_trains_alike_everywhere(void **state)
{
    (void)state;
    trains_alike(1, "fp32");
    if (!IS_SANITIZED)
        trains_alike(1, "bf16");
}

static void two_ranks_train_alike_everywhere(void **state)
{
    (void)state;
    trains_alike(2, "bf16");
}

static void three_ranks_train_alike_everywhere(void **state)
{
    (void)state;
    trains_alike(3, "fp32");
}

/* Segment by segment; a matrix that is frozen; adapters, whose matrices are hidden ones, too. */
static void follows_schedules_and_what_is_trained(void **state)
{
    (void)state;
    static const char *const frozen[] = {"*.mlp.up_proj.weight", "*.1.self_attn.*"};
    char base[128], output[128];
    for (int kind = 0; kind < 3; kind++) {
        for (int away = 0; away < 2; away++) {
            struct zn_train_options o = wide_options(away ? output : base, away ? "other" : "base", "bf16");
            ZN_SET(o, stage, away ? 3 : 1);
            offload(&o, away ? "nvme" : "none", away ? "nvme" : "none", away ? "nvme" : "none");
            ZN_SET(o, accumulate, 2);
            if (kind == 0) {
                ZN_SET(o, schedule, "vertical");
                ZN_SET(o, reduce, "last");
            } else if (kind == 1) {
                ZN_SET_WORDS(o, freeze, frozen, 2);
            } else {
                ZN_SET(o, model, ZN_TEST_DATA "/parity/llama2");
                ZN_SET(o, from_scratch, false);
                ZN_SET(o, lora_rank, 3);
            }
            train(&o, 2);
        }
        if (kind < 2) {
            assert_same(base, output);
            continue;
        }
        assert_same_file(base, output, "adapter_model.safetensors");
        assert_same_file(base, output, STATES);
        assert_int_equal(n_named(output, ".momentum_buffer\""), 2 * 2 * 7);
        assert_int_equal(n_named(output, ".exp_avg\""), 0);
    }
}

/* Two steps, then two more elsewhere, against four. */
static void goes_on(void **state)
{
    (void)state;
    char whole[128], parts[128];
    for (int n_ranks = 1; n_ranks <= 3; n_ranks += IS_SANITIZED ? 2 : 1) {
        struct zn_train_options o = wide_options(whole, "whole", "bf16");
        train(&o, n_ranks);
        for (int first = 0; first < 2; first++) {
            o = wide_options(parts, "parts", "bf16");
            ZN_SET(o, stage, first ? 1 : 3);
            ZN_SET(o, steps, 2);
            ZN_SET(o, offload_optimizer, first ? "none" : "nvme");
            train(&o, n_ranks);
            ZN_SET(o, steps, 4);
            ZN_SET(o, stage, first ? 3 : 0);
            ZN_SET(o, offload_optimizer, first ? "nvme" : "none");
            ZN_SET(o, tile_limit, first ? 200000 : 0);
            ZN_SET(o, resume, NULL);
            ZN_SET(o, overwrite, false);
            train(&o, n_ranks);
            assert_same(whole, parts);
        }
    }
}

/* A checkpoint of two ranks goes on with three, at any stage alike. */
static void goes_on_with_other_ranks(void **state)
{
    (void)state;
    char base[128], output[128];
    for (int away = 0; away < 2; away++) {
        struct zn_train_options o = wide_options(away ? output : base, away ? "other" : "base", "bf16");
        ZN_SET(o, steps, 2);
        ZN_SET(o, stage, 2);
        train(&o, 2);
        ZN_SET(o, steps, 4);
        ZN_SET(o, stage, away ? 3 : 0);
        offload(&o, away ? "nvme" : "none", away ? "nvme" : "none", "none");
        ZN_SET(o, resume, NULL);
        ZN_SET(o, overwrite, false);
        train(&o, 3);
    }
    assert_same(base, output);
}

/* Matrices have one state, the rest has AdamW's two. */
static void states_are_named_and_counted(void **state)
{
    (void)state;
    char output[128];
    struct zn_train_options o = wide_options(output, "sizes", "fp32");
    ZN_SET(o, steps, 4);
    train(&o, 1);
    double hidden = 2 * (3 * WIDTH * 32 + 2 * 32 * 32 + 2 * 16 * 32), rest = 2 * 101 * 32 + 5 * 32;
    double states = last_number(output, "optimizer"), exact = 4 * hidden + 8 * rest;
    assert_true(states >= exact && states <= exact + 4 * 64 * 1024);
    assert_int_equal(n_named(output, ".momentum_buffer\""), 2 * 7);
    assert_int_equal(n_named(output, ".exp_avg\""), 2 + 5);
    assert_int_equal(n_named(output, ".exp_avg_sq\""), 2 + 5);
}

static void refuse(struct zn_train_options *o, const char *text)
{
    assert_int_not_equal(train_on_ranks(o, 1), ZN_OK);
    if (!strstr(zn_error_message(), text))
        fail_msg("'%s' does not say '%s'", zn_error_message(), text);
}

static void what_is_not_supported_is_refused_by_name(void **state)
{
    (void)state;
    char output[128];
    struct zn_train_options o = options_of(output, "refused", "muon", "fp32");
    ZN_SET(o, clip, 0);
    ZN_SET(o, optimizer_in_backward, true);
    refuse(&o, "--optimizer-in-backward: --optimizer muon updates whole matrices");
    o = options_of(output, "refused", "muon", "fp32");
    ZN_SET(o, delayed_update, 1);
    refuse(&o, "--delayed-update: --optimizer muon updates whole matrices");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank_trains_alike_everywhere),
        cmocka_unit_test(two_ranks_train_alike_everywhere),
        cmocka_unit_test(three_ranks_train_alike_everywhere),
        cmocka_unit_test(follows_schedules_and_what_is_trained),
        cmocka_unit_test(goes_on),
        cmocka_unit_test(goes_on_with_other_ranks),
        cmocka_unit_test(states_are_named_and_counted),
        cmocka_unit_test(what_is_not_supported_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
