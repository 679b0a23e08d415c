/* What offload costs on this machine: GPT-2 124M in bf16 with its states in memory and on NVMe, each beside its
 * limit. Prints one JSON value.
 *
 *     bench_offload [FOLDER] [ROUNDS] [TOKENS]
 *
 * update: one optimizer pass of the optimizer pipeline. The limit is the longer of its transfers alone (the same chunks read
 * and written without an update between) and of the same update in memory.
 * step: a whole step, all states on NVMe, with updates in backward and with clipping. The limit is the longer of the
 * same step in memory and its transfers at the bandwidth of the first measurement.
 * All are measured in turn, in every round; the medians are printed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/machine.h"
#include "models/model.h"
#include "optim/registry.h"
#include "plan/dry_run.h"
#include "zero/engine_private.h"

static const char *const config =
    "{\"model_type\":\"gpt2\",\"vocab_size\":50257,\"n_positions\":1024,\"n_embd\":768,\"n_layer\":12,\"n_head\":12,"
    "\"activation_function\":\"gelu_new\"}";

enum { MAX_ROUNDS = 51 };

/* One engine with its world. */
struct bench {
    const char *name;
    struct zn_engine_options options;
    zn_engine_plan plan;
    zn_ledger ledger;
    struct zn_world world;
    zn_engine *engine;
    double seconds[MAX_ROUNDS];
    uint64_t moved; /* bytes in one measurement */
};

static zn_clock real_clock;
static zn_model *model;
static int64_t n_tokens;
static int n_threads;

static void must(zn_status status)
{
    if (status == ZN_OK)
        return;
    fprintf(stderr, "bench_offload: %s\n", zn_error_message());
    exit(1);
}

static struct zn_engine_options options_of(bool nvme, bool in_backward)
{
    zn_tier tier = nvme ? ZN_TIER_NVME : ZN_TIER_DEVICE;
    return (struct zn_engine_options){.trains = true, .stage = 3, .type = ZN_BF16, .micro_batch = 1, .seq_len = n_tokens,
                                      .accumulate = 1, .recompute = true, .reduce_every = true,
                                      .prefetch_bytes = 64 << 20, .reuse_bytes = 64 << 20,
                                      .optimizer = &zn_optimizer_adamw,
                                      .hyperparameters = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.1},
                                      .clip = in_backward ? 0 : 1,
                                      .in_backward = in_backward, .delay_after = -1,
                                      .offload = {tier, tier, tier, tier}};
}

static void open_bench(struct bench *b, const char *folder)
{
    const char *paths[] = {folder};
    must(zn_dry_run(model->module, &b->options, 1, &b->plan));
    zn_ledger_init(&b->ledger);
    must(zn_device_create_cpu(&b->ledger, &real_clock, n_threads, NULL, &b->world.device));
    must(zn_device_create_cpu(&b->ledger, &real_clock, 1, NULL, &b->world.host));
    must(zn_comm_create_self(&real_clock, &b->world.comm));
    if (b->plan.swap_bytes)
        must(zn_storage_create_files(
            &(struct zn_storage_options){.paths = paths, .n_paths = 1, .n_bytes = b->plan.swap_bytes}, &b->world.storage));
    must(zn_zero_create(&b->world, model->module, &b->options, &b->plan, &b->engine));
    for (int i = 0; i < model->module->n_params; i++)
        must(zn_engine_init_param(b->engine, &model->module->params[i], 1));
    must(zn_engine_publish(b->engine));
}

static uint64_t moved(const struct bench *b)
{
    return b->world.storage ? zn_storage_bytes_read(b->world.storage) + zn_storage_bytes_written(b->world.storage) : 0;
}

static void run_step(struct bench *b)
{
    int32_t *tokens = calloc((size_t)n_tokens, sizeof *tokens);
    for (int64_t i = 0; i < n_tokens; i++)
        tokens[i] = (int32_t)(i * 7919 % 50257);
    const struct zn_micro_batch batch = {.ids = tokens, .targets = tokens};
    struct zn_verdict verdict;
    must(zn_zero_step(b->engine,
                        &(struct zn_step){.batches = &batch, .scale = 1.0f / (float)n_tokens, .lr = 1e-5,
                                          .loss_scale = 1},
                        &verdict));
    free(tokens);
}

