/* Adapters over a quantised base: the same bits at every stage, tier and tile, with and without recompute, read back and evaluated, and
 * those of the same base dequantised to fp32. Ranks are threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <pthread.h>

#include "models/adapter.h"
#include "optim/registry.h"
#include "tensor/quantum.h"
#include "zero/world.h"

/* Tiles of 1024 rows of 40 columns end within a group of scales; partitions of three ranks within parameters. */
static const char *const configs[] = {
    "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"hidden_size\":40,\"num_hidden_layers\":2,"
    "\"num_attention_heads\":2,\"num_key_value_heads\":1,\"intermediate_size\":2112,\"vocab_size\":300,"
    "\"max_position_embeddings\":32,\"rms_norm_eps\":1e-5,\"hidden_act\":\"silu\",\"tie_word_embeddings\":true}",
    "{\"architectures\":[\"GPT2LMHeadModel\"],\"model_type\":\"gpt2\",\"n_embd\":40,\"n_layer\":2,\"n_head\":2,"
    "\"n_inner\":2112,\"n_positions\":32,\"vocab_size\":300}",
};

enum { TIME = 16, STEPS = 3, MAX_RANKS = 3, RANK = 4 };

struct job {
    struct zn_engine_options options;
    const zn_model *model;
    zn_comm *comm;
    const float *given; /* all values of the base, or NULL: by the declaration */
    double losses[STEPS], norms[STEPS], evaluated;
    size_t quantised, others; /* bytes of parameters */
    uint64_t read;            /* of the last step */
    float *weights;
};

static int64_t place_of(const zn_model *model, const zn_param *p)
{
    int64_t at = 0;
    for (int i = 0; i < p->index; i++)
        at += model->module->params[i].n_elements;
    return at;
}

static zn_status take(void *self, const zn_param *p, int64_t first, const float *values, int64_t n)
{
    const struct job *job = self;
    memcpy(job->weights + place_of(job->model, p) + first, values, (size_t)n * sizeof *values);
    return ZN_OK;
}

static zn_status give(void *self, const zn_param *p, int64_t first, float *values, int64_t n)
{
    const struct job *job = self;
    memcpy(values, job->given + place_of(job->model, p) + first, (size_t)n * sizeof *values);
    return ZN_OK;
}

static void fill(const struct job *job, zn_engine *engine, const zn_param *p)
{
    if (!job->given || zn_is_adapter(p)) {
        WORLD_OK(zn_engine_init_param(engine, p, 5));
    } else if (zn_engine_is_quantised(engine, p)) {
        WORLD_OK(zn_engine_quantise_param(engine, p, give, (void *)(uintptr_t)job));
    } else {
        for (struct zn_range r = zn_engine_owned_range(engine, p, 0); r.n > 0; r = zn_engine_owned_range(engine, p, r.first + r.n))
            WORLD_OK(zn_engine_write_state(engine, p, ZN_STATE_MASTER, r.first, job->given + place_of(job->model, p) + r.first, r.n));
    }
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
        fill(job, engine, &job->model->module->params[i]);
    WORLD_OK(zn_engine_publish(engine));
    int32_t ids[2][TIME];
    const struct zn_micro_batch batches[] = {{.ids = ids[0], .targets = ids[0]}, {.ids = ids[1], .targets = ids[1]}};
    for (int s = 0; s < STEPS; s++) {
        struct zn_verdict verdict;
        for (int i = 0; i < 2 * TIME; i++)
            ids[i / TIME][i % TIME] = (i * 37 + s * 11 + zn_comm_rank(job->comm) * 101) % 300;
        struct zn_moved before = zn_engine_moved(engine);
        if (!job->options.trains)
            continue;
        WORLD_OK(zn_zero_step(engine, &(struct zn_step){.batches = batches, .scale = 1.0f / TIME, .lr = 1e-2, .loss_scale = 1},
                                &verdict));
        job->norms[s] = verdict.norm;
        job->losses[s] = verdict.loss;
        job->read = zn_engine_moved(engine).read - before.read;
    }
    WORLD_OK(zn_zero_finish(engine));
    WORLD_OK(zn_zero_evaluate(engine, batches, &job->evaluated));
    if (job->options.trains)
        WORLD_OK(zn_engine_stream_state(engine, ZN_STATE_MASTER, take, job));
    job->quantised = plan.buffers[ZN_BUFFER_QUANTISED].n_bytes;
    job->others = plan.buffers[ZN_BUFFER_PARAMETERS].n_bytes + plan.buffers[ZN_BUFFER_FROZEN].n_bytes;
    zn_zero_destroy(engine);
    zn_comm_destroy(job->comm);
    zn_storage_destroy(world.storage);
    zn_device_destroy(world.device);
    zn_device_destroy(world.host);
    zn_engine_plan_fini(&plan);
    return NULL;
}

