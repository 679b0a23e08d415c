/* `zinc bench gemm`: matrix products of real models, beside fused multiply-adds in registers and one large product. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/elementary.h"
#include "base/machine.h"
#include "base/median.h"
#include "cli/bench.h"
#include "cli/bench_shapes.h"
#include "cli/commands.h"
#include "device/cpu/isa.h"
#include "device/device.h"

enum { MAX_ROUNDS = 101, LARGE = 1536, N_MATRICES = 3 };

struct flags {
    const char *only;
    int64_t tokens, rounds, threads;
    bool json;
};

#define AT(field) offsetof(struct flags, field)

static const struct zn_option options[] = {
    {.name = "--tokens", .kind = ZN_OPTION_INT, .offset = AT(tokens), .value = "M", .initial = "1024", .range = "[1, 1024]",
     .help = "Rows of activations."},
    {.name = "--only", .kind = ZN_OPTION_STRING, .offset = AT(only), .value = "TEXT", .otherwise = "all",
     .help = "Products whose names have this part: gpt2, dW, bf16."},
    {.name = "--rounds", .kind = ZN_OPTION_INT, .offset = AT(rounds), .value = "N", .initial = "5", .range = "[1, 101]",
     .help = "Rounds that the medians are taken of."},
    {.name = "--threads", .kind = ZN_OPTION_INT, .offset = AT(threads), .value = "N", .range = "[1, 4096]",
     .otherwise = "physical cores", .help = "Threads to compute with."},
    {.name = "--json", .kind = ZN_OPTION_FLAG, .offset = AT(json), .help = "Print one JSON value."},
};

static const struct zn_command command = {
    .name = "zinc bench gemm",
    .summary = "matrix products of real models, beside the peak of fused multiply-adds",
    .usage = "[flags]",
    .example = "zinc bench gemm --only gpt2 --tokens 256",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
};

struct gemm_bench {
    const struct flags *flags;
    zn_device *device;
    zn_addr memory;
    double peak, large;   /* flops a second: in registers, of a large product */
    double log_sum;       /* of shares of the peak */
    int n_products;
};

static size_t memory_bytes(void)
{
    return (size_t)N_MATRICES * BENCH_MATRIX_BYTES;
}

static zn_status measure(struct gemm_bench *b, struct zn_gemm_args g, double *rate)
{
    double seconds[MAX_ROUNDS], flops = bench_product_flops(&g);
    int repeats = flops < 2e9 ? (int)(2e9 / flops) + 1 : 1; /* short ones are measured together */
    g.a = b->memory;
    g.b = g.a + BENCH_MATRIX_BYTES;
    g.c = g.b + BENCH_MATRIX_BYTES;
    for (int64_t round = -1; round < b->flags->rounds; round++) {
        double begin = zn_clock_now(b->device->clock);
        for (int i = 0; i < repeats; i++)
            ZN_TRY(zn_run_gemm(b->device, &g));
        if (round >= 0)
            seconds[round] = (zn_clock_now(b->device->clock) - begin) / repeats;
    }
    *rate = flops / zn_median(seconds, (int)b->flags->rounds);
    return ZN_OK;
}

static zn_status measure_limits(struct gemm_bench *b)
{
    double rates[MAX_ROUNDS];
    for (int64_t round = -1; round < b->flags->rounds; round++)
        rates[round < 0 ? 0 : round] = zn_device_cpu_fma_rate(b->device);
    b->peak = zn_median(rates, (int)b->flags->rounds);
    return measure(b, (struct zn_gemm_args){.m = LARGE, .n = LARGE, .k = LARGE, .a_stride = LARGE, .b_stride = LARGE,
                                            .c_stride = LARGE, .transpose_b = true}, &b->large);
}

