/* The training loop: resolves the options, plans, and runs the steps. */
#include "zinc/train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/files.h"
#include "train/batch.h"
#include "train/metrics.h"
#include "train/order.h"
#include "train/output.h"
#include "train/run.h"
#include "train/schedule.h"

enum { MAX_SKIPPED = 10 };

struct training {
    struct zn_train_options options; /* with its defaults resolved */
    struct zn_run run;
    struct zn_engine_options engine;
    struct zn_schedule schedule;
    struct zn_order order;
    zn_token_source *data, *eval_data;
    zn_metrics *metrics;
    struct zn_host_batch *batches; /* one for each micro-batch of a step */
};

void zn_train_options_init(struct zn_train_options *options)
{
    *options = (struct zn_train_options){
        .output = "./zinc-out",
        .steps = -1,
        .epochs = 1,
        .micro_batch = 1,
        .accumulate = 1,
        .optimizer = "adamw",
        .beta1 = 0.9,
        .beta2 = 0.999,
        .eps = 1e-8,
        .lr_schedule = "constant",
        .clip = 1.0,
        .recompute = -1,
        .seed = 1,
        .shuffle = true,
    };
}

static zn_status parse_optimizer(const char *name, zn_optimizer *optimizer)
{
    static const char *const names[] = {"adamw", "adam", "sgd"};
    for (int i = 0; i < 3; i++) {
        if (strcmp(name, names[i]) == 0) {
            *optimizer = (zn_optimizer)i;
            return ZN_OK;
        }
    }
    return zn_fail(ZN_ERR_USAGE, "--optimizer: '%s' is not one of adamw, adam, sgd", name);
}

/* fp32 is what this version trains in; a 16-bit folder is never widened by surprise. */
static zn_status resolve_types(struct training *t)
{
    struct zn_train_options *o = &t->options;
    zn_dtype precision = t->run.style.dtype == ZN_F32 ? ZN_F32 : ZN_BF16;
    if (o->precision)
        ZN_TRY(zn_dtype_parse(o->precision, "--precision", &precision));
    if (precision != ZN_F32)
        return zn_fail(ZN_ERR_UNSUPPORTED, "--precision %s%s: not in this build; --precision fp32 is",
                       zn_dtype_name(precision), o->precision ? "" : " (the folder's own)");
    o->precision = "fp32";
    if (o->output_dtype)
        ZN_TRY(zn_dtype_parse(o->output_dtype, "--output-dtype", &t->run.style.dtype));
    return ZN_OK;
}

static zn_status resolve_steps(struct training *t)
{
    struct zn_train_options *o = &t->options;
    ZN_TRY(zn_tokens_n_windows(t->data, t->engine.time, &t->order.n_windows));
    double per_step = (double)(o->micro_batch * o->accumulate);
    if (o->steps < 0)
        o->steps = (int64_t)ceil(o->epochs * (double)t->order.n_windows / per_step);
    t->order.seed = o->seed;
    t->order.shuffle = o->shuffle;
    t->schedule.steps = o->steps;
    return ZN_OK;
}

static zn_status resolve_engine(struct training *t)
{
    struct zn_train_options *o = &t->options;
    if (o->lr == 0)
        o->lr = o->from_scratch ? 3e-4 : 2e-5;
    t->schedule.lr = o->lr;
    t->schedule.min_lr = o->min_lr;
    t->schedule.warmup = o->warmup;
    ZN_TRY(zn_schedule_parse(o->lr_schedule, &t->schedule.kind));
    t->engine.trains = true;
    t->engine.evaluates = o->n_eval_data > 0;
    t->engine.micro_batch = o->micro_batch;
    t->engine.accumulate = o->accumulate;
    t->engine.beta1 = o->beta1;
    t->engine.beta2 = o->beta2;
    t->engine.eps = o->eps;
    t->engine.weight_decay = o->weight_decay;
    t->engine.momentum = o->momentum;
    t->engine.clip = o->clip;
    return parse_optimizer(o->optimizer, &t->engine.optimizer);
}

