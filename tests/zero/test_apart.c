/* A device with memory of its own: ZeRO-Offload's path. A device is the processor behind real copies, so that bits
 * can be compared; a simulated one shows bytes and time. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "sanitized.h"
#include "zero/world.h"

static const char *const config =
    "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"hidden_size\":32,\"num_hidden_layers\":3,"
    "\"num_attention_heads\":2,\"num_key_value_heads\":1,\"intermediate_size\":96,\"vocab_size\":300,"
    "\"max_position_embeddings\":32,\"rms_norm_eps\":1e-5,\"hidden_act\":\"silu\",\"tie_word_embeddings\":true}";

enum { TIME = 16, STEPS = 3, MAX_RANKS = 3 };

static const char *const swap_path = ".";

/* ---- The processor behind copies ---- */

struct apart {
    zn_device device;
    zn_device *inner;
    zn_stream *out, *in;
};

struct copy {
    void *to;
    const void *from;
    size_t n_bytes;
};

static zn_status run_copy(void *arg)
{
    struct copy *c = arg;
    if (c->n_bytes)
        memcpy(c->to, c->from, c->n_bytes);
    free(c);
    return ZN_OK;
}

static zn_device *inner_of(zn_device *device)
{
    return ((struct apart *)device)->inner;
}

static void apart_destroy(zn_device *device)
{
    zn_stream_destroy(((struct apart *)device)->out);
    zn_stream_destroy(((struct apart *)device)->in);
    zn_device_destroy(inner_of(device));
    free(device);
}

static zn_status apart_alloc(zn_device *device, size_t n_bytes, zn_addr *address)
{
    return inner_of(device)->ops->alloc(inner_of(device), n_bytes, address);
}

static void apart_free(zn_device *device, zn_addr address, size_t n_bytes)
{
    inner_of(device)->ops->free(inner_of(device), address, n_bytes);
}

static zn_status apart_write(zn_device *device, zn_addr dst, const void *src, size_t n_bytes)
{
    return zn_device_write(inner_of(device), dst, src, n_bytes);
}

static zn_status apart_read(zn_device *device, void *dst, zn_addr src, size_t n_bytes)
{
    return zn_device_read(inner_of(device), dst, src, n_bytes);
}

static zn_status apart_run(zn_device *device, zn_kernel kernel, const void *args)
{
    return inner_of(device)->ops->run(inner_of(device), kernel, args);
}

static zn_status apart_synchronize(zn_device *device)
{
    return inner_of(device)->ops->synchronize(inner_of(device));
}

static zn_status apart_record(zn_device *device, zn_event *done)
{
    return inner_of(device)->ops->record(inner_of(device), done);
}

static zn_status apart_wait(zn_device *device, zn_event *event)
{
    return inner_of(device)->ops->wait(inner_of(device), event);
}

static zn_status copy(zn_stream *stream, const struct zn_transfer *t)
{
    struct copy *c = malloc(sizeof *c);
    assert_non_null(c);
    *c = (struct copy){(void *)(uintptr_t)t->to, (const void *)(uintptr_t)t->from, t->n_bytes};
    return zn_stream_submit(
        stream, &(struct zn_task){.run = run_copy, .arg = c, .after = {t->after[0], t->after[1]}, .done = t->done});
}

static zn_status apart_copy_out(zn_device *device, const struct zn_transfer *t)
{
    return copy(((struct apart *)device)->out, t);
}

static zn_status apart_copy_in(zn_device *device, const struct zn_transfer *t)
{
    return copy(((struct apart *)device)->in, t);
}

static const struct zn_device_ops apart_ops = {"apart",          apart_destroy, apart_alloc,  apart_free, apart_write,
                                               apart_read,       apart_run,     apart_synchronize, apart_record,
                                               apart_wait,       apart_copy_out, apart_copy_in};

static zn_device *new_apart(zn_ledger *ledger, zn_clock *clock)
{
    struct apart *a = calloc(1, sizeof *a);
    assert_non_null(a);
    WORLD_OK(zn_device_create_cpu(ledger, clock, 1, NULL, &a->inner));
    WORLD_OK(zn_stream_create_thread(clock, &a->out));
    WORLD_OK(zn_stream_create_thread(clock, &a->in));
    a->device = (zn_device){.ops = &apart_ops, .ledger = ledger, .clock = clock};
    return &a->device;
}

/* ---- Steps ---- */

static struct zn_engine_options options_of(int stage, int64_t accumulate)
{
    return (struct zn_engine_options){.trains = true, .stage = stage, .type = ZN_BF16, .reduce_every = true,
                                      .micro_batch = 1, .time = TIME, .accumulate = accumulate, .recompute = true,
                                      .prefetch_bytes = 100000,
                                      .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.1, .clip = 1,
                                      .delay_after = -1};
}

struct job {
    struct zn_engine_options options;
    zn_model *model;
    zn_comm *comm;
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
    if (job->options.is_apart)
        world.device = new_apart(&ledger, &clock);
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

static void run_ranks(struct job *result, zn_model *model, const struct zn_engine_options *options, int n_ranks)
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
    *result = jobs[0];
}

static zn_model *new_model(const char *text, int64_t time, zn_json **json)
{
    zn_model *model;
    WORLD_OK(zn_json_load_buffer(text, strlen(text), "config", json));
    WORLD_OK(zn_model_create(*json, time, &model));
    return model;
}

