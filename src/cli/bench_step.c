/* `zinc bench step`: a training step in memory, and beside it the matrix products of that step alone, which are its bound.
 *
 * The products are those of a recorded step, run again in their order with the same operands: each finds in caches what a step
 * leaves there, and no other work is done. Attention's products are inside its kernels; their flops, at causal counts, are taken at
 * the speed of the others. Steps and products take turns. */
#include "cli/bench_step.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/json.h"
#include "base/machine.h"
#include "base/median.h"
#include "cli/bench.h"
#include "cli/commands.h"
#include "device/cpu/isa.h"
#include "device/recording.h"

enum { CONFIG_BYTES = 16 * 1024 * 1024 };

static const struct {
    const char *name, *config;
} shapes[] = {
    {"gpt2-124m", "{\"model_type\":\"gpt2\",\"vocab_size\":50257,\"n_positions\":1024,\"n_embd\":768,\"n_layer\":12,"
                  "\"n_head\":12,\"activation_function\":\"gelu_new\"}"},
    {"smollm2-135m", "{\"model_type\":\"llama\",\"vocab_size\":49152,\"hidden_size\":576,\"intermediate_size\":1536,"
                     "\"num_hidden_layers\":30,\"num_attention_heads\":9,\"num_key_value_heads\":3,"
                     "\"max_position_embeddings\":8192,\"rms_norm_eps\":1e-5,\"rope_theta\":100000.0,"
                     "\"hidden_act\":\"silu\",\"tie_word_embeddings\":true}"},
    {"tinyllama-1.1b", "{\"model_type\":\"llama\",\"vocab_size\":32000,\"hidden_size\":2048,\"intermediate_size\":5632,"
                       "\"num_hidden_layers\":22,\"num_attention_heads\":32,\"num_key_value_heads\":4,"
                       "\"max_position_embeddings\":2048,\"rms_norm_eps\":1e-5,\"rope_theta\":10000.0,"
                       "\"hidden_act\":\"silu\",\"tie_word_embeddings\":false}"},
};

enum { N_SHAPES = sizeof shapes / sizeof shapes[0] };
#define SHAPES "gpt2-124m smollm2-135m tinyllama-1.1b"

#define AT(field) offsetof(struct bench_step_flags, field)

static const struct zn_option options[] = {
    {.name = "--shape", .kind = ZN_OPTION_CHOICE, .offset = AT(shape), .value = "NAME", .initial = "gpt2-124m",
     .choices = SHAPES, .help = "The model, with random weights."},
    {.name = "--model", .kind = ZN_OPTION_STRING, .offset = AT(model), .value = "DIR", .otherwise = "--shape",
     .help = "Take the shape of this folder's config.json."},
    {.name = "--precision", .kind = ZN_OPTION_CHOICE, .offset = AT(precision), .value = "TYPE", .initial = "fp32",
     .choices = "fp32 bf16 fp16", .help = "Working precision."},
    {.name = "--micro-batch", .kind = ZN_OPTION_INT, .offset = AT(micro_batch), .value = "B", .initial = "4",
     .range = "[1, 65536]", .help = "Windows computed at once."},
    {.name = "--seq-len", .kind = ZN_OPTION_INT, .offset = AT(seq_len), .value = "T", .initial = "256",
     .range = "[1, 1048576]", .help = "Tokens of a window."},
    {.name = "--recompute", .kind = ZN_OPTION_FLAG, .offset = AT(recompute), .help = "Compute activations again in backward."},
    {.name = "--threads", .kind = ZN_OPTION_INT, .offset = AT(threads), .value = "N", .range = "[1, 4096]",
     .otherwise = "physical cores", .help = "Threads to compute with."},
    {.name = "--rounds", .kind = ZN_OPTION_INT, .offset = AT(rounds), .value = "N", .initial = "5", .range = "[1, 101]",
     .help = "Rounds that the medians are taken of."},
    {.name = "--sweep", .kind = ZN_OPTION_FLAG, .offset = AT(sweep),
     .help = "Instead: how a small model's seconds grow with layers, width, window, ranks and tier, beside the plan's."},
    {.name = "--nvme-path", .kind = ZN_OPTION_STRING, .offset = AT(nvme_path), .value = "DIR", .initial = ".",
     .help = "With --sweep: where states on NVMe go."},
    {.name = "--json", .kind = ZN_OPTION_FLAG, .offset = AT(json), .help = "Print one JSON value."},
};

static const struct zn_command command = {
    .name = "zinc bench step",
    .summary = "a training step, beside its own matrix products alone",
    .usage = "[flags]",
    .example = "zinc bench step --shape smollm2-135m --precision bf16",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
};

struct bench_spread bench_spread_of(double *values, int n)
{
    double median = zn_median(values, n);
    return (struct bench_spread){.median = median, .least = values[0], .most = values[n - 1]};
}

/* ---- What is measured ---- */

