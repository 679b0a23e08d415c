/* `zinc bench step --sweep`: how the seconds of a step grow with one size at a time, in this process and in the plan's prediction
 * for this machine. Growth is the exponent e of seconds = constant × size^e, fitted to the points by least squares of logarithms. */
#include <math.h>
#include <stdio.h>

#include "base/elementary.h"
#include "cli/bench_step.h"
#include "plan/calibrate_machine.h"
#include "plan/predict.h"
#include "plan/shape.h"

/* Where every row of the sweep begins. */
static const struct zn_shape base_shape = {.layers = 4, .hidden = 512, .heads = 8, .vocabulary = 8192};
enum { BASE_WINDOW = 256, MAX_POINTS = 3 };

enum { LAYERS, HIDDEN, WINDOW, RANKS, NVME };

static const struct row {
    const char *name;
    int size;
    int64_t values[MAX_POINTS]; /* 0-padded */
} rows[] = {
    {"layers", LAYERS, {2, 4, 8}},
    {"width", HIDDEN, {256, 512, 1024}},
    {"window", WINDOW, {128, 256, 512}},
    {"ranks", RANKS, {1, 2, 4}},
    {"states on NVMe", NVME, {2, 4, 8}},
};

enum { N_ROWS = sizeof rows / sizeof rows[0] };

struct point {
    struct bench_spread seconds;
    double cpu_seconds, predicted; /* predicted: 0 where there is no plan */
};

struct sweep {
    const struct bench_step_flags *flags;
    struct zn_cluster machine;
    bool is_measured; /* the machine's figures are there */
};

/* The model and options of one point. Ranks share the threads; more ranks than threads are left out. */
static zn_status make_job(const struct sweep *s, int size, int64_t value, zn_model **model, struct bench_job *job)
{
    struct zn_shape shape = base_shape;
    int64_t seq_len = BASE_WINDOW;
    *job = (struct bench_job){.n_ranks = 1, .n_threads = (int)s->flags->threads, .nvme_path = s->flags->nvme_path};
    if (size == LAYERS || size == NVME)
        shape.layers = value;
    if (size == HIDDEN)
        shape.hidden = value;
    if (size == WINDOW)
        seq_len = value;
    if (size == RANKS) {
        job->n_ranks = (int)value;
        job->n_threads = (int)(s->flags->threads / value);
    }
    ZN_TRY(zn_shape_model(&shape, seq_len, model));
    job->model = *model;
    job->options = bench_options(ZN_F32, 1, seq_len);
    if (size == RANKS)
        job->options.stage = 3;
    if (size == NVME) {
        job->options.stage = 3;
        job->options.recompute = job->options.reduce_every = true;
        job->options.offload = (struct zn_offload){ZN_TIER_NVME, ZN_TIER_NVME, ZN_TIER_NVME, ZN_TIER_NVME};
    }
    job->options.reduce_every |= size == RANKS;
    return ZN_OK;
}

static zn_status measure(const struct bench_job *job, int rounds, struct point *point)
{
    double seconds[BENCH_ROUNDS], cpu_seconds[BENCH_ROUNDS];
    struct bench_time time;
    bench_engine *engine;
    ZN_TRY(bench_engine_open(job, &engine));
    zn_status status = ZN_OK;
    for (int round = -2; round < rounds && status == ZN_OK; round++) { /* the first two are not like the later ones */
        status = bench_engine_step(engine, &time);
        if (round >= 0) {
            seconds[round] = time.seconds;
            cpu_seconds[round] = time.cpu_seconds;
        }
    }
    bench_engine_close(engine);
    ZN_TRY(status);
    point->seconds = bench_spread_of(seconds, rounds);
    point->cpu_seconds = bench_spread_of(cpu_seconds, rounds).median;
    return ZN_OK;
}

static zn_status predict(const struct sweep *s, const struct bench_job *job, struct point *point)
{
    struct zn_prediction prediction;
    const struct zn_plan_setup setup = {.model = job->model, .cluster = &s->machine, .engine = job->options,
                                        .n_ranks = job->n_ranks, .n_nodes = 1};
    if (!s->is_measured)
        return ZN_OK;
    ZN_TRY(zn_predict(&setup, &prediction));
    point->predicted = prediction.step;
    zn_prediction_fini(&prediction);
    return ZN_OK;
}

