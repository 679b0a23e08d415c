/* Short training jobs of several ranks on devices with memory of their own, whose bits are held to those of the processor. */
#ifndef ZN_TESTS_ZERO_DISCRETE_JOB_H
#define ZN_TESTS_ZERO_DISCRETE_JOB_H

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "device/tested_backend.h"
#include "optim/registry.h"
#include "zero/discrete_device.h"
#include "zero/world.h"

static const char *const config =
    "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"hidden_size\":32,\"num_hidden_layers\":3,"
    "\"num_attention_heads\":2,\"num_key_value_heads\":1,\"intermediate_size\":96,\"vocab_size\":300,"
    "\"max_position_embeddings\":32,\"rms_norm_eps\":1e-5,\"hidden_act\":\"silu\",\"tie_word_embeddings\":true}";

enum { TIME = 16, STEPS = 3, MAX_RANKS = 3, PATIENCE = 60 /* seconds for a job */ };

static const char *const swap_path = ".";

/* The backend of jobs whose communication is staged. */
static const struct tested_backend *job_backend;
static void *job_opened;

/* ---- Steps ---- */

static inline struct zn_engine_options options_of(int stage, int64_t accumulate)
{
    return (struct zn_engine_options){.trains = true, .stage = stage, .type = ZN_BF16, .reduce_every = true,
                                      .micro_batch = 1, .seq_len = TIME, .accumulate = accumulate, .recompute = true,
                                      .prefetch_bytes = 100000,
                                      .optimizer = &zn_optimizer_adamw,
                                      .hyperparameters = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.1},
                                      .clip = 1,
                                      .delay_after = -1};
}

struct job {
    struct zn_engine_options options;
    zn_model *model;
    zn_comm *comm;
    uint64_t lags; /* seed of an asynchronous device's, or 0 */
    float *weights; /* masters of all parameters, by rank 0 */
    double norms[STEPS], losses[STEPS];
    uint64_t bytes_out, bytes_in;
};

struct taking {
    const zn_model *model;
    float *weights;
};

static inline zn_status take(void *self, const zn_param *p, int64_t first, const float *values, int64_t n)
{
    const struct taking *t = self;
    int64_t at = first;
    for (int i = 0; i < p->index; i++)
        at += t->model->module->params[i].n_elements;
    memcpy(t->weights + at, values, (size_t)n * sizeof *values);
    return ZN_OK;
}

static inline void *run_rank(void *arg)
{
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
        WORLD_OK(zn_storage_create_files(&(struct zn_storage_options){.paths = &swap_path,
                                                                       .n_paths = 1,
                                                                       .n_bytes = plan.swap_bytes,
                                                                       .allow_buffered = true,
                                                                       .block_bytes = 1 << 18,
                                                                       .depth = 4},
                                         &world.storage));
    WORLD_OK(zn_device_create_cpu(&ledger, &clock, 1, NULL, &world.host));
    if (job->options.stages_comm)
        WORLD_OK(job_backend->create(job_opened, &ledger, &clock, &world.device));
    else if (job->options.is_discrete)
        world.device = discrete_create(&ledger, &clock, job->lags ? job->lags + (uint64_t)zn_comm_rank(job->comm) : 0);
    else
        WORLD_OK(zn_device_create_cpu(&ledger, &clock, 1, NULL, &world.device));
    WORLD_OK(zn_zero_create(&world, job->model->module, &job->options, &plan, &engine));
    for (int i = 0; i < job->model->module->n_params; i++)
        WORLD_OK(zn_engine_init_param(engine, &job->model->module->params[i], 5));
    WORLD_OK(zn_engine_publish(engine));
    world.device->bytes_out = world.device->bytes_in = 0;
    for (int s = 0; s < STEPS; s++) {
        int32_t ids[2][TIME];
        const struct zn_micro_batch batches[] = {{.ids = ids[0], .targets = ids[0]}, {.ids = ids[1], .targets = ids[1]}};
        for (int i = 0; i < 2 * TIME; i++)
            ids[i / TIME][i % TIME] = (i * 37 + s * 11 + zn_comm_rank(job->comm) * 101) % 300;
        struct zn_verdict verdict;
        WORLD_OK(zn_zero_step(engine,
                                &(struct zn_step){.batches = batches, .scale = 1.0f / TIME, .lr = 1e-3,
                                                  .loss_scale = 1},
                                &verdict));
        job->norms[s] = verdict.norm;
        job->losses[s] = verdict.loss;
    }
    WORLD_OK(zn_zero_finish(engine));
    job->bytes_out = world.device->bytes_out;
    job->bytes_in = world.device->bytes_in;
    struct taking taking = {job->model, job->weights};
    WORLD_OK(zn_engine_stream_state(engine, ZN_STATE_MASTER, take, &taking));
    for (int tier = 0; tier < ZN_N_TIERS; tier++)
        assert_int_equal(zn_manifest_bytes(&plan.manifest, (zn_tier)tier, ZN_N_KINDS),
                         zn_ledger_tier(&ledger, (zn_tier)tier));
    zn_zero_destroy(engine);
    zn_comm_destroy(job->comm);
    zn_storage_destroy(world.storage);
    zn_device_destroy(world.device);
    zn_device_destroy(world.host);
    zn_engine_plan_fini(&plan);
    return NULL;
}

static char running[200]; /* what is, for the watchdog */

/* A job that waits for ever fails. */
static inline void bark(int signal)
{
    (void)signal;
    const char *const words[] = {"no end after a minute: ", running, "\n"};
    for (int i = 0; i < 3; i++)
        if (write(STDERR_FILENO, words[i], strlen(words[i])) < 0)
            break;
    _exit(1);
}