struct step_bench {
    const struct bench_step_flags *flags;
    const char *isa;
    zn_model *model;
    bench_engine *engine;
    struct {
        double seconds[BENCH_ROUNDS], cpu_seconds[BENCH_ROUNDS];
    } step, products;
    double record_seconds; /* of the step that was recorded */
};

static zn_status open_model(const struct bench_step_flags *f, zn_model **model)
{
    zn_json *config;
    char *path = NULL;
    zn_status status = ZN_OK;
    if (f->model) {
        ZN_TRY(zn_path_join(f->model, "config.json", &path));
        status = zn_json_load_file(path, CONFIG_BYTES, &config);
        free(path);
    } else {
        size_t i = 0;
        while (strcmp(shapes[i].name, f->shape) != 0)
            i++;
        status = zn_json_load_buffer(shapes[i].config, strlen(shapes[i].config), shapes[i].name, &config);
    }
    ZN_TRY(status);
    status = zn_model_create(config, f->seq_len, model);
    zn_json_destroy(config);
    return status;
}

static zn_dtype type_of(const char *precision)
{
    return strcmp(precision, "fp32") == 0 ? ZN_F32 : strcmp(precision, "bf16") == 0 ? ZN_BF16 : ZN_F16;
}

static zn_status measure_products(struct step_bench *b, int round)
{
    zn_device *device = bench_engine_device(b->engine);
    struct bench_time start = bench_now(device->clock);
    ZN_TRY(zn_recording_repeat(device, ZN_KERNEL_gemm));
    struct bench_time time = bench_since(device->clock, start);
    b->products.seconds[round] = time.seconds;
    b->products.cpu_seconds[round] = time.cpu_seconds;
    return ZN_OK;
}

static zn_status measure(struct step_bench *b)
{
    zn_device *device = bench_engine_device(b->engine);
    struct bench_time time;
    ZN_TRY(bench_engine_step(b->engine, &time)); /* pages and threads are there afterwards */
    zn_recording_begin(device);
    ZN_TRY(bench_engine_step(b->engine, &time));
    zn_recording_end(device);
    b->record_seconds = time.seconds;
    for (int round = 0; round < b->flags->rounds; round++) {
        ZN_TRY(bench_engine_step(b->engine, &time));
        b->step.seconds[round] = time.seconds;
        b->step.cpu_seconds[round] = time.cpu_seconds;
        ZN_TRY(measure_products(b, round));
    }
    return ZN_OK;
}

/* ---- What is printed ---- */

struct kernel_time {
    zn_kernel kernel;
    double seconds;
};

struct step_result {
    struct bench_spread seconds, cpu_seconds, products, products_cpu;
    double tokens_per_second;
    double product_rate; /* flops a second of the products alone */
    double attention;    /* seconds that attention's products take at that rate */
    double bound, share; /* seconds of all products alone, and their share of the step */
    struct kernel_time kernel[ZN_N_KERNELS]; /* the longest first */
};

static int longer_first(const void *a, const void *b)
{
    double x = ((const struct kernel_time *)a)->seconds, y = ((const struct kernel_time *)b)->seconds;
    return x < y ? 1 : x > y ? -1 : 0;
}

static void conclude(struct step_bench *b, struct step_result *r)
{
    const zn_device *device = bench_engine_device(b->engine);
    int n = (int)b->flags->rounds;
    r->seconds = bench_spread_of(b->step.seconds, n);
    r->cpu_seconds = bench_spread_of(b->step.cpu_seconds, n);
    r->products = bench_spread_of(b->products.seconds, n);
    r->products_cpu = bench_spread_of(b->products.cpu_seconds, n);
    r->tokens_per_second = (double)(b->flags->micro_batch * b->flags->seq_len) / r->seconds.median;
    r->product_rate = zn_recording_sum(device, ZN_KERNEL_gemm).flops / r->products.median;
    r->attention = (zn_recording_sum(device, ZN_KERNEL_attention_forward).flops +
                    zn_recording_sum(device, ZN_KERNEL_attention_backward).flops) / r->product_rate;
    r->bound = r->products.median + r->attention;
    r->share = r->bound / r->seconds.median;
    for (int k = 0; k < ZN_N_KERNELS; k++) {
        r->kernel[k].kernel = (zn_kernel)k;
        r->kernel[k].seconds = zn_recording_sum(device, (zn_kernel)k).seconds;
    }
    qsort(r->kernel, ZN_N_KERNELS, sizeof r->kernel[0], longer_first);
}

static const char *model_name(const struct bench_step_flags *f)
{
    return f->model ? f->model : f->shape;
}

