/* Training on a discrete device gives the processor's losses, norms and weights to the last bit: a sample of stages, placements,
 * schedules, precisions and ranks, drawn by a seed, a third of it under a sanitizer; all of them where the environment has
 * ZINC_TEST_DEVICES. */
#ifndef ZN_TESTS_ZERO_DISCRETE_MATRIX_H
#define ZN_TESTS_ZERO_DISCRETE_MATRIX_H

#include <signal.h>

#include "sanitized.h"
#include "zero/discrete_job.h"

static bool tries_all(void)
{
    return getenv("ZINC_TEST_DEVICES") != NULL;
}

/* Whether the next of the sample is left out. */
static bool is_left_out(void)
{
    static int n;
    return IS_SANITIZED && !tries_all() && n++ % 3 != 0;
}

static struct zn_engine_options on_device(struct zn_engine_options o)
{
    o.is_discrete = o.stages_comm = true;
    return o;
}

/* Every placement once, the number of ranks and the precision going round; all with all on request. */
static void every_tier_gives_the_same_bits(void **state)
{
    (void)state;
    zn_json *json;
    zn_model *model = new_model(config, TIME, &json);
    const zn_dtype types[] = {ZN_BF16, ZN_F32};
    for (int n_ranks = 1; n_ranks <= MAX_RANKS; n_ranks++)
        for (int t = 0; t < 2; t++) {
            struct zn_engine_options o = options_of(3, 2), all[MAX_TIERS];
            o.type = types[t];
            int n = list_tiers(on_device(o), all);
            if (!tries_all())
                n = keep_share(all, n, 2 * (n_ranks - 1) + t, 2 * MAX_RANKS);
            if (IS_SANITIZED && !tries_all())
                n = keep_share(all, n, t, 3);
            assert_same(model, &o, all, n, n_ranks, 0);
        }
    zn_model_destroy(model);
    zn_json_destroy(json);
}

/* Stages 0 to 2 keep whole parameters; what they keep beside them may be offloaded from stage 2 on. */
static void every_stage_gives_the_same_bits(void **state)
{
    (void)state;
    zn_json *json;
    zn_model *model = new_model(config, TIME, &json);
    for (int stage = 0; stage <= 2; stage++)
        for (int n_ranks = 1; n_ranks <= MAX_RANKS; n_ranks++) {
            struct zn_engine_options o = options_of(stage, 2), all[2];
            o.type = (stage + n_ranks) % 2 ? ZN_F32 : ZN_BF16;
            all[0] = all[1] = on_device(o);
            all[1].offload.optimizer = all[1].offload.gradients = ZN_TIER_HOST;
            if (tries_all() || ((stage + n_ranks) % 3 == 0 && !is_left_out()))
                assert_same(model, &o, all, stage == 2 ? 2 : 1, n_ranks, 0);
        }
    zn_model_destroy(model);
    zn_json_destroy(json);
}

/* Tiles, the vertical schedule, updates in backward, delayed updates, frozen parameters. */
static void every_way_gives_the_same_bits(void **state)
{
    (void)state;
    zn_json *json;
    zn_model *model = new_model(config, TIME, &json);
    for (int n_ranks = 1; n_ranks <= MAX_RANKS; n_ranks++)
        for (int way = tries_all() ? 0 : n_ranks - 1; way < N_WAYS + N_FROZEN_WAYS; way += tries_all() ? 1 : MAX_RANKS) {
            const struct zn_offload tiers[] = {{ZN_TIER_DEVICE, ZN_TIER_DEVICE, ZN_TIER_DEVICE, ZN_TIER_DEVICE},
                                               {ZN_TIER_DEVICE, ZN_TIER_HOST, ZN_TIER_HOST, ZN_TIER_HOST},
                                               {ZN_TIER_HOST, ZN_TIER_HOST, ZN_TIER_NVME, ZN_TIER_NVME},
                                               {ZN_TIER_DEVICE, ZN_TIER_NVME, ZN_TIER_NVME, ZN_TIER_DEVICE}};
            struct zn_engine_options o = options_of_way(way), apart[4];
            int n = 0;
            for (int i = o.delay_after >= 0 ? 1 : 0; i < 4; i++) { /* a delayed update is the host's */
                apart[n] = on_device(o);
                apart[n].offload = tiers[i];
                n += (tries_all() || way % 4 == i) && (o.stage == 3 || tiers[i].parameters == ZN_TIER_DEVICE);
            }
            assert_same(model, &o, apart, is_left_out() ? 0 : n, n_ranks, 0);
        }
    zn_model_destroy(model);
    zn_json_destroy(json);
}

