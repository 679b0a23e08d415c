/* `zinc bench adam`: the optimizer's update in memory, beside a loop that moves the same bytes and computes
 * nothing. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/machine.h"
#include "base/median.h"
#include "base/text.h"
#include "cli/bench.h"
#include "cli/commands.h"
#include "device/cpu/isa.h"
#include "device/device.h"

enum { MAX_ROUNDS = 101, KINDS = 4 };

struct flags {
    int64_t elements, rounds, threads;
    bool json, on_request;
};

#define AT(field) offsetof(struct flags, field)

static const struct zn_option options[] = {
    {.name = "--elements", .kind = ZN_OPTION_INT, .offset = AT(elements), .value = "N", .initial = "100000000",
     .range = "[1024, 4294967296]", .help = "Parameters to update.", .more = "Each takes 18 bytes of memory."},
    {.name = "--rounds", .kind = ZN_OPTION_INT, .offset = AT(rounds), .value = "N", .initial = "9", .range = "[3, 101]",
     .help = "Interleaved rounds; the medians are printed."},
    {.name = "--threads", .kind = ZN_OPTION_INT, .offset = AT(threads), .value = "N", .range = "[1, 4096]",
     .otherwise = "physical cores", .help = "Threads to compute with."},
    {.name = "--json", .kind = ZN_OPTION_FLAG, .offset = AT(json), .help = "Print one JSON value."},
    {.name = "--on-request", .kind = ZN_OPTION_FLAG, .offset = AT(on_request),
     .help = "One update for each line of standard input (fp32, bf16, fp32-streams, bf16-streams), and its seconds as JSON."},
};

static const struct zn_command command = {
    .name = "zinc bench adam",
    .summary = "the update of AdamW in memory, beside the speed of memory",
    .usage = "[flags]",
    .example = "zinc bench adam --elements 200000000",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
};

struct arrays {
    zn_addr param, grad, exp_avg, exp_avg_sq, copy;
    int64_t n;
};

/* Reads param, grad and both moments, writes param, moments and, where wanted, the 16-bit copy. */
static void move_streams(const struct arrays *x, int n_threads, bool copies)
{
    float *restrict p = (float *)(uintptr_t)x->param, *restrict m = (float *)(uintptr_t)x->exp_avg;
    float *restrict v = (float *)(uintptr_t)x->exp_avg_sq;
    const float *restrict g = (const float *)(uintptr_t)x->grad;
    uint16_t *restrict c = (uint16_t *)(uintptr_t)x->copy;
    int64_t n = x->n, block = 4096;
#pragma omp parallel for schedule(static) num_threads(n_threads)
    for (int64_t b = 0; b < n; b += block) {
        int64_t end = b + block < n ? b + block : n;
        for (int64_t i = b; i < end; i++) {
            float old = p[i];
            p[i] = g[i];
            float mean = m[i];
            m[i] = v[i];
            v[i] = mean;
            if (copies) {
                uint32_t bits;
                memcpy(&bits, &old, sizeof bits);
                c[i] = (uint16_t)(bits >> 16);
            }
        }
    }
}

static zn_status adam(zn_device *device, const struct arrays *x, bool copies)
{
    return zn_run_adam(device, &(struct zn_adam_args){.param = x->param,
                                                      .grad = x->grad,
                                                      .exp_avg = x->exp_avg,
                                                      .exp_avg_sq = x->exp_avg_sq,
                                                      .copy = copies ? x->copy : 0,
                                                      .copy_type = ZN_BF16,
                                                      .n_elements = x->n,
                                                      .grad_scale = 0.5f,
                                                      .one_minus_beta1 = 0.1f,
                                                      .beta2 = 0.999f,
                                                      .one_minus_beta2 = 0.001f,
                                                      .eps = 1e-8f,
                                                      .step_size = 1e-4f,
                                                      .root_correction = 1.0f,
                                                      .keep = 0.999f});
}

static zn_status make_arrays(zn_device *device, struct arrays *x)
{
    zn_addr *all[] = {&x->param, &x->grad, &x->exp_avg, &x->exp_avg_sq, &x->copy};
    for (size_t i = 0; i < 5; i++) {
        size_t n_bytes = (size_t)x->n * (i < 4 ? sizeof(float) : sizeof(uint16_t));
        ZN_TRY(zn_device_alloc(device, ZN_TIER_DEVICE, ZN_KIND_OPTIMIZER, n_bytes, all[i]));
        if (i < 4)
            ZN_TRY(zn_run_fill_normal(device, &(struct zn_fill_normal_args){
                                                  .dst = *all[i], .n_elements = x->n, .key = i + 1, .stddev = 0.01f}));
    }
    /* A mean of squares is not negative. */
    return zn_run_fill(device, &(struct zn_fill_args){.dst = x->exp_avg_sq, .n_elements = x->n, .value = 1e-4f});
}

