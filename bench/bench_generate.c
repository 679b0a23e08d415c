/* Generation against the memory bandwidth: seconds for each token beside the time that reading the
 * weights and the cache once takes, with the read bandwidth measured in the same run.
 *
 *   bench_generate [FOLDER]     a hub folder; without it the shape of SmolLM2-135M with random weights
 *
 * One JSON object a line: bf16 and fp32 weights, on all cores. The speed does not depend on values. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/machine.h"
#include "models/model.h"
#include "plan/dry_run.h"

enum { PROMPT = 32, TOKENS = 64, READ_MIB = 512, ROUNDS = 5 };

static const char shape[] =
    "{\"model_type\": \"llama\", \"hidden_size\": 576, \"intermediate_size\": 1536, \"num_hidden_layers\": 30,"
    "\"num_attention_heads\": 9, \"num_key_value_heads\": 3, \"vocab_size\": 49152, \"tie_word_embeddings\": true,"
    "\"max_position_embeddings\": 8192, \"rms_norm_eps\": 1e-5, \"rope_theta\": 100000}";

static void check(zn_status status)
{
    if (status == ZN_OK)
        return;
    fprintf(stderr, "bench_generate: %s\n", zn_error_message());
    exit(1);
}

/* Adds up all words of a range, from four places at once: that is how memory is fastest. */
static uint64_t read_words(const uint64_t *words, size_t n)
{
    typedef uint64_t two __attribute__((vector_size(16)));
    enum { STREAMS = 4, LINE = 8 };
    two sum[STREAMS][LINE / 2] = {0};
    size_t part = n / STREAMS / LINE * LINE;
    for (size_t i = 0; i < part; i += LINE)
        for (size_t s = 0; s < STREAMS; s++)
            for (size_t j = 0; j < LINE / 2; j++)
                sum[s][j] += *(const two *)(const void *)(words + s * part + i + 2 * j);
    uint64_t total = 0;
    for (size_t s = 0; s < STREAMS; s++)
        for (size_t j = 0; j < LINE / 2; j++)
            total += sum[s][j][0] + sum[s][j][1];
    return total;
}

/* The best of several rounds, bytes a second. */
static double read_bandwidth(const zn_clock *clock, const uint64_t *words, int threads)
{
    size_t n = (size_t)READ_MIB * 1024 * 1024 / sizeof *words, part = n / (size_t)threads / 32 * 32;
    double best = 0;
    volatile uint64_t sink = 0;
    for (int round = 0; round < ROUNDS; round++) {
        double start = zn_clock_now(clock);
#pragma omp parallel num_threads(threads)
        {
            uint64_t sum = read_words(words + part * (size_t)omp_get_thread_num(), part);
#pragma omp atomic
            sink += sum;
        }
        double rate = (double)(part * (size_t)threads * sizeof *words) / (zn_clock_now(clock) - start);
        best = rate > best ? rate : best;
    }
    return best;
}

/* Bytes of parameters that a token's pass reads: of the embedding's tables only rows, unless the
 * first is the head's weight too. */
static double weight_bytes(const zn_model *model, zn_dtype type)
{
    int64_t n = 0;
    for (int i = 0; i < model->module->n_params; i++) {
        const zn_param *p = &model->module->params[i];
        if (p->segment > 0 || (i == 0 && model->tied))
            n += p->n_elements;
    }
    return (double)n * (double)zn_dtype_bytes(type);
}

struct bench {
    zn_clock clock;
    zn_ledger ledger;
    struct zn_machine machine;
    zn_model *model;
    zn_device *device;
    zn_comm *comm;
    uint64_t *words; /* READ_MIB of them */
};

/* Seconds of the fastest token of several: others lose time to what else the machine does. */
static double time_tokens(struct bench *b, zn_engine *e)
{
    int32_t ids[PROMPT] = {0};
    double best = 1e9;
    check(zn_engine_extend(e, ids, PROMPT, NULL));
    float *logits = malloc((size_t)b->model->module->vocabulary * sizeof *logits);
    if (!logits)
        exit(1);
    for (int i = 0; i < TOKENS; i++) {
        double start = zn_clock_now(&b->clock);
        check(zn_engine_extend(e, ids, 1, logits));
        double seconds = zn_clock_now(&b->clock) - start;
        best = seconds < best ? seconds : best;
    }
    free(logits);
    return best;
}

static void run(struct bench *b, zn_dtype type)
{
    const struct zn_engine_options options = {.type = type, .micro_batch = 1, .accumulate = 1, .seq_len = PROMPT,
                                              .extends = PROMPT + TOKENS, .delay_after = -1};
    const struct zn_world world = {.device = b->device, .comm = b->comm};
    zn_engine_plan plan;
    zn_engine *e;
    check(zn_dry_run(b->model->module, &options, 1, &plan));
    check(zn_zero_create(&world, b->model->module, &options, &plan, &e));
    for (int i = 0; i < b->model->module->n_params; i++) /* memory that is never written would not be read */
        check(zn_engine_init_param(e, &b->model->module->params[i], 1));
    check(zn_engine_publish(e));
    double bandwidth = read_bandwidth(&b->clock, b->words, b->machine.n_cores);
    double seconds = time_tokens(b, e);
    double again = read_bandwidth(&b->clock, b->words, b->machine.n_cores);
    bandwidth = again > bandwidth ? again : bandwidth;
    double cache = (double)plan.trace.cache_bytes * (PROMPT + TOKENS / 2.0) / (PROMPT + TOKENS);
    double n_bytes = weight_bytes(b->model, type) + cache;
    printf("{\"benchmark\":\"generate\",\"cpu\":\"%s\",\"cores\":%d,\"weights\":\"%s\",\"parameters\":%lld,"
           "\"bytes_per_token\":%.0f,\"seconds_per_token\":%.6f,\"tokens_per_second\":%.2f,"
           "\"read_bytes_per_second\":%.4g,\"bound_tokens_per_second\":%.2f,\"share_of_bound\":%.3f}\n",
           b->machine.cpu_model, b->machine.n_cores, zn_dtype_name(type),
           (long long)zn_model_n_elements(b->model), n_bytes, seconds, 1 / seconds, bandwidth, bandwidth / n_bytes,
           n_bytes / bandwidth / seconds);
    zn_zero_destroy(e);
    zn_engine_plan_fini(&plan);
}

int main(int argc, char **argv)
{
    struct bench b = {0};
    zn_json *config;
    char path[4096];
    zn_clock_init_real(&b.clock);
    zn_ledger_init(&b.ledger);
    check(zn_machine_read("", &b.machine));
    snprintf(path, sizeof path, "%s/config.json", argc > 1 ? argv[1] : ".");
    if (argc > 1)
        check(zn_json_load_file(path, 1 << 24, &config));
    else
        check(zn_json_load_buffer(shape, strlen(shape), "shape", &config));
    check(zn_model_create(config, PROMPT + TOKENS, &b.model));
    check(zn_device_create_cpu(&b.ledger, &b.clock, b.machine.n_cores, NULL, &b.device));
    check(zn_comm_create_self(&b.clock, &b.comm));
    b.words = aligned_alloc(2 * 1024 * 1024, (size_t)READ_MIB * 1024 * 1024);
    if (!b.words)
        return 1;
    memset(b.words, 1, (size_t)READ_MIB * 1024 * 1024);
    run(&b, ZN_BF16);
    run(&b, ZN_F32);
    free(b.words);
    zn_comm_destroy(b.comm);
    zn_device_destroy(b.device);
    zn_model_destroy(b.model);
    zn_json_destroy(config);
    return 0;
}