/* A step like all in a row: with the update of the one before, and without its own where that goes on beside the next. */
static void measure_step(struct bench *b, int round)
{
    run_step(b);
    struct zn_moved before = zn_engine_moved(b->engine);
    double start = zn_clock_now(&real_clock);
    run_step(b);
    if (round >= 0)
        b->seconds[round] = zn_clock_now(&real_clock) - start;
    struct zn_moved after = zn_engine_moved(b->engine);
    b->moved = after.read + after.written - before.read - before.written;
    must(updates_settle(b->engine));
    must(pipeline_drain(b->engine));
}

static void run_update(struct bench *b)
{
    zn_engine *e = b->engine;
    e->updates.n_made++;
    struct optimizer_pass s = optimizer_pass_over_all(e, &(struct update){.device = e->device, .lr = 1e-5, .grad_scale = 1, .publishes = true});
    must(optimizer_pass_to(e, &s, s.n));
    must(pipeline_drain(e));
}

/* The transfers of an update and nothing else: the chunks' reads and writes, as many under way as there. */
static void run_transfers(struct bench *b)
{
    zn_engine *e = b->engine;
    zn_storage *s = b->world.storage;
    const struct zn_buffer *slots = &e->buffers[ZN_BUFFER_PIPELINE];
    size_t size = (size_t)ZN_CHUNK_ELEMENTS * 12, grad = (size_t)ZN_CHUNK_ELEMENTS * 4, param = (size_t)ZN_CHUNK_ELEMENTS * 2;
    zn_event done[ZN_PIPELINE_BUFFERS][4];
    bool pending[ZN_PIPELINE_BUFFERS] = {0};
    for (int i = 0; i < ZN_PIPELINE_BUFFERS; i++)
        for (int k = 0; k < 4; k++)
            zn_event_init(&done[i][k]);
    int n = (int)(e->buffers[ZN_BUFFER_SWAPPED_STATES].n_bytes / size);
    for (int c = 0; c <= n + 1; c++) {
        int slot = c % ZN_PIPELINE_BUFFERS, before = (c + ZN_PIPELINE_BUFFERS - 2) % ZN_PIPELINE_BUFFERS;
        uint64_t memory = e->pipeline.slots[slot].states - slots->base;
        for (int k = 0; pending[slot] && k < 4; k++)
            must(zn_event_wait(&done[slot][k], &real_clock));
        if (c < n) {
            for (int k = 0; k < 4; k++)
                zn_event_reset(&done[slot][k]);
            must(zn_storage_read(s, e->buffers[ZN_BUFFER_SWAPPED_STATES].swap_offset + (uint64_t)c * size, zn_buffer_extent(slots, memory), size, NULL, &done[slot][0]));
            must(zn_storage_read(s, e->buffers[ZN_BUFFER_GRADIENTS].swap_offset + (uint64_t)c * grad, zn_buffer_extent(slots, memory + size), grad, NULL, &done[slot][1]));
            pending[slot] = true;
        }
        if (c < 2 || c - 2 >= n)
            continue;
        uint64_t old = e->pipeline.slots[before].states - slots->base;
        must(zn_event_wait(&done[before][0], &real_clock));
        must(zn_event_wait(&done[before][1], &real_clock));
        must(zn_storage_write(s, e->buffers[ZN_BUFFER_SWAPPED_STATES].swap_offset + (uint64_t)(c - 2) * size, zn_buffer_extent(slots, old), size, NULL, &done[before][2]));
        must(zn_storage_write(s, e->buffers[ZN_BUFFER_PARAMETERS].swap_offset + (uint64_t)(c - 2) * param, zn_buffer_extent(slots, old + size + grad), param, NULL,
                              &done[before][3]));
    }
    for (int i = 0; i < ZN_PIPELINE_BUFFERS; i++) {
        for (int k = 0; pending[i] && k < 4; k++)
            must(zn_event_wait(&done[i][k], &real_clock));
        for (int k = 0; k < 4; k++)
            zn_event_fini(&done[i][k]);
    }
    for (int i = 0; i < ZN_PIPELINE_BUFFERS; i++)
        e->pipeline.slots[i].chunk = -1;
}