/* What is measured: the update and the streams alone, without and with the copy. */
static const char *const kind_names[KINDS] = {"fp32", "fp32-streams", "bf16", "bf16-streams"};

static zn_status run_once(zn_device *device, const struct arrays *x, const struct flags *f, int kind, double *seconds)
{
    bool copies = kind >= 2;
    double start = zn_clock_now(device->clock);
    if (kind % 2 == 0)
        ZN_TRY(adam(device, x, copies));
    else
        move_streams(x, (int)f->threads, copies);
    *seconds = zn_clock_now(device->clock) - start;
    return ZN_OK;
}

/* The streams swap the moments. */
static zn_status restore(zn_device *device, const struct arrays *x)
{
    return zn_run_fill(device, &(struct zn_fill_args){.dst = x->exp_avg_sq, .n_elements = x->n, .value = 1e-4f});
}

/* For a script that measures others in between: one answer for each line. */
static zn_status serve(zn_device *device, const struct arrays *x, const struct flags *f)
{
    char line[64];
    while (fgets(line, sizeof line, stdin)) {
        int kind = 0;
        double seconds;
        line[strcspn(line, "\n")] = '\0';
        while (kind < KINDS && strcmp(line, kind_names[kind]) != 0)
            kind++;
        if (kind == KINDS)
            return zn_fail(ZN_ERR_USAGE, "--on-request: '%s' is not one of: fp32 fp32-streams bf16 bf16-streams",
                           zn_shown(line).text);
        ZN_TRY(run_once(device, x, f, kind, &seconds));
        printf("{\"kind\":\"%s\",\"seconds\":%.9g}\n", line, seconds);
        if (fflush(stdout) != 0)
            return zn_fail(ZN_ERR_IO, "cannot write to standard output");
        if (kind % 2 == 1)
            ZN_TRY(restore(device, x));
    }
    return ZN_OK;
}

static zn_status measure(zn_device *device, const struct arrays *x, const struct flags *f, double seconds[KINDS])
{
    double all[KINDS][MAX_ROUNDS], warm;
    for (int64_t round = -1; round < f->rounds; round++) { /* one more, to warm up */
        for (int kind = 0; kind < KINDS; kind++)
            ZN_TRY(run_once(device, x, f, kind, round >= 0 ? &all[kind][round] : &warm));
        ZN_TRY(restore(device, x));
    }
    for (int kind = 0; kind < KINDS; kind++)
        seconds[kind] = zn_median(all[kind], (int)f->rounds);
    return ZN_OK;
}

static void print(const struct flags *f, const char *isa, const double seconds[KINDS])
{
    static const char *const names[] = {"fp32", "with a bf16 copy"}, *const keys[] = {"fp32", "bf16"};
    static const double bytes[] = {28, 30};
    if (f->json)
        printf("{\"isa\":\"%s\",\"threads\":%lld,\"elements\":%lld", isa, (long long)f->threads, (long long)f->elements);
    for (int i = 0; i < 2; i++) {
        double update = seconds[2 * i] / (double)f->elements * 1e9, streams = seconds[2 * i + 1] / (double)f->elements * 1e9;
        if (f->json)
            printf(",\"%s\":{\"ns_per_parameter\":%.4f,\"streams_ns_per_parameter\":%.4f,\"fraction\":%.4f,"
                   "\"bytes_per_second\":%.4g}",
                   keys[i], update, streams, streams / update, bytes[i] / update * 1e9);
        else
            printf("AdamW %-18s %.3f ns a parameter, %.1f GB/s; the same streams alone %.3f ns: %.0f%%\n", names[i],
                   update, bytes[i] / update, streams, 100 * streams / update);
    }
    printf(f->json ? "}\n" : "");
}

static zn_status run(struct flags *f)
{
    zn_ledger ledger;
    zn_clock clock;
    zn_device *device = NULL;
    const char *isa;
    struct zn_machine machine;
    struct arrays x = {.n = f->elements};
    double seconds[KINDS];
    zn_ledger_init(&ledger);
    zn_clock_init_real(&clock);
    ZN_TRY(zn_machine_read("", &machine));
    if (f->threads == 0)
        f->threads = machine.n_cores;
    ZN_TRY(zn_cpu_isa_choose(NULL, &isa));
    ZN_TRY(zn_device_create_cpu(&ledger, &clock, (int)f->threads, NULL, &device));
    zn_status status = make_arrays(device, &x);
    if (status == ZN_OK)
        status = f->on_request ? serve(device, &x, f) : measure(device, &x, f, seconds);
    if (status == ZN_OK && !f->on_request)
        print(f, isa, seconds);
    zn_device_destroy(device);
    return status;
}

int zn_cli_bench_adam(int argc, char **argv)
{
    struct flags f = {0};
    struct zn_options given;
    int code = zn_cli_begin(&command, argc, argv, &f, &given);
    if (code < 0)
        code = zn_cli_end(&command, run(&f));
    zn_options_fini(&given, &f);
    return code;
}