static struct job run(const zn_model *model, const struct zn_engine_options *options, int n_ranks, const float *given)
{
    zn_clock clock;
    zn_comm *comms[MAX_RANKS];
    pthread_t threads[MAX_RANKS];
    struct job jobs[MAX_RANKS];
    zn_clock_init_real(&clock);
    WORLD_OK(zn_comm_create_threads(&clock, n_ranks, comms));
    for (int r = 0; r < n_ranks; r++) {
        jobs[r] = (struct job){.options = *options, .model = model, .comm = comms[r], .given = given};
        jobs[r].weights = calloc((size_t)zn_model_n_elements(model), sizeof(float));
        pthread_create(&threads[r], NULL, run_rank, &jobs[r]);
    }
    for (int r = 0; r < n_ranks; r++)
        pthread_join(threads[r], NULL);
    for (int r = 1; r < n_ranks; r++)
        free(jobs[r].weights);
    return jobs[0];
}

struct subject {
    zn_json *json;
    zn_model *model;
    bool *is_base, *is_matrix;
};

static struct subject subject_of(int which)
{
    struct subject s;
    static const char *const all = "all";
    WORLD_OK(zn_json_load_buffer(configs[which], strlen(configs[which]), "config", &s.json));
    WORLD_OK(zn_model_create(s.json, TIME, &s.model));
    WORLD_OK(zn_model_add_adapters(s.model, &(struct zn_adapter_options){.rank = RANK, .alpha = 8, .targets = &all, .n_targets = 1}));
    WORLD_OK(zn_model_list_matrices(s.model, &s.is_matrix));
    s.is_base = calloc((size_t)s.model->module->n_params, sizeof *s.is_base);
    for (int i = 0; i < s.model->module->n_params; i++)
        s.is_base[i] = !zn_is_adapter(&s.model->module->params[i]);
    return s;
}

static void subject_fini(struct subject *s)
{
    zn_model_destroy(s->model);
    zn_json_destroy(s->json);
    free(s->is_base);
    free(s->is_matrix);
}

static struct zn_engine_options options_of(const struct subject *s, zn_dtype type, zn_dtype quantised)
{
    return (struct zn_engine_options){.trains = true, .type = type, .trains_fp32 = true, .frozen = s->is_base, .frozen_type = ZN_F32,
                                      .quantised = s->is_matrix, .quantised_type = quantised, .reduce_every = true, .evaluates = true,
                                      .micro_batch = 1, .seq_len = TIME, .accumulate = 2, .recompute = true, .delay_after = -1,
                                      .optimizer = &zn_optimizer_adamw,
                                      .hyperparameters = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8}, .clip = 1};
}

static void assert_same(const zn_model *model, const struct job *a, const struct job *b)
{
    assert_memory_equal(a->losses, b->losses, sizeof a->losses);
    assert_memory_equal(a->norms, b->norms, sizeof a->norms);
    assert_memory_equal(&a->evaluated, &b->evaluated, sizeof a->evaluated);
    assert_memory_equal(a->weights, b->weights, (size_t)zn_model_n_elements(model) * sizeof(float));
}

/* The base is not what it was before it was quantised, and the adapters learn. */
static void check_learning(const struct subject *s, const struct job *job)
{
    struct zn_engine_options o = options_of(s, ZN_F32, ZN_NF4);
    o.quantised = NULL;
    struct job plain = run(s->model, &o, 1, NULL);
    for (int i = 0; i < s->model->module->n_params; i++) {
        const zn_param *p = &s->model->module->params[i];
        int64_t at = place_of(s->model, p);
        bool is_same = memcmp(job->weights + at, plain.weights + at, (size_t)p->n_elements * sizeof(float)) == 0;
        if (!zn_is_adapter(p))
            assert_int_equal(is_same, !s->is_matrix[i]);
        else if (strstr(p->name, "lora_B"))
            assert_true(job->weights[at] > 0 || job->weights[at] < 0);
    }
    free(plain.weights);
}