/* Each architecture on the device alone, with the optimizer on the host, all on NVMe, and vertical with tiles. */
static void every_architecture_gives_the_same_bits(void **state)
{
    (void)state;
    static const char *const configs[] = {
        "{\"architectures\":[\"GPT2LMHeadModel\"],\"model_type\":\"gpt2\",\"n_embd\":32,\"n_layer\":2,\"n_head\":2,\"n_positions\":32,"
        "\"vocab_size\":300,\"layer_norm_epsilon\":1e-5,\"activation_function\":\"gelu_new\"}",
        "{\"architectures\":[\"MistralForCausalLM\"],\"model_type\":\"mistral\",\"hidden_size\":32,\"num_hidden_layers\":2,"
        "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"intermediate_size\":64,\"vocab_size\":300,\"sliding_window\":8,"
        "\"max_position_embeddings\":32,\"rms_norm_eps\":1e-5,\"hidden_act\":\"silu\",\"tie_word_embeddings\":false}",
        "{\"architectures\":[\"Qwen2ForCausalLM\"],\"model_type\":\"qwen2\",\"hidden_size\":32,\"num_hidden_layers\":2,"
        "\"num_attention_heads\":2,\"num_key_value_heads\":2,\"intermediate_size\":64,\"vocab_size\":300,"
        "\"max_position_embeddings\":32,\"rms_norm_eps\":1e-5,\"hidden_act\":\"silu\",\"tie_word_embeddings\":true}",
        "{\"architectures\":[\"Qwen3ForCausalLM\"],\"model_type\":\"qwen3\",\"hidden_size\":32,\"num_hidden_layers\":2,\"head_dim\":24,"
        "\"num_attention_heads\":2,\"num_key_value_heads\":1,\"intermediate_size\":64,\"vocab_size\":300,"
        "\"max_position_embeddings\":32,\"rms_norm_eps\":1e-5,\"hidden_act\":\"silu\",\"tie_word_embeddings\":true}"};
    for (int i = 0; i < 4; i++) {
        zn_json *json;
        zn_model *model = new_model(configs[i], TIME, &json);
        struct zn_engine_options o = options_of(3, 2), all[4];
        for (int a = 0; a < 4; a++)
            all[a] = on_device(o);
        all[1].offload = (struct zn_offload){.optimizer = ZN_TIER_HOST, .gradients = ZN_TIER_HOST};
        all[2].offload = (struct zn_offload){ZN_TIER_NVME, ZN_TIER_NVME, ZN_TIER_NVME, ZN_TIER_NVME};
        int n_ranks = 1 + i % MAX_RANKS, from = tries_all() ? 0 : i % 3;
        assert_same(model, &o, all + from, tries_all() ? 3 : 1, n_ranks, 0);
        if (tries_all() || i == 3) {
            o.tile_bytes = 4096;
            o.vertical = true;
            o.reduce_every = false;
            all[3] = on_device(o);
            all[3].offload = (struct zn_offload){ZN_TIER_HOST, ZN_TIER_HOST, ZN_TIER_HOST, ZN_TIER_HOST};
            assert_same(model, &o, all + 3, 1, n_ranks, 0);
        }
        zn_model_destroy(model);
        zn_json_destroy(json);
    }
}

/* The tests as a program, skipped where the backend has no device. */
static int run_matrix(const struct tested_backend *backend)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_tier_gives_the_same_bits),
        cmocka_unit_test(every_stage_gives_the_same_bits),
        cmocka_unit_test(every_way_gives_the_same_bits),
        cmocka_unit_test(every_architecture_gives_the_same_bits),
    };
    job_backend = backend;
    if (backend->open(&job_opened) != ZN_OK) {
        printf("no %s device: %s\n", backend->name, zn_error_message());
        return 77;
    }
    sigaction(SIGALRM, &(struct sigaction){.sa_handler = bark}, NULL);
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    backend->close(job_opened);
    return failures;
}

#endif