/* The exponent of growth; NAN of fewer than two points. */
static double growth(const int64_t *sizes, const double *seconds, int n)
{
    double x = 0, y = 0, xx = 0, xy = 0;
    for (int i = 0; i < n; i++) {
        double a = zn_log_f64((double)sizes[i]), b = zn_log_f64(seconds[i]);
        x += a;
        y += b;
        xx += a * a;
        xy += a * b;
    }
    return n > 1 ? (n * xy - x * y) / (n * xx - x * x) : NAN;
}

static void print_row(const struct sweep *s, const struct row *row, const struct point *points, int n)
{
    double measured[MAX_POINTS], predicted[MAX_POINTS];
    bool json = s->flags->json;
    for (int i = 0; i < n; i++) {
        measured[i] = points[i].seconds.median;
        predicted[i] = points[i].predicted;
    }
    if (json)
        printf("%s{\"varies\":\"%s\",\"points\":[", row == rows ? "" : ",", row->name);
    else
        printf("%s\n", row->name);
    for (int i = 0; i < n; i++) {
        if (json)
            printf("%s{\"size\":%lld,\"seconds\":%.9g,\"least\":%.9g,\"most\":%.9g,\"cpu_seconds\":%.9g", i ? "," : "",
                   (long long)row->values[i], measured[i], points[i].seconds.least, points[i].seconds.most, points[i].cpu_seconds);
        else
            printf("  %6lld  %8.4f s (%.4f to %.4f), %8.4f CPU-seconds", (long long)row->values[i], measured[i],
                   points[i].seconds.least, points[i].seconds.most, points[i].cpu_seconds);
        if (s->is_measured)
            printf(json ? ",\"predicted\":%.9g" : "; the plan says %.4f", predicted[i]);
        printf(json ? "}" : "\n");
    }
    double exponent = growth(row->values, measured, n);
    if (json)
        printf("]");
    if (n > 1) {
        printf(json ? ",\"growth\":%.4f" : "  grows with the power %.2f", exponent);
        if (s->is_measured)
            printf(json ? ",\"predicted_growth\":%.4f" : " of it; in the plan with %.2f", growth(row->values, predicted, n));
    }
    printf(json ? "}" : "\n");
}

static zn_status run_row(const struct sweep *s, const struct row *row)
{
    struct point points[MAX_POINTS] = {0};
    int n = 0;
    while (n < MAX_POINTS && row->values[n] > 0 && (row->size != RANKS || row->values[n] <= s->flags->threads)) {
        zn_model *model = NULL;
        struct bench_job job;
        zn_status status = make_job(s, row->size, row->values[n], &model, &job);
        if (status == ZN_OK)
            status = measure(&job, (int)s->flags->rounds, &points[n]);
        if (status == ZN_OK)
            status = predict(s, &job, &points[n]);
        zn_model_destroy(model);
        ZN_TRY(status);
        n++;
    }
    print_row(s, row, points, n);
    return fflush(stdout) == 0 ? ZN_OK : zn_fail(ZN_ERR_IO, "cannot write to standard output");
}

zn_status bench_sweep(const struct bench_step_flags *f)
{
    struct sweep s = {.flags = f};
    ZN_TRY(zn_calibration_load(&s.machine, &s.is_measured));
    if (!s.is_measured)
        fprintf(stderr, "zinc bench step: this machine is not measured, so the plan says nothing; `zinc doctor --measure` does it\n");
    if (f->json)
        printf("{\"benchmark\":\"sweep\",\"threads\":%lld,\"rounds\":%lld,\"rows\":[", (long long)f->threads, (long long)f->rounds);
    else
        printf("%lld layers of width %lld, window %d, fp32, %lld threads; one size at a time\n", (long long)base_shape.layers,
               (long long)base_shape.hidden, BASE_WINDOW, (long long)f->threads);
    for (int i = 0; i < N_ROWS; i++)
        ZN_TRY(run_row(&s, &rows[i]));
    if (f->json)
        printf("]}\n");
    return ZN_OK;
}
