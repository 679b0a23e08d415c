/* Adapters over a frozen base: the same bits at every stage, number of micro-batches at once and tier; states of the adapters alone;
 * and the base as it was. Ranks are threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>
#include <pthread.h>

#include "models/adapter.h"
#include "optim/registry.h"
#include "zero/world.h"

static const char *const configs[] = {
    "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"hidden_size\":32,\"num_hidden_layers\":3,"
    "\"num_attention_heads\":2,\"num_key_value_heads\":1,\"intermediate_size\":96,\"vocab_size\":300,"
    "\"max_position_embeddings\":32,\"rms_norm_eps\":1e-5,\"hidden_act\":\"silu\",\"tie_word_embeddings\":true}",
    "{\"architectures\":[\"GPT2LMHeadModel\"],\"model_type\":\"gpt2\",\"n_embd\":32,\"n_layer\":2,\"n_head\":2,"
    "\"n_positions\":32,\"vocab_size\":300}",
};

enum { TIME = 16, STEPS = 4, MAX_RANKS = 3, RANK = 4 };

struct job {
    struct zn_engine_options options;
    const zn_model *model;
    zn_comm *comm;
    double losses[STEPS], norms[STEPS];
    size_t kinds[ZN_N_KINDS];
    float *weights;
};

static zn_status take(void *self, const zn_param *p, int64_t first, const float *values, int64_t n)
{
    const struct job *job = self;
    int64_t at = first;
    for (int i = 0; i < p->index; i++)
        at += job->model->module->params[i].n_elements;
    memcpy(job->weights + at, values, (size_t)n * sizeof *values);
    return ZN_OK;
}

static void *run_rank(void *arg)
{
    static const char *const path = ".";
    struct job *job = arg;
    zn_ledger ledger;
    zn_clock clock;
    zn_engine_plan plan;
    zn_engine *engine;
    struct zn_world world = {.comm = job->comm};
    zn_ledger_init(&ledger);
    zn_clock_init_real(&clock);
    WORLD_OK(zn_dry_run(job->model->module, &job->options, zn_comm_n_ranks(job->comm), &plan));
    if (plan.swap_bytes)
        WORLD_OK(zn_storage_create_files(&(struct zn_storage_options){.paths = &path, .n_paths = 1, .n_bytes = plan.swap_bytes,
                                                                       .allow_buffered = true, .block_bytes = 1 << 18, .depth = 4},
                                         &world.storage));
    WORLD_OK(zn_device_create_cpu(&ledger, &clock, 1, NULL, &world.device));
    WORLD_OK(zn_device_create_cpu(&ledger, &clock, 1, NULL, &world.host));
    WORLD_OK(zn_zero_create(&world, job->model->module, &job->options, &plan, &engine));
    for (int i = 0; i < job->model->module->n_params; i++)
        WORLD_OK(zn_engine_init_param(engine, &job->model->module->params[i], 5));
    WORLD_OK(zn_engine_publish(engine));
    for (int s = 0; s < STEPS; s++) {
        int32_t ids[2][TIME];
        const struct zn_micro_batch batches[] = {{.ids = ids[0], .targets = ids[0]}, {.ids = ids[1], .targets = ids[1]}};
        for (int i = 0; i < 2 * TIME; i++)
            ids[i / TIME][i % TIME] = (i * 37 + s * 11 + zn_comm_rank(job->comm) * 101) % 300;
        struct zn_verdict verdict;
        WORLD_OK(zn_zero_step(engine, &(struct zn_step){.batches = batches, .scale = 1.0f / TIME, .lr = 1e-2, .loss_scale = 1},
                                &verdict));
        job->norms[s] = verdict.norm;
        job->losses[s] = verdict.loss;
    }
    WORLD_OK(zn_zero_finish(engine));
    WORLD_OK(zn_engine_stream_state(engine, ZN_STATE_MASTER, take, job));
    for (int k = 0; k < ZN_N_KINDS; k++)
        job->kinds[k] = zn_manifest_bytes(&plan.manifest, ZN_N_TIERS, (zn_kind)k);
    zn_zero_destroy(engine);
    zn_comm_destroy(job->comm);
    zn_storage_destroy(world.storage);
    zn_device_destroy(world.device);
    zn_device_destroy(world.host);
    zn_engine_plan_fini(&plan);
    return NULL;
}

static struct job run(const zn_model *model, const struct zn_engine_options *options, int n_ranks)
{
    zn_clock clock;
    zn_comm *comms[MAX_RANKS];
    pthread_t threads[MAX_RANKS];
    struct job jobs[MAX_RANKS];
    zn_clock_init_real(&clock);
    WORLD_OK(zn_comm_create_threads(&clock, n_ranks, comms));
    for (int r = 0; r < n_ranks; r++) {
        jobs[r] = (struct job){.options = *options, .model = model, .comm = comms[r]};
        jobs[r].weights = calloc((size_t)zn_model_n_elements(model), sizeof(float));
        pthread_create(&threads[r], NULL, run_rank, &jobs[r]);
    }
    for (int r = 0; r < n_ranks; r++)
        pthread_join(threads[r], NULL);
    for (int r = 1; r < n_ranks; r++)
        free(jobs[r].weights);
    return jobs[0];
}

static zn_model *adapted_model(int which, const char *target, zn_json **json)
{
    zn_model *model;
    WORLD_OK(zn_json_load_buffer(configs[which], strlen(configs[which]), "config", json));
    WORLD_OK(zn_model_create(*json, TIME, &model));
    WORLD_OK(zn_model_add_adapters(model, &(struct zn_adapter_options){.rank = RANK, .alpha = 8, .targets = &target, .n_targets = 1}));
    return model;
}

static const bool *frozen_base(const zn_model *model)
{
    static bool frozen[128];
    for (int i = 0; i < model->module->n_params; i++)
        frozen[i] = !zn_is_adapter(&model->module->params[i]);
    return frozen;
}

static struct zn_engine_options options_of(const zn_model *model, zn_dtype type)
{
    return (struct zn_engine_options){.trains = true, .type = type, .trains_fp32 = true, .frozen = frozen_base(model),
                                      .frozen_type = ZN_BF16, .reduce_every = true, .micro_batch = 1, .seq_len = TIME,
                                      .accumulate = 2, .recompute = true, .delay_after = -1, .optimizer = &zn_optimizer_adamw,
                                      .hyperparameters = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8}, .clip = 1};
}

static void assert_same(const zn_model *model, const struct job *a, const struct job *b)
{
    assert_memory_equal(a->losses, b->losses, sizeof a->losses);
    assert_memory_equal(a->norms, b->norms, sizeof a->norms);
    assert_memory_equal(a->weights, b->weights, (size_t)zn_model_n_elements(model) * sizeof(float));
}

/* A fresh adapter changes nothing, then it learns; the base stays. */
static void check_learning(const zn_model *model, const struct job *job)
{
    int64_t at = 0;
    for (int i = 0; i < model->module->n_params; i++) {
        const zn_param *p = &model->module->params[i];
        double sum = 0;
        for (int64_t k = 0; k < p->n_elements; k++)
            sum += fabs((double)job->weights[at + k]);
        if (strstr(p->name, "lora_B"))
            assert_true(sum > 0);
        at += p->n_elements;
    }
    assert_true(job->losses[STEPS - 1] < job->losses[0]);
}

