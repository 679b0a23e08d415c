/* Three shapes tell the parts of a product's time apart: many rows, few rows, and sums over few tokens. The median of some
 * rounds counts; what is to come from memory has another place in every round. */
#include "plan/calibrate_products.h"

#include <math.h>

#include "base/median.h"

enum { N_ROUNDS = 4, FEW = 32, MANY = 256, DEPTH = 1024, WIDTH = 512, N_PLACES = 4, SIDE = 2048 };

/* A number in every type: 0x3c003c00, whose halves are 0.0078 in bf16 and 1 in fp16. What was in memory may be none, and
 * processors are slow with very small ones. */
static const float NUMBER = 0x1.0078p-7f;

/* An overhead below this is none: a second has no more elements. */
static const double LEAST_SECONDS = 1e-13;

struct lab {
    zn_device *device;
    int n_threads;
    zn_addr memory;
};

/* Work for every thread. */
static int64_t threads_or_four(const struct lab *l)
{
    return l->n_threads > 4 ? l->n_threads : 4;
}

static struct zn_gemm_args with_places(const struct lab *l, struct zn_gemm_args g, int place)
{
    zn_addr places = l->memory + (zn_addr)(g.m * g.k) * sizeof(float);
    zn_addr b = places + (zn_addr)(place % N_PLACES) * (zn_addr)(g.k * g.n) * sizeof(float);
    zn_addr c = places + (zn_addr)N_PLACES * (zn_addr)(g.k * g.n) * sizeof(float);
    g.a = l->memory;
    g.b = b;
    g.c = c + (zn_addr)(g.transpose_a ? place % N_PLACES : 0) * (zn_addr)(g.m * g.n) * sizeof(float);
    g.a_stride = g.transpose_a ? g.m : g.k;
    g.b_stride = g.c_stride = g.n;
    return g;
}

static size_t bytes_of(const struct zn_gemm_args *g)
{
    return sizeof(float) * (size_t)(g->m * g->k + N_PLACES * (g->k * g->n + g->m * g->n));
}

static struct zn_gemm_args many_rows(const struct lab *l)
{
    return (struct zn_gemm_args){.m = MANY * threads_or_four(l), .n = 4 * WIDTH, .k = DEPTH};
}

static struct zn_gemm_args few_rows(const struct lab *l)
{
    return (struct zn_gemm_args){.m = FEW, .n = WIDTH * threads_or_four(l), .k = DEPTH};
}

static struct zn_gemm_args few_tokens(bool adds)
{
    return (struct zn_gemm_args){.m = SIDE, .n = SIDE, .k = FEW, .transpose_a = true, .adds = adds};
}

size_t products_bytes(int n_threads)
{
    const struct lab l = {.n_threads = n_threads};
    struct zn_gemm_args shapes[] = {many_rows(&l), few_rows(&l), few_tokens(false)};
    size_t most = 0;
    for (int i = 0; i < 3; i++)
        most = bytes_of(&shapes[i]) > most ? bytes_of(&shapes[i]) : most;
    return most;
}

struct zn_gemm_args products_example(int n_threads, zn_addr memory)
{
    const struct lab l = {.n_threads = n_threads, .memory = memory};
    return with_places(&l, many_rows(&l), 0);
}

/* Shapes take turns: what else the machine does in between hits all of them. */
static zn_status time_all(const struct lab *l, const struct zn_gemm_args *shapes, int n_shapes, double *usual)
{
    double seconds[8][N_ROUNDS];
    for (int i = -1; i < N_ROUNDS; i++) { /* one more: pages and threads are there afterwards */
        for (int s = 0; s < n_shapes; s++) {
            struct zn_gemm_args args = with_places(l, shapes[s], i + 1);
            double start = zn_clock_now(l->device->clock);
            ZN_TRY(zn_run_gemm(l->device, &args));
            if (i >= 0)
                seconds[s][i] = zn_clock_now(l->device->clock) - start;
        }
    }
    for (int s = 0; s < n_shapes; s++)
        usual[s] = zn_median(seconds[s], N_ROUNDS);
    return ZN_OK;
}

static double work_of(const struct lab *l, const struct zn_gemm_args *args)
{
    return zn_kernel_work(ZN_KERNEL_gemm, args, l->n_threads);
}

/* n elements a second, from what a product takes beyond its flops. */
static double rate_of(double n, double seconds, double work, double flops)
{
    return 1 / fmax((seconds - work / flops) / n, LEAST_SECONDS);
}

/* Many rows and few of the same B, but for its width: of the two times, what goes with the rows. */
static void tell_apart(const struct lab *l, const struct zn_gemm_args shape[2], const double seconds[2], double *flops,
                       double *weights)
{
    double many = work_of(l, &shape[0]), few = work_of(l, &shape[1]), wider = (double)shape[0].n / (double)shape[1].n;
    double work = many - few * wider, taken = seconds[0] - seconds[1] * wider;
    *flops = work > 0 && taken > 0 ? work / taken : many / seconds[0];
    *weights = rate_of((double)(shape[1].k * shape[1].n), seconds[1], few, *flops);
}

zn_status products_measure(zn_device *device, int n_threads, zn_addr memory, struct products *p)
{
    const struct lab l = {device, n_threads, memory};
    struct zn_gemm_args shapes[8] = {[6] = few_tokens(false), [7] = few_tokens(true)};
    double seconds[8];
    const struct zn_fill_args numbers = {
        .dst = memory, .n_elements = (int64_t)(products_bytes(n_threads) / sizeof NUMBER), .value = NUMBER};
    ZN_TRY(zn_run_fill(device, &numbers));
    for (zn_dtype type = ZN_F32; type <= ZN_F16; type++) {
        shapes[2 * type] = many_rows(&l);
        shapes[2 * type + 1] = few_rows(&l);
        shapes[2 * type].b_type = shapes[2 * type + 1].b_type = type;
    }
    ZN_TRY(time_all(&l, shapes, 8, seconds));
    for (zn_dtype type = ZN_F32; type <= ZN_F16; type++)
        tell_apart(&l, &shapes[2 * type], &seconds[2 * type], &p->flops[type], &p->weights[type]);
    for (int adds = 0; adds <= 1; adds++)
        p->sums[adds] = rate_of((double)SIDE * SIDE, seconds[6 + adds], work_of(&l, &shapes[6 + adds]), p->flops[ZN_F32]);
    return ZN_OK;
}
