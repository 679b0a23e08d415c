/* Steps of the real engine in several placements, compared with the processor's. */
#include "cli/doctor_training.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "optim/registry.h"
#include "plan/dry_run.h"
#include "models/model.h"

enum { SEQ_LEN = 16, N_STEPS = 3, N_BATCHES = 2, VOCABULARY = 300 };

static const char config[] =
    "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"hidden_size\":32,\"num_hidden_layers\":3,"
    "\"num_attention_heads\":2,\"num_key_value_heads\":1,\"intermediate_size\":96,\"vocab_size\":300,"
    "\"max_position_embeddings\":32,\"rms_norm_eps\":1e-5,\"hidden_act\":\"silu\",\"tie_word_embeddings\":true}";

static const struct placement {
    const char *name;
    struct zn_offload offload;
    bool is_vertical; /* with tiles */
} placements[] = {
    {"all on the device", {0}, false},
    {"optimizer and gradients on the host", {.optimizer = ZN_TIER_HOST, .gradients = ZN_TIER_HOST}, false},
    {"all on NVMe", {ZN_TIER_NVME, ZN_TIER_NVME, ZN_TIER_NVME, ZN_TIER_NVME}, false},
    {"all on the host, vertical, in tiles", {ZN_TIER_HOST, ZN_TIER_HOST, ZN_TIER_HOST, ZN_TIER_HOST}, true},
};

struct trained {
    double losses[N_STEPS], norms[N_STEPS];
    float *weights; /* all, one parameter after the other */
};

/* What a training has open. */
struct bench {
    zn_accelerator *accelerator; /* NULL: the processor */
    zn_model *model;
    zn_clock clock;
    zn_ledger ledger;
    zn_engine_plan plan;
    struct zn_world world;
    zn_engine *engine;
};

static struct zn_engine_options options_of(const struct placement *p, bool is_device)
{
    return (struct zn_engine_options){.trains = true,
                                      .stage = 3,
                                      .type = ZN_BF16,
                                      .reduce_every = !p->is_vertical,
                                      .micro_batch = 1,
                                      .seq_len = SEQ_LEN,
                                      .accumulate = N_BATCHES,
                                      .recompute = true,
                                      .prefetch_bytes = 100000,
                                      .tile_bytes = p->is_vertical ? 4096 : 0,
                                      .vertical = p->is_vertical,
                                      .is_discrete = is_device,
                                      .stages_comm = is_device,
                                      .offload = is_device ? p->offload : (struct zn_offload){0},
                                      .optimizer = &zn_optimizer_adamw,
                                      .hyperparameters = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.1},
                                      .clip = 1,
                                      .delay_after = -1};
}

static zn_status open_world(struct bench *b)
{
    static const char *const here = ".";
    const struct zn_storage_options swap = {.paths = &here, .n_paths = 1, .n_bytes = b->plan.swap_bytes, .allow_buffered = true,
                                            .block_bytes = 1 << 18, .depth = 4};
    ZN_TRY(zn_comm_create_self(&b->clock, &b->world.comm));
    if (b->plan.swap_bytes)
        ZN_TRY(zn_storage_create_files(&swap, &b->world.storage));
    ZN_TRY(zn_device_create_cpu(&b->ledger, &b->clock, 1, NULL, &b->world.host));
    if (b->accelerator)
        return zn_device_create_on(b->accelerator, &b->ledger, &b->clock, &b->world.device);
    return zn_device_create_cpu(&b->ledger, &b->clock, 1, NULL, &b->world.device);
}

static zn_status run_step(struct bench *b, int step, struct trained *t)
{
    int32_t ids[N_BATCHES][SEQ_LEN];
    struct zn_micro_batch batches[N_BATCHES];
    struct zn_verdict verdict;
    for (int i = 0; i < N_BATCHES * SEQ_LEN; i++)
        ids[i / SEQ_LEN][i % SEQ_LEN] = (i * 37 + step * 11) % VOCABULARY;
    for (int i = 0; i < N_BATCHES; i++)
        batches[i] = (struct zn_micro_batch){.ids = ids[i], .targets = ids[i]};
    ZN_TRY(zn_zero_step(b->engine, &(struct zn_step){.batches = batches, .scale = 1.0f / SEQ_LEN, .lr = 1e-3, .loss_scale = 1},
                          &verdict));
    t->losses[step] = verdict.loss;
    t->norms[step] = verdict.norm;
    return ZN_OK;
}