static inline void describe(const struct zn_engine_options *o, int n_ranks, uint64_t lags)
{
    const struct zn_offload *off = &o->offload;
    snprintf(running, sizeof running, "%d ranks, %s, lags %llu: optimizer on tier %d, gradients %d, parameters %d, activations %d",
             n_ranks, zn_dtype_name(o->type), (unsigned long long)lags, off->optimizer, off->gradients, off->parameters,
             off->activations);
}

static inline void run_ranks(struct job *result, zn_model *model, const struct zn_engine_options *options, int n_ranks, uint64_t lags)
{
    zn_clock clock;
    zn_comm *comms[MAX_RANKS];
    pthread_t threads[MAX_RANKS];
    struct job jobs[MAX_RANKS];
    describe(options, n_ranks, lags);
    alarm(PATIENCE);
    zn_clock_init_real(&clock);
    WORLD_OK(zn_comm_create_threads(&clock, n_ranks, comms));
    for (int r = 0; r < n_ranks; r++) {
        jobs[r] = (struct job){.options = *options, .model = model, .comm = comms[r], .lags = lags};
        jobs[r].weights = calloc((size_t)zn_model_n_elements(model), sizeof(float));
        pthread_create(&threads[r], NULL, run_rank, &jobs[r]);
    }
    for (int r = 0; r < n_ranks; r++)
        pthread_join(threads[r], NULL);
    alarm(0);
    for (int r = 1; r < n_ranks; r++)
        free(jobs[r].weights);
    *result = jobs[0];
}

static inline zn_model *new_model(const char *text, int64_t seq_len, zn_json **json)
{
    zn_model *model;
    WORLD_OK(zn_json_load_buffer(text, strlen(text), "config", json));
    WORLD_OK(zn_model_create(*json, seq_len, &model));
    return model;
}

/* The same as on a device whose memory is the host's. Where there are lags, each job has others. */
static inline void assert_same(zn_model *model, const struct zn_engine_options *plain_options,
                        const struct zn_engine_options *options, int n, int n_ranks, uint64_t lags)
{
    struct job plain;
    if (n == 0)
        return;
    run_ranks(&plain, model, plain_options, n_ranks, 0);
    for (int i = 0; i < n; i++) {
        struct job apart;
        run_ranks(&apart, model, &options[i], n_ranks, lags ? lags + (uint64_t)i * MAX_RANKS : 0);
        const struct zn_offload *off = &options[i].offload;
        if (memcmp(plain.losses, apart.losses, sizeof plain.losses) || memcmp(plain.norms, apart.norms, sizeof plain.norms) ||
            memcmp(plain.weights, apart.weights, (size_t)zn_model_n_elements(model) * sizeof(float)))
            fail_msg("%s differ", running);
        assert_true(off->optimizer == ZN_TIER_DEVICE || (apart.bytes_out > 0 && apart.bytes_in > 0));
        free(apart.weights);
    }
    free(plain.weights);
}

enum { MAX_TIERS = 40 };

/* Every placement that a discrete device has a path for. */
static inline int list_tiers(struct zn_engine_options o, struct zn_engine_options *all)
{
    int n = 0;
    o.is_discrete = true;
    for (int i = 0; i < ZN_N_TIERS * ZN_N_TIERS * ZN_N_TIERS * ZN_N_TIERS; i++) {
        o.offload = (struct zn_offload){.optimizer = (zn_tier)(i % 3),
                                        .gradients = (zn_tier)(i / 3 % 3),
                                        .parameters = (zn_tier)(i / 9 % 3),
                                        .activations = (zn_tier)(i / 27)};
        bool away = o.offload.optimizer != ZN_TIER_DEVICE;
        if (away == (o.offload.gradients != ZN_TIER_DEVICE) && (away || o.offload.parameters == ZN_TIER_DEVICE))
            all[n++] = o;
    }
    assert_int_equal(n, 39);
    return n;
}

/* Keeps of n placements those that fall to one of the shares. */
static inline int keep_share(struct zn_engine_options *all, int n, int share, int n_shares)
{
    int kept = 0;
    for (int i = share; i < n; i += n_shares)
        all[kept++] = all[i];
    return kept;
}

enum { N_WAYS = 8, N_FROZEN_WAYS = 8 };

/* Every third parameter, so that operators read trained and frozen ones together; and all of the first segments. */
static inline const bool *frozen_params(bool is_mixed)
{
    static bool mixed[64], first[64];
    for (int i = 0; i < 64; i++) {
        mixed[i] = i % 3 == 1;
        first[i] = i < 14;
    }
    return is_mixed ? mixed : first;
}

/* Stage 2, one micro-batch, tiles, the vertical schedule; updates in backward; delayed updates. Then the same with frozen
 * parameters, in a type of their own. */
static inline struct zn_engine_options options_of_way(int at)
{
    int way = at % N_WAYS;
    struct zn_engine_options o = options_of(way == 0 ? 2 : 3, way % 2 ? 1 : 2);
    o.type = way == 5 ? ZN_F32 : ZN_BF16;
    o.frozen = at < N_WAYS ? NULL : frozen_params(way % 3 < 2);
    o.frozen_type = way % 2 ? ZN_BF16 : way == 6 ? ZN_F16 : ZN_F32;
    o.tile_bytes = way == 1 || way == 2 ? 4096 : 0;
    o.vertical = way == 2;
    o.reduce_every = way != 2;
    o.in_backward = way == 3 || way == 4;
    o.clip = o.in_backward ? 0 : 1;
    o.delay_after = way >= 5 && way <= 6 ? 1 : -1;
    o.persist_bytes = way == 7 ? 40000 : 0;
    return o;
}

#endif
