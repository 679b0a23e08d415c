/* A device with memory of its own: ZeRO-Offload's path. A device is the processor behind real copies, in time and late,
 * so that bits can be compared; a simulated one shows bytes and time. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "optim/registry.h"
#include "sanitized.h"
#include "zero/discrete_device.h"
#include "zero/world.h"

static const char *const config =
    "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"hidden_size\":32,\"num_hidden_layers\":3,"
    "\"num_attention_heads\":2,\"num_key_value_heads\":1,\"intermediate_size\":96,\"vocab_size\":300,"
    "\"max_position_embeddings\":32,\"rms_norm_eps\":1e-5,\"hidden_act\":\"silu\",\"tie_word_embeddings\":true}";

enum { TIME = 16, STEPS = 3, MAX_RANKS = 3, PATIENCE = 60 /* seconds for a job */ };

static const char *const swap_path = ".";

/* ---- Steps ---- */

static struct zn_engine_options options_of(int stage, int64_t accumulate)
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

static zn_status take(void *self, const zn_param *p, int64_t first, const float *values, int64_t n)
{
    const struct taking *t = self;
    int64_t at = first;
    for (int i = 0; i < p->index; i++)
        at += t->model->module->params[i].n_elements;
    memcpy(t->weights + at, values, (size_t)n * sizeof *values);
    return ZN_OK;
}

static void *run_rank(void *arg)
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
    if (job->options.is_discrete)
        world.device = discrete_create(&ledger, &clock, job->lags ? job->lags + (uint64_t)zn_comm_rank(job->comm) : 0);
    else
        WORLD_OK(zn_device_create_cpu(&ledger, &clock, 1, NULL, &world.device));
    WORLD_OK(zn_engine_create(&world, job->model->module, &job->options, &plan, &engine));
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
        WORLD_OK(zn_engine_step(engine,
                                &(struct zn_step){.batches = batches, .scale = 1.0f / TIME, .lr = 1e-3,
                                                  .loss_scale = 1},
                                &verdict));
        job->norms[s] = verdict.norm;
        job->losses[s] = verdict.loss;
    }
    WORLD_OK(zn_engine_finish(engine));
    job->bytes_out = world.device->bytes_out;
    job->bytes_in = world.device->bytes_in;
    struct taking taking = {job->model, job->weights};
    WORLD_OK(zn_engine_stream_state(engine, ZN_STATE_MASTER, take, &taking));
    for (int tier = 0; tier < ZN_N_TIERS; tier++)
        assert_int_equal(zn_manifest_bytes(&plan.manifest, (zn_tier)tier, ZN_N_KINDS),
                         zn_ledger_tier(&ledger, (zn_tier)tier));
    zn_engine_destroy(engine);
    zn_comm_destroy(job->comm);
    zn_storage_destroy(world.storage);
    zn_device_destroy(world.device);
    zn_device_destroy(world.host);
    zn_engine_plan_fini(&plan);
    return NULL;
}

static char running[200]; /* what is, for the watchdog */

/* A job that waits for ever fails. */
static void bark(int signal)
{
    (void)signal;
    const char *const words[] = {"no end after a minute: ", running, "\n"};
    for (int i = 0; i < 3; i++)
        if (write(STDERR_FILENO, words[i], strlen(words[i])) < 0)
            break;
    _exit(1);
}

static void describe(const struct zn_engine_options *o, int n_ranks, uint64_t lags)
{
    const struct zn_offload *off = &o->offload;
    snprintf(running, sizeof running, "%d ranks, %s, lags %llu: optimizer on tier %d, gradients %d, parameters %d, activations %d",
             n_ranks, zn_dtype_name(o->type), (unsigned long long)lags, off->optimizer, off->gradients, off->parameters,
             off->activations);
}

static void run_ranks(struct job *result, zn_model *model, const struct zn_engine_options *options, int n_ranks, uint64_t lags)
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

static zn_model *new_model(const char *text, int64_t seq_len, zn_json **json)
{
    zn_model *model;
    WORLD_OK(zn_json_load_buffer(text, strlen(text), "config", json));
    WORLD_OK(zn_model_create(*json, seq_len, &model));
    return model;
}