static zn_status measure_one(struct gemm_bench *b, const struct bench_layer *layer, int side, zn_dtype type)
{
    char name[64];
    double rate;
    struct zn_gemm_args g = bench_product(layer, b->flags->tokens, side, type);
    snprintf(name, sizeof name, "%s.%s.%s", layer->name, bench_sides[side], zn_dtype_name(type));
    if (b->flags->only && !strstr(name, b->flags->only))
        return ZN_OK;
    ZN_TRY(measure(b, g, &rate));
    if (b->flags->json)
        printf("%s{\"name\":\"%s\",\"m\":%lld,\"n\":%lld,\"k\":%lld,\"gflops\":%.1f,\"share_of_peak\":%.4f}", b->n_products ? "," : "",
               name, (long long)g.m, (long long)g.n, (long long)g.k, 1e-9 * rate, rate / b->peak);
    else
        printf("%-32s %5lld %5lld %5lld  %6.1f Gflop/s  %3.0f%%\n", name, (long long)g.m, (long long)g.n, (long long)g.k,
               1e-9 * rate, 100 * rate / b->peak);
    b->log_sum += zn_log_f64(rate / b->peak);
    b->n_products++;
    return ZN_OK;
}

static zn_status measure_all(struct gemm_bench *b)
{
    for (zn_dtype type = ZN_F32; type <= ZN_BF16; type++)
        for (int l = 0; l < BENCH_N_LAYERS; l++)
            for (int side = 0; side < (type == ZN_F32 ? BENCH_N_SIDES : 2); side++) /* dW has no parameters */
                ZN_TRY(measure_one(b, &bench_layers[l], side, type));
    if (b->n_products == 0)
        return zn_fail(ZN_ERR_USAGE, "--only %s: no product has that in its name; without it all are listed", b->flags->only);
    return ZN_OK;
}

static zn_status run_all(struct gemm_bench *b, const char *isa)
{
    const struct flags *f = b->flags;
    ZN_TRY(zn_device_alloc(b->device, ZN_TIER_HOST, ZN_KIND_BUFFERS, memory_bytes(), &b->memory));
    /* A number in every type. */
    ZN_TRY(zn_run_fill(b->device, &(struct zn_fill_args){.dst = b->memory, .n_elements = (int64_t)memory_bytes() / 4, .value = 0x1.0078p-7f}));
    ZN_TRY(measure_limits(b));
    if (f->json)
        printf("{\"benchmark\":\"gemm\",\"isa\":\"%s\",\"threads\":%lld,\"tokens\":%lld,\"rounds\":%lld,\"fma_peak_gflops\":%.1f,"
               "\"large_product_gflops\":%.1f,\"products\":[",
               isa, (long long)f->threads, (long long)f->tokens, (long long)f->rounds, 1e-9 * b->peak, 1e-9 * b->large);
    else
        printf("%s, %lld threads: fused multiply-adds in registers %.1f Gflop/s, a product of %d cubed %.1f\n", isa,
               (long long)f->threads, 1e-9 * b->peak, LARGE, 1e-9 * b->large);
    ZN_TRY(measure_all(b));
    double mean = zn_exp_f64(b->log_sum / b->n_products);
    if (f->json)
        printf("],\"mean_share_of_peak\":%.4f}\n", mean);
    else
        printf("geometric mean: %.0f%% of the peak over %d products\n", 100 * mean, b->n_products);
    return fflush(stdout) == 0 ? ZN_OK : zn_fail(ZN_ERR_IO, "cannot write to standard output");
}

static zn_status run(struct flags *f)
{
    zn_ledger ledger;
    zn_clock clock;
    const char *isa;
    struct zn_machine machine;
    struct gemm_bench b = {.flags = f};
    zn_ledger_init(&ledger);
    zn_clock_init_real(&clock);
    ZN_TRY(zn_machine_read("", &machine));
    if (f->threads == 0)
        f->threads = machine.n_cores;
    ZN_TRY(zn_cpu_isa_choose(NULL, &isa));
    ZN_TRY(zn_device_create_cpu(&ledger, &clock, (int)f->threads, NULL, &b.device));
    zn_status status = run_all(&b, isa);
    zn_device_free(b.device, ZN_TIER_HOST, ZN_KIND_BUFFERS, b.memory, memory_bytes());
    zn_device_destroy(b.device);
    return status;
}

int zn_cli_bench_gemm(int argc, char **argv)
{
    struct flags f = {0};
    struct zn_options given;
    int code = zn_cli_begin(&command, argc, argv, &f, &given);
    if (code < 0)
        code = zn_cli_end(&command, run(&f));
    zn_options_fini(&given, &f);
    return code;
}