/* The same as on a device whose memory is the host's. */
static void assert_same(zn_model *model, const struct zn_engine_options *plain_options,
                        const struct zn_engine_options *options, int n, int n_ranks)
{
    struct job plain;
    run_ranks(&plain, model, plain_options, n_ranks);
    for (int i = 0; i < n; i++) {
        struct job apart;
        run_ranks(&apart, model, &options[i], n_ranks);
        const struct zn_offload *off = &options[i].offload;
        if (memcmp(plain.losses, apart.losses, sizeof plain.losses) || memcmp(plain.norms, apart.norms, sizeof plain.norms) ||
            memcmp(plain.weights, apart.weights, (size_t)zn_model_n_elements(model) * sizeof(float)))
            fail_msg("%d ranks, %s: optimizer on tier %d, gradients %d, parameters %d, activations %d differ", n_ranks,
                     zn_dtype_name(options[i].type), off->optimizer, off->gradients, off->parameters, off->activations);
        assert_true(off->optimizer == ZN_TIER_DEVICE || (apart.bytes_out > 0 && apart.bytes_in > 0));
        free(apart.weights);
    }
    free(plain.weights);
}

enum { MAX_TIERS = 40 };

/* Every placement that a device apart has a path for. */
static int list_tiers(struct zn_engine_options o, struct zn_engine_options *all)
{
    int n = 0;
    o.is_apart = true;
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

static void every_tier_gives_the_same_bits(void **state)
{
    (void)state;
    zn_json *json;
    zn_model *model = new_model(config, TIME, &json);
    const zn_dtype types[] = {ZN_BF16, ZN_F32};
    for (int n_ranks = 1; n_ranks <= MAX_RANKS; n_ranks++) {
        for (int t = 0; t < 2; t++) {
            struct zn_engine_options o = options_of(3, 2), all[MAX_TIERS];
            o.type = types[t];
            int n = list_tiers(o, all), first = 0;
#if IS_SANITIZED /* every second placement once, with one number of ranks and one precision */
            for (int i = 0; i < n / 2; i++)
                all[i] = all[2 * i + 1];
            n /= 2;
            first = (2 * (n_ranks - 1) + t) * n / (2 * MAX_RANKS);
            n = (2 * (n_ranks - 1) + t + 1) * n / (2 * MAX_RANKS) - first;
#endif
            assert_same(model, &o, all + first, n, n_ranks);
        }
    }
    zn_model_destroy(model);
    zn_json_destroy(json);
}

/* Stage 2, one micro-batch, tiles, the vertical schedule; updates in backward; delayed updates. */
static void other_ways_give_the_same_bits(void **state)
{
    (void)state;
    zn_json *json;
    zn_model *model = new_model(config, TIME, &json);
    const struct zn_offload tiers[] = {
        {ZN_TIER_DEVICE, ZN_TIER_HOST, ZN_TIER_HOST, ZN_TIER_HOST},
        {ZN_TIER_DEVICE, ZN_TIER_NVME, ZN_TIER_NVME, ZN_TIER_DEVICE},
        {ZN_TIER_HOST, ZN_TIER_HOST, ZN_TIER_NVME, ZN_TIER_NVME},
        {ZN_TIER_NVME, ZN_TIER_NVME, ZN_TIER_NVME, ZN_TIER_NVME},
    };
    for (int n_ranks = 1; n_ranks <= MAX_RANKS; n_ranks++) {
        for (int way = IS_SANITIZED ? n_ranks - 1 : 0; way < 8; way += IS_SANITIZED ? MAX_RANKS : 1) {
            struct zn_engine_options o = options_of(way == 0 ? 2 : 3, way % 2 ? 1 : 2), apart[4];
            o.type = way == 5 ? ZN_F32 : ZN_BF16;
            o.tile_bytes = way == 1 || way == 2 ? 4096 : 0;
            o.vertical = way == 2;
            o.reduce_every = way != 2;
            o.in_backward = way == 3 || way == 4;
            o.clip = o.in_backward ? 0 : 1;
            o.delay_after = way >= 5 && way <= 6 ? 1 : -1;
            o.persist_bytes = way == 7 ? 40000 : 0;
            int n = 0;
            for (int i = IS_SANITIZED ? way / 2 % 2 : 0; i < 4; i += IS_SANITIZED ? 2 : 1) {
                apart[n] = o;
                apart[n].is_apart = true;
                apart[n].offload = tiers[i];
                n += o.stage == 3 || tiers[i].parameters == ZN_TIER_DEVICE;
            }
            assert_same(model, &o, apart, n, n_ranks);
        }
    }
    zn_model_destroy(model);
    zn_json_destroy(json);
}

static void what_has_no_path_is_refused_by_name(void **state)
{
    (void)state;
    zn_json *json;
    zn_engine_plan plan;
    zn_model *model = new_model(config, TIME, &json);
    struct zn_engine_options o = options_of(3, 1);
    o.is_apart = true;
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
    o.time = 1024;
    o.prefetch_bytes = 64 << 20;
    o.is_apart = true;
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
        cmocka_unit_test(what_has_no_path_is_refused_by_name),
        cmocka_unit_test(four_bytes_a_parameter_cross_the_link),
        cmocka_unit_test(both_ways_hide_behind_computing),
        cmocka_unit_test(a_delayed_update_goes_on_beside_the_step),
        cmocka_unit_test(what_comes_from_the_host_comes_in_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