static void measure(struct bench *b, int round, void (*run)(struct bench *b))
{
    uint64_t before = moved(b);
    double start = zn_clock_now(&real_clock);
    run(b);
    if (round >= 0)
        b->seconds[round] = zn_clock_now(&real_clock) - start;
    b->moved = moved(b) - before;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(struct bench *b, int n)
{
    qsort(b->seconds, (size_t)n, sizeof(double), compare);
    return b->seconds[n / 2];
}

static double longer(double a, double b)
{
    return a > b ? a : b;
}

int main(int argc, char **argv)
{
    const char *folder = argc > 1 ? argv[1] : ".";
    int rounds = argc > 2 ? atoi(argv[2]) : 5;
    n_tokens = argc > 3 ? atoll(argv[3]) : 512;
    if (rounds < 1 || rounds > MAX_ROUNDS || n_tokens < 1 || n_tokens > 1024) {
        fprintf(stderr, "usage: bench_offload [FOLDER] [ROUNDS, 1 … %d] [TOKENS, 1 … 1024]\n", MAX_ROUNDS);
        return 2;
    }
    struct zn_machine machine;
    zn_json *json;
    zn_clock_init_real(&real_clock);
    must(zn_machine_read("", &machine));
    n_threads = machine.n_cores;
    must(zn_json_load_buffer(config, strlen(config), "config", &json));
    must(zn_model_create(json, n_tokens, &model));
    struct bench memory = {.options = options_of(false, false)}, nvme = {.options = options_of(true, false)};
    struct bench memory_in = {.options = options_of(false, true)}, nvme_in = {.options = options_of(true, true)};
    struct bench *all[] = {&memory, &nvme, &memory_in, &nvme_in};
    for (int i = 0; i < 4; i++)
        open_bench(all[i], folder);
    struct bench update_memory = memory, update_nvme = nvme, transfers = nvme; /* the same engines */
    for (int round = -1; round < rounds; round++) {
        for (int i = 0; i < 4; i++)
            measure_step(all[i], round);
        measure(&update_memory, round, run_update);
        measure(&update_nvme, round, run_update);
        measure(&transfers, round, run_transfers);
    }
    double rate = (double)transfers.moved / median(&transfers, rounds);
    double update_limit = longer((double)update_nvme.moved / rate, median(&update_memory, rounds));
    double step_limit = longer(median(&memory, rounds), (double)nvme.moved / rate);
    double in_limit = longer(median(&memory_in, rounds), (double)nvme_in.moved / rate);
    printf("{\"threads\":%d,\"tokens\":%lld,\"rounds\":%d,\"bytes_per_second\":%.4g", n_threads, (long long)n_tokens, rounds, rate);
    printf(",\"update\":{\"seconds\":%.3f,\"in_memory\":%.3f,\"transfers\":%.3f,\"over_limit\":%.3f}",
           median(&update_nvme, rounds), median(&update_memory, rounds), (double)update_nvme.moved / rate,
           median(&update_nvme, rounds) / update_limit);
    printf(",\"step_in_backward\":{\"seconds\":%.3f,\"in_memory\":%.3f,\"transfers\":%.3f,\"over_limit\":%.3f}",
           median(&nvme_in, rounds), median(&memory_in, rounds), (double)nvme_in.moved / rate,
           median(&nvme_in, rounds) / in_limit);
    printf(",\"step_clipped\":{\"seconds\":%.3f,\"in_memory\":%.3f,\"transfers\":%.3f,\"over_limit\":%.3f}}\n",
           median(&nvme, rounds), median(&memory, rounds), (double)nvme.moved / rate, median(&nvme, rounds) / step_limit);
    return 0;
}
