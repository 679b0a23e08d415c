/* A device with memory of its own: ZeRO-Offload's path. A device is the processor behind real copies, so that bits
 * can be compared; a simulated one shows bytes and time. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "zero/world.h"

static const char *const config =
    "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"hidden_size\":32,\"num_hidden_layers\":3,"
    "\"num_attention_heads\":2,\"num_key_value_heads\":1,\"intermediate_size\":96,\"vocab_size\":300,"
    "\"max_position_embeddings\":32,\"rms_norm_eps\":1e-5,\"hidden_act\":\"silu\",\"tie_word_embeddings\":true}";

enum { TIME = 16, STEPS = 3, MAX_RANKS = 3 };

/* ---- The processor behind copies ---- */

struct apart {
    zn_device device;
    zn_device *inner;
    zn_stream *copies;
};

struct copy {
    void *to;
    const void *from;
    size_t n_bytes;
};

static zn_status run_copy(void *arg)
{
    struct copy *c = arg;
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
    zn_stream_destroy(((struct apart *)device)->copies);
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

static zn_status apart_copy(zn_device *device, zn_addr to, zn_addr from, size_t n_bytes, zn_event *after, zn_event *done)
{
    struct copy *c = malloc(sizeof *c);
    assert_non_null(c);
    *c = (struct copy){(void *)(uintptr_t)to, (const void *)(uintptr_t)from, n_bytes};
    return zn_stream_submit(((struct apart *)device)->copies,
                            &(struct zn_task){.run = run_copy, .arg = c, .after = {after}, .done = done});
}

static const struct zn_device_ops apart_ops = {"apart",          apart_destroy, apart_alloc,  apart_free, apart_write,
                                               apart_read,       apart_run,     apart_synchronize, apart_record,
                                               apart_wait,       apart_copy,    apart_copy};

static zn_device *new_apart(zn_ledger *ledger, zn_clock *clock)
{
    struct apart *a = calloc(1, sizeof *a);
    assert_non_null(a);
    WORLD_OK(zn_device_create_cpu(ledger, clock, 1, NULL, &a->inner));
    WORLD_OK(zn_stream_create_thread(clock, &a->copies));
    a->device = (zn_device){.ops = &apart_ops, .ledger = ledger, .clock = clock};
    return &a->device;
}

/* ---- Steps ---- */

static struct zn_engine_options options_of(int stage, int64_t accumulate)
{
    return (struct zn_engine_options){.trains = true, .stage = stage, .type = ZN_BF16, .reduce_every = true,
                                      .micro_batch = 1, .time = TIME, .accumulate = accumulate, .recompute = true,
                                      .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.1, .clip = 1,
                                      .delay_after = -1};
}

struct job {
    struct zn_engine_options options;
    zn_model *model;
    zn_comm *comm;
    float *weights; /* masters of all parameters, by rank 0 */
    double norms[STEPS];
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
        const int32_t *batches[] = {ids[0], ids[1]};
        for (int i = 0; i < 2 * TIME; i++)
            ids[i / TIME][i % TIME] = (i * 37 + s * 11 + zn_comm_rank(job->comm) * 101) % 300;
        struct zn_verdict verdict;
        WORLD_OK(zn_engine_step(engine,
                                &(struct zn_step){.ids = batches, .targets = batches, .scale = 1.0f / TIME, .lr = 1e-3,
                                                  .loss_scale = 1},
                                &verdict));
        job->norms[s] = verdict.norm;
    }
    job->bytes_out = world.device->bytes_out;
    job->bytes_in = world.device->bytes_in;
    struct taking taking = {job->model, job->weights};
    WORLD_OK(zn_engine_stream_state(engine, ZN_STATE_MASTER, take, &taking));
    zn_engine_destroy(engine);
    zn_comm_destroy(job->comm);
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

static void the_host_updates_to_the_same_bits(void **state)
{
    (void)state;
    zn_json *json;
    zn_model *model = new_model(config, TIME, &json);
    for (int n_ranks = 1; n_ranks <= MAX_RANKS; n_ranks++) {
        for (int stage = 2; stage <= 3; stage++) {
            for (int64_t accumulate = 1; accumulate <= 2; accumulate++) {
                struct job plain, apart;
                struct zn_engine_options o = options_of(stage, accumulate);
                run_ranks(&plain, model, &o, n_ranks);
                o.is_apart = true;
                o.offload.optimizer = o.offload.gradients = ZN_TIER_HOST;
                run_ranks(&apart, model, &o, n_ranks);
                assert_memory_equal(plain.norms, apart.norms, sizeof plain.norms);
                assert_memory_equal(plain.weights, apart.weights, (size_t)zn_model_n_elements(model) * sizeof(float));
                assert_true(apart.bytes_out > 0 && apart.bytes_in > 0);
                free(plain.weights);
                free(apart.weights);
            }
        }
    }
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

/* Gradients leave while backward computes; the update and the way back are one pipeline. */
static void the_way_out_hides_behind_backward(void **state)
{
    (void)state;
    struct zn_engine_options o = large_options();
    struct world_rates rates = rates_of(1, 1e15, 1e15);
    struct world_result endless = simulate(large, &o, &rates);
    rates.device.link_bytes = 2e9;
    struct world_result r = simulate(large, &o, &rates);
    double one_way = 2.0 * (double)r.own_elements / 2e9;
    assert_true(one_way > 0.1 * endless.second);
    /* The way back shows, and of the way out no more than the last units. */
    double exposed = r.second - endless.second;
    assert_true(exposed > 0.95 * one_way && exposed < 1.3 * one_way);
    /* A host as slow as the link computes beside the way back. */
    rates.host.memory_bytes = 30.0 * (double)r.own_elements / one_way;
    double both = simulate(large, &o, &rates).second - endless.second;
    assert_true(both < 1.6 * one_way);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_host_updates_to_the_same_bits),
        cmocka_unit_test(four_bytes_a_parameter_cross_the_link),
        cmocka_unit_test(the_way_out_hides_behind_backward),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