/* Where the values of a parameter begin among all. */
struct taking {
    const zn_model *model;
    float *weights;
};

static zn_status take(void *self, const zn_param *p, int64_t first, const float *values, int64_t n)
{
    const struct taking *t = self;
    int64_t at = first;
    for (int i = 0; i < p->index; i++)
        at += t->model->module->params[i].n_elements;
    memcpy(t->weights + at, values, (size_t)n * sizeof *values);
    return ZN_OK;
}

static zn_status run(struct bench *b, const struct zn_engine_options *options, struct trained *t)
{
    const zn_module *module = b->model->module;
    ZN_TRY(zn_dry_run(module, options, 1, &b->plan));
    ZN_TRY(open_world(b));
    ZN_TRY(zn_zero_create(&b->world, module, options, &b->plan, &b->engine));
    for (int i = 0; i < module->n_params; i++)
        ZN_TRY(zn_engine_init_param(b->engine, &module->params[i], 5));
    ZN_TRY(zn_engine_publish(b->engine));
    for (int step = 0; step < N_STEPS; step++)
        ZN_TRY(run_step(b, step, t));
    ZN_TRY(zn_zero_finish(b->engine));
    struct taking taking = {b->model, t->weights};
    return zn_engine_stream_state(b->engine, ZN_STATE_MASTER, take, &taking);
}

static zn_status train(zn_model *model, const struct placement *p, zn_accelerator *accelerator, struct trained *t)
{
    struct bench b = {.accelerator = accelerator, .model = model};
    const struct zn_engine_options options = options_of(p, accelerator != NULL);
    *t = (struct trained){.weights = calloc((size_t)zn_model_n_elements(model), sizeof *t->weights)};
    if (!t->weights)
        return zn_fail(ZN_ERR_MEMORY, "no memory for a training");
    zn_clock_init_real(&b.clock);
    zn_ledger_init(&b.ledger);
    zn_status status = run(&b, &options, t);
    zn_zero_destroy(b.engine);
    zn_comm_destroy(b.world.comm);
    zn_storage_destroy(b.world.storage);
    zn_device_destroy(b.world.device);
    zn_device_destroy(b.world.host);
    zn_engine_plan_fini(&b.plan);
    return status;
}

static bool are_same(const zn_model *model, const struct trained *a, const struct trained *b)
{
    return memcmp(a->losses, b->losses, sizeof a->losses) == 0 && memcmp(a->norms, b->norms, sizeof a->norms) == 0 &&
           memcmp(a->weights, b->weights, (size_t)zn_model_n_elements(model) * sizeof *a->weights) == 0;
}

static zn_status check_placement(zn_model *model, const struct placement *p, zn_accelerator *accelerator, struct zn_check *check)
{
    struct trained expected = {0}, got = {0};
    zn_status status = train(model, p, NULL, &expected);
    if (status == ZN_OK)
        status = zn_add_context(train(model, p, accelerator, &got), "%s", p->name);
    if (status == ZN_OK) {
        check->n_checked++;
        if (!are_same(model, &expected, &got))
            snprintf(check->difference, sizeof check->difference, "%s: losses %.9g %.9g %.9g, on the device %.9g %.9g %.9g", p->name,
                     expected.losses[0], expected.losses[1], expected.losses[2], got.losses[0], got.losses[1], got.losses[2]);
    }
    free(expected.weights);
    free(got.weights);
    return status;
}

zn_status doctor_check_training(zn_accelerator *accelerator, struct zn_check *check)
{
    zn_json *json;
    zn_model *model;
    *check = (struct zn_check){0};
    ZN_TRY(zn_json_load_buffer(config, sizeof config - 1, "config", &json));
    zn_status status = zn_model_create(json, SEQ_LEN, &model);
    if (status == ZN_OK) {
        for (size_t i = 0; i < sizeof placements / sizeof placements[0] && status == ZN_OK && !check->difference[0]; i++)
            status = check_placement(model, &placements[i], accelerator, check);
        zn_model_destroy(model);
    }
    zn_json_destroy(json);
    return status;
}