static void report_plan(const struct training *t)
{
    const struct zn_run *run = &t->run;
    const zn_manifest *m = &run->plan.manifest;
    if (!run->listener.plan)
        return;
    struct zn_plan_report report = {
        .architecture = run->model->architecture,
        .n_parameters = zn_model_n_elements(run->model),
        .steps = t->options.steps,
        .tokens_per_step = t->engine.micro_batch * t->engine.accumulate * t->engine.time,
        .parameters = zn_manifest_bytes(m, ZN_N_TIERS, ZN_KIND_PARAMETERS),
        .gradients = zn_manifest_bytes(m, ZN_N_TIERS, ZN_KIND_GRADIENTS),
        .optimizer = zn_manifest_bytes(m, ZN_N_TIERS, ZN_KIND_OPTIMIZER),
        .activations = zn_manifest_bytes(m, ZN_N_TIERS, ZN_KIND_ACTIVATIONS),
        .buffers = zn_manifest_bytes(m, ZN_N_TIERS, ZN_KIND_BUFFERS),
        .memory_limit = run->memory_limit,
        .recompute = t->engine.recompute,
        .threads = run->threads,
        .isa = run->isa,
    };
    run->listener.plan(run->listener.self, &report);
}

static zn_status make_batches(struct training *t)
{
    t->batches = calloc((size_t)t->engine.accumulate, sizeof *t->batches);
    if (!t->batches)
        return zn_fail(ZN_ERR_MEMORY, "no memory for %lld micro-batches", (long long)t->engine.accumulate);
    for (int64_t a = 0; a < t->engine.accumulate; a++)
        ZN_TRY(zn_host_batch_init(&t->batches[a], t->engine.micro_batch, t->engine.time));
    return ZN_OK;
}

static zn_status open_log(struct training *t)
{
    const struct zn_train_options *o = &t->options;
    if (o->log)
        return zn_metrics_create(o->log, &t->metrics);
    char *path;
    ZN_TRY(zn_path_join(o->output, "metrics.jsonl", &path));
    zn_status status = zn_metrics_create(path, &t->metrics);
    free(path);
    return status;
}

static zn_status set_up(struct training *t)
{
    struct zn_train_options *o = &t->options;
    struct zn_run *run = &t->run;
    t->engine.time = o->seq_len;
    ZN_TRY(resolve_engine(t));
    ZN_TRY(zn_run_open_model(run, o->model, o->from_scratch, &t->engine.time));
    ZN_TRY(resolve_types(t));
    ZN_TRY(zn_run_measure(run, o->threads, o->memory_limit));
    ZN_TRY(zn_run_open_data(run, o->model, o->data, o->n_data, &t->data));
    ZN_TRY(resolve_steps(t));
    if (o->n_eval_data > 0) {
        int64_t n_windows;
        ZN_TRY(zn_run_open_data(run, o->model, o->eval_data, o->n_eval_data, &t->eval_data));
        ZN_TRY(zn_tokens_n_windows(t->eval_data, t->engine.time, &n_windows));
    }
    ZN_TRY(zn_run_plan(run, &t->engine, o->recompute));
    report_plan(t);
    ZN_TRY(zn_output_prepare(o->output, o->model, o->overwrite));
    ZN_TRY(make_batches(t));
    ZN_TRY(zn_run_start(run, &t->engine, o->seed));
    ZN_TRY(zn_output_write_run(o->output, run, o, &t->engine));
    return open_log(t);
}

/* Step s (from 0), accumulation a, row b takes sample (s·A + a)·B + b. */
static zn_status fill_batches(struct training *t, int64_t step, int64_t *n_targets)
{
    *n_targets = 0;
    for (int64_t a = 0; a < t->engine.accumulate; a++) {
        for (int64_t b = 0; b < t->engine.micro_batch; b++) {
            int64_t sample = (step * t->engine.accumulate + a) * t->engine.micro_batch + b;
            ZN_TRY(zn_host_batch_fill(&t->batches[a], b, t->data, zn_order_window(&t->order, sample)));
        }
        *n_targets += zn_host_batch_n_targets(&t->batches[a]);
    }
    return ZN_OK;
}