/* The same as on a device whose memory is the host's. Where there are lags, each job has others. */
static void assert_same(zn_model *model, const struct zn_engine_options *plain_options,
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
static int list_tiers(struct zn_engine_options o, struct zn_engine_options *all)
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

/* The asynchronous device tries each combination once, and all with all where the environment has ZINC_TEST_LAGS, a seed. */
static uint64_t seed_of_lags(bool *whole)
{
    const char *seed = getenv("ZINC_TEST_LAGS");
    *whole = seed != NULL;
    return seed ? strtoull(seed, NULL, 10) : 1;
}

/* Keeps of n placements those that fall to one of the shares. */
static int keep_share(struct zn_engine_options *all, int n, int share, int n_shares)
{
    int kept = 0;
    for (int i = share; i < n; i += n_shares)
        all[kept++] = all[i];
    return kept;
}

/* Every placement, with each number of ranks and precision or only with one. */
static void check_every_tier(bool once, uint64_t lags)
{
    zn_json *json;
    zn_model *model = new_model(config, TIME, &json);
    const zn_dtype types[] = {ZN_BF16, ZN_F32};
    for (int n_ranks = 1; n_ranks <= MAX_RANKS; n_ranks++) {
        for (int t = 0; t < 2; t++) {
            struct zn_engine_options o = options_of(3, 2), all[MAX_TIERS];
            o.type = types[t];
            int n = list_tiers(o, all);
            if (IS_SANITIZED)
                n = keep_share(all, n, lags ? 0 : 1, 2);
            if (once)
                n = keep_share(all, n, 2 * (n_ranks - 1) + t, 2 * MAX_RANKS);
            assert_same(model, &o, all, n, n_ranks, lags);
        }
    }
    zn_model_destroy(model);
    zn_json_destroy(json);
}

static void every_tier_gives_the_same_bits(void **state)
{
    (void)state;
    check_every_tier(IS_SANITIZED, 0);
}

static void every_tier_gives_the_same_bits_on_an_asynchronous_device(void **state)
{
    (void)state;
    bool whole;
    uint64_t lags = seed_of_lags(&whole);
    check_every_tier(!whole, lags);
}

enum { N_WAYS = 8, N_FROZEN_WAYS = 8 };

/* Every third parameter, so that operators read trained and frozen ones together; and all of the first segments. */
static const bool *frozen_params(bool is_mixed)
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
static struct zn_engine_options options_of_way(int at)
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

/* Four placements of each way, with each number of ranks, or two of them with one. */
static void check_other_ways(bool once, uint64_t lags)
{
    zn_json *json;
    zn_model *model = new_model(config, TIME, &json);
    const struct zn_offload tiers[] = {
        {ZN_TIER_DEVICE, ZN_TIER_HOST, ZN_TIER_HOST, ZN_TIER_HOST},
        {ZN_TIER_DEVICE, ZN_TIER_NVME, ZN_TIER_NVME, ZN_TIER_DEVICE},
        {ZN_TIER_HOST, ZN_TIER_HOST, ZN_TIER_NVME, ZN_TIER_NVME},
        {ZN_TIER_NVME, ZN_TIER_NVME, ZN_TIER_NVME, ZN_TIER_NVME},
    };
    for (int n_ranks = 1; n_ranks <= MAX_RANKS; n_ranks++) {
        for (int way = once ? n_ranks - 1 : 0; way < N_WAYS + N_FROZEN_WAYS; way += once ? MAX_RANKS : 1) {
            struct zn_engine_options o = options_of_way(way), apart[4];
            int n = 0;
            for (int i = once ? way / 2 % 2 : 0; i < 4; i += once ? 2 : 1) {
                apart[n] = o;
                apart[n].is_discrete = true;
                apart[n].offload = tiers[i];
                n += o.stage == 3 || tiers[i].parameters == ZN_TIER_DEVICE;
            }
            assert_same(model, &o, apart, n, n_ranks, lags);
        }
    }
    zn_model_destroy(model);
    zn_json_destroy(json);
}

static void other_ways_give_the_same_bits(void **state)
{
    (void)state;
    check_other_ways(IS_SANITIZED, 0);
}

static void other_ways_give_the_same_bits_on_an_asynchronous_device(void **state)
{
    (void)state;
    bool whole;
    uint64_t lags = seed_of_lags(&whole);
    check_other_ways(!whole, lags);
}

static void what_has_no_path_is_refused_by_name(void **state)
{
    (void)state;
    zn_json *json;
    zn_engine_plan plan;
    zn_model *model = new_model(config, TIME, &json);
    struct zn_engine_options o = options_of(3, 1);
    o.is_discrete = true;
    o.offload.optimizer = ZN_TIER_HOST;
    assert_int_equal(zn_dry_run(model->module, &o, 2, &plan), ZN_ERR_UNSUPPORTED);
    assert_non_null(strstr(zn_error_message(), "gradients go where the optimizer is"));
    o.offload = (struct zn_offload){.parameters = ZN_TIER_HOST};
    assert_int_equal(zn_dry_run(model->module, &o, 2, &plan), ZN_ERR_UNSUPPORTED);
    assert_non_null(strstr(zn_error_message(), "only with the optimizer"));
    o.offload = (struct zn_offload){.optimizer = ZN_TIER_HOST, .gradients = ZN_TIER_HOST};
    o.stage = 1;
    assert_int_equal(zn_dry_run(model->module, &o, 2, &plan), ZN_ERR_UNSUPPORTED);
    assert_non_null(strstr(zn_error_message(), "stages 2 and 3"));
    zn_model_destroy(model);
    zn_json_destroy(json);
}

/* ---- Virtual time ---- */

static const char *const large =
    "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"hidden_size\":1024,\"num_hidden_layers\":8,"
    "\"num_attention_heads\":8,\"num_key_value_heads\":8,\"intermediate_size\":4096,\"vocab_size\":4096,"
    "\"max_position_embeddings\":1024,\"rms_norm_eps\":1e-5,\"hidden_act\":\"silu\",\"tie_word_embeddings\":false}";

static struct zn_engine_options large_options(void)
{
    struct zn_engine_options o = options_of(2, 1);
    o.seq_len = 1024;
    o.prefetch_bytes = 64 << 20;
    o.is_discrete = true;
    o.offload.optimizer = o.offload.gradients = ZN_TIER_HOST;
    return o;
}

static struct world_rates rates_of(int n_ranks, double link, double host)
{
    return (struct world_rates){.device = {.flops = 1e12, .memory_bytes = 1e13, .link_bytes = link},
                                .host = {.flops = 1e12, .memory_bytes = host},
                                .links = {.n_ranks = n_ranks, .ranks_per_node = n_ranks, .node_bytes = 1e15, .network_bytes = 1e15},
                                .read_bytes = 1e15,
                                .write_bytes = 1e15};
}

/* Two bytes a parameter each way, the least that any placement moves; with several ranks each moves its part, the
 * sums over ranks in fp32. */
static void four_bytes_a_parameter_cross_the_link(void **state)
{
    (void)state;
    struct zn_engine_options o = large_options();
    for (int n_ranks = 1; n_ranks <= 4; n_ranks *= 2) {
        struct world_rates rates = rates_of(n_ranks, 1e10, 1e11);
        struct world_result r = simulate(large, &o, &rates);
        uint64_t own = r.own_elements;
        assert_int_equal(r.bytes_in, 2 * 2 * own); /* two steps */
        assert_int_equal(r.bytes_out, 2 * (n_ranks == 1 ? 2u : 4u) * own);
    }
}

/* Seconds of a step with links of this speed beyond those of one that nothing holds up. */
static double exposed(const struct zn_engine_options *o, const struct world_rates *rates)
{
    struct world_rates endless = rates_of(rates->links.n_ranks, 1e15, 1e15);
    return simulate(large, o, rates).second - simulate(large, o, &endless).second;
}

/* Gradients leave while backward computes; updated parameters return while the next forward does. */
static void both_ways_hide_behind_computing(void **state)
{
    (void)state;
    struct zn_engine_options o = large_options();
    struct world_rates rates = rates_of(1, 2e9, 1e15);
    double one_way = 2.0 * (double)simulate(large, &o, &rates).own_elements / 2e9;
    double shown = exposed(&o, &rates);
    assert_true(shown > 0 && shown < 0.35 * one_way); /* a unit at either end */
    /* A host as slow as the link: its update is one pipeline with the way back. */
    rates.host.memory_bytes = 30.0 * (double)simulate(large, &o, &rates).own_elements / one_way;
    shown = exposed(&o, &rates);
    assert_true(shown < 0.7 * one_way);
}

/* The host takes as long as the device: a delayed update costs no more than the way back. */
static void a_delayed_update_goes_on_beside_the_step(void **state)
{
    (void)state;
    struct zn_engine_options o = large_options();
    struct world_rates rates = rates_of(1, 1e12, 1e15);
    struct world_result r = simulate(large, &o, &rates);
    rates.host.memory_bytes = 40.0 * (double)r.own_elements / (0.8 * r.second); /* of update and gradients */
    double at_once = simulate(large, &o, &rates).second;
    o.delay_after = 0;
    double delayed = simulate(large, &o, &rates).second;
    assert_true(at_once > 1.3 * r.second);
    assert_true(delayed < 1.05 * r.second);
}

/* Parameters and activation checkpoints that live on the host, or on drives behind it, come ahead of their use. */
static void what_comes_from_the_host_comes_in_time(void **state)
{
    (void)state;
    for (int tier = ZN_TIER_HOST; tier <= ZN_TIER_NVME; tier++) {
        for (int n_ranks = 1; n_ranks <= 4; n_ranks *= 4) {
            struct zn_engine_options o = large_options();
            o.stage = 3;
            o.offload.parameters = o.offload.activations = (zn_tier)tier;
            struct world_rates rates = rates_of(n_ranks, 4e9, 1e15);
            struct world_result r = simulate(large, &o, &rates);
            double shown = exposed(&o, &rates), copied = (double)(r.bytes_in + r.bytes_out) / 2 / 4e9;
            assert_true(shown < 0.25 * copied);
            /* Every unit comes for forward and for backward; a checkpoint leaves and comes back once. */
            assert_true(r.bytes_in > 4 * r.own_elements);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_tier_gives_the_same_bits),
        cmocka_unit_test(other_ways_give_the_same_bits),
        cmocka_unit_test(every_tier_gives_the_same_bits_on_an_asynchronous_device),
        cmocka_unit_test(other_ways_give_the_same_bits_on_an_asynchronous_device),
        cmocka_unit_test(what_has_no_path_is_refused_by_name),
        cmocka_unit_test(four_bytes_a_parameter_cross_the_link),
        cmocka_unit_test(both_ways_hide_behind_computing),
        cmocka_unit_test(a_delayed_update_goes_on_beside_the_step),
        cmocka_unit_test(what_comes_from_the_host_comes_in_time),
    };
    sigaction(SIGALRM, &(struct sigaction){.sa_handler = bark}, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