static void print_text(const struct step_bench *b, const struct step_result *r)
{
    const struct bench_step_flags *f = b->flags;
    double rest = b->record_seconds;
    printf("%s, %.1f M parameters, %s, B=%lld T=%lld, %lld threads of %s%s\n", model_name(f),
           1e-6 * (double)zn_model_n_elements(b->model), f->precision, (long long)f->micro_batch, (long long)f->seq_len,
           (long long)f->threads, b->isa, f->recompute ? ", activations recomputed" : "");
    printf("step        %.4g s (%.4g to %.4g), %.4g CPU-seconds (%.4g to %.4g), %.0f tokens/s\n", r->seconds.median,
           r->seconds.least, r->seconds.most, r->cpu_seconds.median, r->cpu_seconds.least, r->cpu_seconds.most, r->tokens_per_second);
    printf("products    %.4g s alone (%.4g to %.4g), %.4g CPU-seconds, %.0f Gflop/s; attention's at that speed %.3g s\n",
           r->products.median, r->products.least, r->products.most, r->products_cpu.median, 1e-9 * r->product_rate, r->attention);
    printf("the step has %.1f%% of the speed of its products alone\n", 100 * r->share);
    printf("by kernel  ");
    for (int k = 0; k < ZN_N_KERNELS && r->kernel[k].seconds > 0.005 * b->record_seconds; k++) {
        printf(" %s %.1f%%,", zn_kernel_name(r->kernel[k].kernel), 100 * r->kernel[k].seconds / b->record_seconds);
        rest -= r->kernel[k].seconds;
    }
    printf(" other %.1f%%\n", 100 * rest / b->record_seconds);
}

static void print_spread(const char *key, const struct bench_spread *s)
{
    printf(",\"%s\":{\"median\":%.9g,\"least\":%.9g,\"most\":%.9g}", key, s->median, s->least, s->most);
}

static void print_json(const struct step_bench *b, const struct step_result *r)
{
    const struct bench_step_flags *f = b->flags;
    printf("{\"benchmark\":\"step\",\"model\":\"%s\",\"parameters\":%lld,\"precision\":\"%s\",\"micro_batch\":%lld,\"seq_len\":%lld,"
           "\"recompute\":%s,\"threads\":%lld,\"isa\":\"%s\",\"rounds\":%lld",
           f->model ? "" : f->shape, (long long)zn_model_n_elements(b->model), f->precision, (long long)f->micro_batch,
           (long long)f->seq_len, f->recompute ? "true" : "false", (long long)f->threads, b->isa, (long long)f->rounds);
    print_spread("seconds", &r->seconds);
    print_spread("cpu_seconds", &r->cpu_seconds);
    printf(",\"tokens_per_second\":%.9g", r->tokens_per_second);
    print_spread("products_seconds", &r->products);
    print_spread("products_cpu_seconds", &r->products_cpu);
    printf(",\"products_gflops\":%.9g,\"attention_products_seconds\":%.9g,\"share_of_products\":%.9g,\"kernels\":{", 1e-9 * r->product_rate,
           r->attention, r->share);
    for (int k = 0; k < ZN_N_KERNELS && r->kernel[k].seconds > 0; k++)
        printf("%s\"%s\":%.9g", k ? "," : "", zn_kernel_name(r->kernel[k].kernel), r->kernel[k].seconds);
    printf("},\"recorded_seconds\":%.9g}\n", b->record_seconds);
}

static zn_status run_step(struct step_bench *b)
{
    const struct bench_step_flags *f = b->flags;
    struct step_result result;
    struct bench_job job = {.n_ranks = 1, .n_threads = (int)f->threads};
    ZN_TRY(open_model(f, &b->model));
    job.model = b->model;
    job.options = bench_options(type_of(f->precision), f->micro_batch, f->seq_len);
    job.options.recompute = f->recompute;
    ZN_TRY(bench_engine_open(&job, &b->engine));
    ZN_TRY(measure(b));
    conclude(b, &result);
    (f->json ? print_json : print_text)(b, &result);
    return fflush(stdout) == 0 ? ZN_OK : zn_fail(ZN_ERR_IO, "cannot write to standard output");
}

static zn_status run(struct bench_step_flags *f, const struct zn_options *given)
{
    struct zn_machine machine;
    ZN_TRY(zn_machine_read("", &machine));
    if (f->threads == 0)
        f->threads = machine.n_cores;
    ZN_TRY(zn_machine_check_threads(&machine, f->threads));
    if (f->sweep) {
        for (size_t i = 0; i < 5; i++) /* what a sweep varies itself */
            if (zn_options_given(given, options[i].name) || f->recompute)
                return zn_fail(ZN_ERR_USAGE, "--sweep has a model of its own; leave %s out",
                               f->recompute ? "--recompute" : options[i].name);
        return bench_sweep(f);
    }
    struct step_bench *b = calloc(1, sizeof *b);
    if (!b)
        return zn_fail(ZN_ERR_MEMORY, "no memory for a measurement");
    b->flags = f;
    zn_status status = zn_cpu_isa_choose(NULL, &b->isa);
    if (status == ZN_OK)
        status = run_step(b);
    bench_engine_close(b->engine);
    zn_model_destroy(b->model);
    free(b);
    return status;
}

int zn_cli_bench_step(int argc, char **argv)
{
    struct bench_step_flags f = {0};
    struct zn_options given;
    int code = zn_cli_begin(&command, argc, argv, &f, &given);
    if (code < 0)
        code = zn_cli_end(&command, run(&f, &given));
    zn_options_fini(&given, &f);
    return code;
}