static zn_status run_step(struct training *t, int64_t step, double lr, struct zn_verdict *verdict,
                          int64_t *n_targets)
{
    ZN_TRY(fill_batches(t, step, n_targets));
    if (*n_targets == 0)
        return zn_fail(ZN_ERR_INPUT, "step %lld has no target that counts", (long long)step + 1);
    float scale = (float)(1.0 / (double)*n_targets);
    for (int64_t a = 0; a < t->engine.accumulate; a++)
        ZN_TRY(zn_engine_micro_batch(t->run.engine, t->batches[a].ids, t->batches[a].targets, scale));
    return zn_engine_finish_step(t->run.engine, lr, verdict);
}

static zn_status evaluate_if_due(struct training *t, int64_t step, double *loss)
{
    const struct zn_train_options *o = &t->options;
    bool due = step == o->steps || (o->eval_every > 0 && step % o->eval_every == 0);
    *loss = NAN;
    if (!t->eval_data || !due)
        return ZN_OK;
    struct zn_eval_result result;
    ZN_TRY(zn_run_evaluate(&t->run, &t->engine, t->eval_data, &result));
    *loss = result.loss;
    return ZN_OK;
}

static size_t peak_resident(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (size_t)usage.ru_maxrss * 1024;
}

static zn_status report_step(struct training *t, struct zn_step_report *report)
{
    report->steps = t->options.steps;
    report->device_bytes = t->run.ledger.tier_peak[ZN_TIER_DEVICE];
    report->resident_bytes = peak_resident();
    ZN_TRY(zn_metrics_step(t->metrics, report, &t->run.ledger));
    if (t->run.listener.step)
        t->run.listener.step(t->run.listener.self, report);
    return ZN_OK;
}

static zn_status run_steps(struct training *t)
{
    int n_skipped = 0;
    for (int64_t step = 0; step < t->options.steps; step++) {
        struct zn_verdict verdict;
        int64_t n_targets;
        double start = zn_clock_now(&t->run.clock);
        double lr = zn_schedule_lr(&t->schedule, zn_engine_updates(t->run.engine) + 1);
        ZN_TRY(run_step(t, step, lr, &verdict, &n_targets));
        struct zn_step_report report = {.step = step + 1,
                                        .loss = verdict.loss / (double)n_targets,
                                        .grad_norm = verdict.norm,
                                        .lr = lr,
                                        .seconds = zn_clock_now(&t->run.clock) - start,
                                        .tokens = n_targets,
                                        .skipped = verdict.skipped,
                                        .reason = verdict.reason};
        ZN_TRY(evaluate_if_due(t, step + 1, &report.eval_loss));
        ZN_TRY(report_step(t, &report));
        n_skipped = verdict.skipped ? n_skipped + 1 : 0;
        if (n_skipped == MAX_SKIPPED)
            return zn_fail(ZN_ERR_NUMERIC, "%d steps in a row were skipped, the last (%lld) because the %s",
                           MAX_SKIPPED, (long long)step + 1, verdict.reason);
    }
    return ZN_OK;
}

zn_status zn_train(const struct zn_train_options *options)
{
    struct training t = {.options = *options};
    zn_run_init(&t.run, &options->listener);
    zn_status status = set_up(&t);
    if (status == ZN_OK)
        status = run_steps(&t);
    if (status == ZN_OK)
        status = zn_output_write_model(t.options.output, t.options.model, &t.run);
    zn_metrics_destroy(t.metrics);
    for (int64_t a = 0; t.batches && a < t.engine.accumulate; a++)
        zn_host_batch_fini(&t.batches[a]);
    free(t.batches);
    zn_tokens_close(t.data);
    zn_tokens_close(t.eval_data);
    zn_run_fini(&t.run);
    return status;
}