static void check_bytes(const zn_model *model, const struct job *job)
{
    int64_t n = 0;
    for (int i = 0; i < model->module->n_params; i++)
        n += zn_is_adapter(&model->module->params[i]) ? model->module->params[i].n_elements : 0;
    assert_in_range(job->kinds[ZN_KIND_GRADIENTS], 4 * n, 4 * n + 64 * 1024 * model->module->n_segments);
    assert_int_equal(job->kinds[ZN_KIND_OPTIMIZER], 2 * job->kinds[ZN_KIND_GRADIENTS]); /* two moments, no masters */
}

static void check_model(int which, const char *target)
{
    zn_json *json;
    zn_model *model = adapted_model(which, target, &json);
    for (int n_ranks = 1; n_ranks <= MAX_RANKS; n_ranks++) {
        for (int t = 0; t < 2; t++) {
            struct zn_engine_options o = options_of(model, t ? ZN_BF16 : ZN_F32);
            struct job base = run(model, &o, n_ranks);
            check_learning(model, &base);
            if (n_ranks == 1)
                check_bytes(model, &base);
            for (int stage = 1; stage <= 3; stage++) {
                o.stage = stage;
                o.recompute = stage != 2;
                o.tile_bytes = stage == 3 ? 4096 : 0;
                if (stage == 3)
                    o.offload = (struct zn_offload){ZN_TIER_NVME, ZN_TIER_NVME, ZN_TIER_NVME, n_ranks == 2 ? ZN_TIER_NVME : ZN_TIER_HOST};
                struct job other = run(model, &o, n_ranks);
                assert_same(model, &base, &other);
                free(other.weights);
            }
            free(base.weights);
        }
    }
    zn_model_destroy(model);
    zn_json_destroy(json);
}

static void all_linear_layers(void **state)
{
    (void)state;
    check_model(0, "all");
}

static void some_projections_alone(void **state)
{
    (void)state;
    check_model(0, "[qv]_proj");
}

/* Whose weights are stored (in, out). */
static void gpt2(void **state)
{
    (void)state;
    check_model(1, "all");
}

static void targets_that_fit_nothing_are_refused(void **state)
{
    (void)state;
    zn_json *json;
    zn_model *model;
    const char *const target = "no_proj";
    WORLD_OK(zn_json_load_buffer(configs[0], strlen(configs[0]), "config", &json));
    WORLD_OK(zn_model_create(json, TIME, &model));
    assert_int_equal(zn_model_add_adapters(model, &(struct zn_adapter_options){.rank = 4, .alpha = 8, .targets = &target, .n_targets = 1}),
                     ZN_ERR_USAGE);
    assert_non_null(strstr(zn_error_message(), "'no_proj': no linear layer of the blocks has such a name (one is 'model.layers.0."));
    zn_model_destroy(model);
    zn_json_destroy(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_linear_layers),
        cmocka_unit_test(some_projections_alone),
        cmocka_unit_test(gpt2),
        cmocka_unit_test(targets_that_fit_nothing_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
