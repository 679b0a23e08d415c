/* The matrix product over the shapes of real models, and beside it OpenBLAS where it was there when this was built.
 *
 *   bench_gemm [THREADS] [ROUNDS] [FILTER] [JSON]
 *
 * For each model, layer and number of tokens M: the forward product, dX and dW, as the model's layout has them; with weights in fp32
 * and bf16. Runners take turns; the median of the rounds counts. A ratio is the rival's time over ours. FILTER picks rows by a part
 * of their name ("" all). The rows are written to the file JSON too, with the machine's name. */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/machine.h"
#include "base/median.h"
#include "cli/bench_shapes.h"
#include "device/cpu/isa.h"
#include "device/device.h"
#if defined(ZN_HAVE_RIVAL)
#include "blas_rival.h"
enum { N_RUNNERS = 3 };
#else
enum { N_RUNNERS = 1 };
#endif

enum { MAX_ROUNDS = 64, N_MATRICES = 3, MATRIX_BYTES = BENCH_MATRIX_BYTES };

static const char *const runner_names[] = {"own", "grid", "whole"};

struct bench {
    zn_device *device;
    int n_threads, n_rounds;
    const char *filter;
    FILE *json;
    zn_addr memory, a, b, c;
    int n_rows;
    double log_sum[3], least[3];
    int n_ratios[3];
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void run(struct bench *b, int runner, const struct zn_gemm_args *g)
{
    if (runner == 0 && zn_run_gemm(b->device, g) != ZN_OK) {
        fprintf(stderr, "bench_gemm: %s\n", zn_error_message());
        exit(1);
    }
#if defined(ZN_HAVE_RIVAL)
    if (runner == 1)
        rival_grid(g, b->n_threads);
    if (runner == 2)
        rival_whole(g, b->n_threads);
#endif
}

static void print_row(struct bench *b, const char *name, const struct zn_gemm_args *g, const double seconds[], int n_runners)
{
    double flops = bench_product_flops(g);
    printf("%-36s %5lld %5lld %5lld", name, (long long)g->m, (long long)g->n, (long long)g->k);
    if (b->json)
        fprintf(b->json, "%s\n {\"name\":\"%s\",\"m\":%lld,\"n\":%lld,\"k\":%lld", b->n_rows++ ? "," : "", name, (long long)g->m,
                (long long)g->n, (long long)g->k);
    for (int i = 0; i < n_runners; i++) {
        double ratio = seconds[i] / seconds[0];
        printf("  %s %6.1f", runner_names[i], flops / seconds[i] * 1e-9);
        if (i > 0)
            printf(" x%.2f", ratio);
        if (b->json)
            fprintf(b->json, ",\"%s_gflops\":%.1f", runner_names[i], flops / seconds[i] * 1e-9);
        b->log_sum[i] += log(ratio);
        b->least[i] = b->n_ratios[i]++ && b->least[i] < ratio ? b->least[i] : ratio;
    }
    printf("\n");
    if (b->json)
        fprintf(b->json, "}");
    fflush(stdout);
}

static void measure(struct bench *b, const struct bench_layer *l, int64_t m, int side, zn_dtype type)
{
    char name[64];
    double seconds[3][MAX_ROUNDS], usual[3];
    struct zn_gemm_args g = bench_product(l, m, side, type);
    g.a = b->a;
    g.b = b->b;
    g.c = b->c;
    int n_runners = N_RUNNERS == 3 && type != ZN_F32 ? 2 : N_RUNNERS; /* a whole call has no 16-bit operand */
    snprintf(name, sizeof name, "%s.%s.%s.M%lld", l->name, bench_sides[side], zn_dtype_name(type), (long long)m);
    if (!strstr(name, b->filter))
        return;
    double flops = bench_product_flops(&g);
    int repeats = flops < 2e9 ? (int)(2e9 / flops) + 1 : 1;
    for (int r = -1; r < b->n_rounds; r++)
        for (int i = 0; i < n_runners; i++) {
            int runner = (i + r + 1) % n_runners;
            double start = now();
            for (int j = 0; j < (r < 0 ? 1 : repeats); j++)
                run(b, runner, &g);
            if (r >= 0)
                seconds[runner][r] = (now() - start) / repeats;
        }
    for (int i = 0; i < n_runners; i++)
        usual[i] = zn_median(seconds[i], b->n_rounds);
    print_row(b, name, &g, usual, n_runners);
}

static zn_status prepare(struct bench *b)
{
    ZN_TRY(zn_device_alloc(b->device, ZN_TIER_HOST, ZN_KIND_BUFFERS, N_MATRICES * MATRIX_BYTES, &b->memory));
    b->a = b->memory;
    b->b = b->a + MATRIX_BYTES;
    b->c = b->b + MATRIX_BYTES;
    /* A number in every type. */
    return zn_run_fill(b->device, &(struct zn_fill_args){
                                      .dst = b->memory, .n_elements = N_MATRICES * MATRIX_BYTES / 4, .value = 0x1.0078p-7f});
}

static void measure_all(struct bench *b)
{
    for (zn_dtype type = ZN_F32; type <= ZN_BF16; type++)
        for (int l = 0; l < BENCH_N_LAYERS; l++)
            for (int64_t m = 1024; m >= 256; m /= 2)
                for (int side = 0; side < (type == ZN_F32 ? BENCH_N_SIDES : 2); side++) /* dW has no parameters */
                    measure(b, &bench_layers[l], m, side, type);
    for (int i = 1; i < N_RUNNERS && b->n_ratios[i]; i++)
        printf("against %s: geometric mean %.3f, least %.3f, %d shapes\n", runner_names[i], exp(b->log_sum[i] / b->n_ratios[i]),
               b->least[i], b->n_ratios[i]);
    if (N_RUNNERS == 1)
        printf("built without OpenBLAS: no rival\n");
}

static zn_status bench_run(struct bench *b, const char *isa, const char *path)
{
    struct zn_machine machine;
    ZN_TRY(zn_machine_read("", &machine));
    ZN_TRY(prepare(b));
#if defined(ZN_HAVE_RIVAL)
    if (!rival_init(b->n_threads))
        return zn_fail(ZN_ERR_MEMORY, "no memory for the rival");
#endif
    if (path && !(b->json = fopen(path, "w")))
        return zn_fail(ZN_ERR_IO, "%s: cannot be written", path);
    printf("%s, %s, %d threads, Gflop/s\n", machine.cpu_model, isa, b->n_threads);
    if (b->json)
        fprintf(b->json, "{\"machine\":\"%s\",\"isa\":\"%s\",\"threads\":%d,\"rounds\":%d,\"products\":[", machine.cpu_model, isa,
                b->n_threads, b->n_rounds);
    measure_all(b);
#if defined(ZN_HAVE_RIVAL)
    rival_fini();
#endif
    if (b->json && (fprintf(b->json, "\n]}\n") < 0 || fclose(b->json) != 0))
        return zn_fail(ZN_ERR_IO, "%s: cannot be written", path);
    return ZN_OK;
}

int main(int argc, char **argv)
{
    struct bench b = {.n_threads = argc > 1 ? atoi(argv[1]) : omp_get_max_threads(),
                      .n_rounds = argc > 2 ? atoi(argv[2]) : 9,
                      .filter = argc > 3 ? argv[3] : ""};
    zn_ledger ledger;
    zn_clock clock;
    const char *isa = "";
    if (b.n_threads < 1 || b.n_rounds < 1 || b.n_rounds > MAX_ROUNDS) {
        fprintf(stderr, "usage: bench_gemm [THREADS] [ROUNDS] [FILTER] [JSON]\n");
        return 2;
    }
    zn_clock_init_real(&clock);
    zn_ledger_init(&ledger);
    zn_status status = zn_cpu_isa_choose(NULL, &isa);
    if (status == ZN_OK)
        status = zn_device_create_cpu(&ledger, &clock, b.n_threads, isa, &b.device);
    if (status == ZN_OK)
        status = bench_run(&b, isa, argc > 4 ? argv[4] : NULL);
    if (status != ZN_OK)
        fprintf(stderr, "bench_gemm: %s\n", zn_error_message());
    zn_device_free(b.device, ZN_TIER_HOST, ZN_KIND_BUFFERS, b.memory, N_MATRICES * MATRIX_BYTES);
    zn_device_destroy(b.device);
    return status == ZN_OK ? 0 : 1;
}