static void check(int which, zn_dtype quantised, zn_dtype type)
{
    struct subject s = subject_of(which);
    double evaluated = 0;
    for (int n_ranks = 1; n_ranks <= MAX_RANKS; n_ranks++) {
        struct zn_engine_options o = options_of(&s, type, quantised), plain = o, reads = o;
        struct job base = run(s.model, &o, n_ranks, NULL);
        if (n_ranks == 1)
            check_learning(&s, &base);
        for (int stage = 1; stage <= 3; stage++) {
            o.stage = stage;
            o.recompute = stage != 2;
            for (int tiles = 0; tiles < (stage == 3 ? 3 : 1); tiles++) {
                o.tile_bytes = tiles == 1 ? 4096 : 0;
                if (tiles > 0)
                    o.offload = (struct zn_offload){ZN_TIER_NVME, ZN_TIER_NVME, ZN_TIER_NVME, tiles == 1 ? ZN_TIER_NVME : ZN_TIER_HOST};
                struct job other = run(s.model, &o, n_ranks, NULL);
                assert_same(s.model, &base, &other);
                free(other.weights);
            }
        }
        /* The same base in fp32, and an engine that only reads: the model alone, its adapters as they begin, which add nothing. */
        plain.quantised = NULL;
        plain.stage = 3;
        struct job dequantised = run(s.model, &plain, n_ranks, base.weights);
        assert_same(s.model, &base, &dequantised);
        reads.trains = false;
        reads.type = ZN_F32;
        reads.frozen = NULL;
        reads.optimizer = NULL;
        reads.stage = n_ranks == 2 ? 3 : 0;
        struct job alone = run(s.model, &reads, n_ranks, NULL);
        if (n_ranks == 1)
            evaluated = alone.evaluated;
        assert_memory_equal(&evaluated, &alone.evaluated, sizeof evaluated);
        free(alone.weights);
        free(dequantised.weights);
        free(base.weights);
    }
    subject_fini(&s);
}

static void nf4(void **state)
{
    (void)state;
    check(0, ZN_NF4, ZN_F32);
    check(0, ZN_NF4, ZN_BF16);
}

static void int8(void **state)
{
    (void)state;
    check(0, ZN_INT8, ZN_F32);
}

/* Whose weights are stored (in, out), with biases. */
static void gpt2(void **state)
{
    (void)state;
    check(1, ZN_NF4, ZN_F32);
    check(1, ZN_INT8, ZN_F32);
}

/* A base that is given as values has the quanta of one that is born with them, whatever ranks bring it. */
static void values_that_are_given(void **state)
{
    (void)state;
    for (zn_dtype type = ZN_INT8; type <= ZN_NF4; type++) {
        struct subject s = subject_of(0);
        struct zn_engine_options o = options_of(&s, ZN_F32, type), plain = o;
        plain.quantised = NULL;
        struct job born = run(s.model, &o, 1, NULL), values = run(s.model, &plain, 1, NULL);
        for (int n_ranks = 1; n_ranks <= MAX_RANKS; n_ranks++) {
            struct zn_engine_options reads = o;
            reads.stage = 3;
            struct job given = run(s.model, &reads, n_ranks, values.weights);
            for (int i = 0; i < s.model->module->n_params; i++) {
                const zn_param *p = &s.model->module->params[i];
                int64_t at = place_of(s.model, p);
                if (!zn_is_adapter(p))
                    assert_memory_equal(born.weights + at, given.weights + at, (size_t)p->n_elements * sizeof(float));
            }
            free(given.weights);
        }
        free(born.weights);
        free(values.weights);
        subject_fini(&s);
    }
}

/* 0.53 bytes an element of a matrix are kept and read with nf4, 1.06 with int8. */
static void bytes_are_those_of_quanta(void **state)
{
    (void)state;
    struct subject s = subject_of(0);
    int64_t n = 0;
    for (int i = 0; i < s.model->module->n_params; i++)
        n += s.is_matrix[i] ? s.model->module->params[i].n_elements : 0;
    for (zn_dtype type = ZN_INT8; type <= ZN_NF4; type++) {
        struct zn_engine_options o = options_of(&s, ZN_F32, type);
        o.stage = 3;
        o.offload.parameters = ZN_TIER_NVME;
        o.accumulate = 1;
        struct job job = run(s.model, &o, 1, NULL);
        size_t quanta = zn_dtype_size(type, n), padding = zn_dtype_size(type, type == ZN_NF4 ? 131072 : 65536);
        assert_in_range(job.quantised, quanta, quanta + 2 * padding); /* two units, whole pages each */
        /* Forward, and backward with its recompute at once. */
        assert_in_range(job.read, job.quantised, 2 * (job.quantised + job.others));
        free(job.weights);
    }
    subject_fini(&s);
}

static void devices_with_their_own_memory_are_refused(void **state)
{
    (void)state;
    struct subject s = subject_of(0);
    struct zn_engine_options o = options_of(&s, ZN_F32, ZN_NF4);
    zn_engine_plan plan;
    o.is_discrete = true;
    assert_int_equal(zn_dry_run(s.model->module, &o, 1, &plan), ZN_ERR_UNSUPPORTED);
    assert_non_null(strstr(zn_error_message(), "--base-quantize: not on a device with memory of its own"));
    subject_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nf4),
        cmocka_unit_test(int8),
        cmocka_unit_test(gpt2),
        cmocka_unit_test(values_that_are_given),
        cmocka_unit_test(bytes_are_those_of_quanta),
        cmocka_unit_test(devices_with_their_own_memory_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
