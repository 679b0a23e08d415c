/* The training loop. */
#include "zinc/train.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/files.h"
#include "train/output.h"
#include "train/tracing.h"
#include "train/train.h"
#include "train/training.h"

enum { MAX_SKIPPED = 10 };

/* What a step processes. */
struct step_size {
    int64_t n_tokens, n_targets;
    int64_t n_losses; /* what the loss is a mean of: targets, or pairs */
};

/* Step s (from 0), accumulation a, data rank r of N, row b takes sample ((s·A + a)·N + r)·B + b, counted from where a run
 * that goes on was. */
static zn_status fill_batches(struct training *t, int64_t step, struct step_size *mine)
{
    int64_t first = zn_saving_consumed(t->saving, step);
    *mine = (struct step_size){0};
    for (int64_t a = 0; a < t->engine.accumulate; a++) {
        int64_t at = first + (a * t->run.mesh.data + zn_run_data_rank(&t->run)) * t->engine.micro_batch;
        for (int64_t b = 0; b < t->engine.micro_batch; b++)
            t->which[b] = zn_order_window(&t->order, at + b);
        ZN_TRY(zn_host_batch_fill(&t->batches[a], t->windows, t->which));
        t->views[a] = zn_host_batch_view(&t->batches[a]);
        mine->n_tokens += t->batches[a].n_tokens;
        mine->n_targets += t->batches[a].n_targets;
        mine->n_losses += t->batches[a].n_losses;
    }
    return ZN_OK;
}

/* The first failure that does not keep the run from what is still to be done: it is told at the end. Every rank has it
 * alike. */
static void remember(struct training *t, zn_status status)
{
    if (status == ZN_OK || t->failure != ZN_OK)
        return;
    t->failure = status;
    snprintf(t->failure_text, sizeof t->failure_text, "%s", zn_error_message());
}

/* Ends the run with that failure after saving the steps that are done. */
static zn_status stop_early(struct training *t, int64_t n_done)
{
    t->ends_alike = true;
    return zn_saving_stop(t->saving, n_done, t->n_skipped, zn_fail_text(t->failure, t->failure_text));
}

/* Tokens and targets of the step over all ranks; targets are -1 where one of them could not read its data. */
static zn_status sum_sizes(struct training *t, const struct step_size *mine, struct step_size *sum)
{
    int n_ranks = zn_comm_n_ranks(t->run.comm);
    struct step_size *all = calloc((size_t)n_ranks, sizeof *all);
    *sum = (struct step_size){0};
    if (!all)
        return zn_fail(ZN_ERR_MEMORY, "no memory for %d ranks", n_ranks);
    zn_status status = zn_comm_exchange(t->run.comm, mine, sizeof *mine, all);
    for (int r = 0; r < n_ranks; r++) {
        if (all[r].n_targets >= 0 && !zn_run_counts_data(&t->run, r)) /* another rank counts the same */
            continue;
        sum->n_tokens += all[r].n_tokens;
        sum->n_losses += all[r].n_losses;
        sum->n_targets = all[r].n_targets < 0 || sum->n_targets < 0 ? -1 : sum->n_targets + all[r].n_targets;
    }
    free(all);
    return status;
}

/* All ranks have their micro-batches, or the run stops before the step. */
static zn_status read_batches(struct training *t, int64_t step, struct step_size *size)
{
    struct step_size mine;
    zn_status filled = fill_batches(t, step, &mine);
    if (filled != ZN_OK)
        mine = (struct step_size){.n_targets = -1};
    ZN_TRY(sum_sizes(t, &mine, size));
    if (size->n_targets >= 0)
        return ZN_OK;
    remember(t, zn_comm_agree(t->run.comm, filled));
    return stop_early(t, step);
}

static zn_status run_step(struct training *t, double lr, int64_t n_losses, struct zn_verdict *verdict)
{
    double loss_scale = t->loss_scale.scale;
    if (n_losses == 0) { /* windows of nothing but prompts; the same on every rank */
        *verdict = (struct zn_verdict){.skipped = true, .reason = "step has no target that counts"};
        return ZN_OK;
    }
    float scale = (float)(loss_scale / (double)n_losses);
    const struct zn_step input = {.batches = t->views, .scale = scale, .lr = lr, .loss_scale = loss_scale};
    return zn_zero_step(t->run.engine, &input, verdict);
}

/* --early-stop. After the last step the weights are in the output folder already. */
static zn_status keep_best(struct training *t, int64_t step)
{
    if (!ZN_GIVEN(&t->settings, early_stop) || !zn_best_take(&t->best, step, t->held_out.loss) || step == t->settings.steps)
        return ZN_OK;
    return zn_best_write(&t->run, t->settings.output, step);
}

static bool stops_early(const struct training *t)
{
    return ZN_GIVEN(&t->settings, early_stop) && t->best.n_worse >= t->settings.early_stop;
}

/* Data that cannot be evaluated leave the engine as it is. */
static zn_status evaluate_if_due(struct training *t, int64_t step, struct zn_step_report *report)
{
    const struct zn_settings *o = &t->settings;
    bool due = step == 0 || step == o->steps || (o->eval_every > 0 && step % o->eval_every == 0);
    if (!t->eval_windows || !due || t->failure != ZN_OK)
        return ZN_OK;
    zn_status status = zn_run_evaluate(&t->run, &t->engine, t->eval_windows, &t->held_out);
    report->evaluated = status == ZN_OK;
    report->eval_loss = t->held_out.loss;
    report->eval_reason = t->held_out.reason[0] ? t->held_out.reason : NULL;
    if (status == ZN_OK)
        remember(t, keep_best(t, step));
    else if (t->run.is_evaluation_alike)
        remember(t, zn_add_context(status, "held-out data"));
    return t->run.is_evaluation_alike ? ZN_OK : status;
}

static size_t peak_resident(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (size_t)usage.ru_maxrss * 1024;
}

/* A log that cannot be written is no reason to lose what is trained: the run goes on without it and ends with the cause. */
static void write_log(struct training *t, const struct zn_step_report *report)
{
    if (!t->metrics)
        return;
    if ((report->step == 0 ? zn_metrics_start(t->metrics, report)
                           : zn_metrics_step(t->metrics, report, &t->run.ledger)) == ZN_OK)
        return;
    snprintf(t->log_failure, sizeof t->log_failure, "%s", zn_error_message());
    zn_run_note(&t->run, "%s; the run goes on without a log from step %lld on", t->log_failure, (long long)report->step);
    zn_metrics_destroy(t->metrics);
    t->metrics = NULL;
}

static void measure_memory(const struct training *t, struct zn_step_report *report)
{
    report->steps = t->settings.steps;
    report->device_bytes = t->run.ledger.tier_peak[ZN_TIER_DEVICE];
    report->host_bytes = t->run.ledger.tier_peak[ZN_TIER_HOST];
    report->nvme_bytes = t->run.ledger.tier_peak[ZN_TIER_NVME];
    report->resident_bytes = peak_resident();
}

static void report_step(struct training *t, struct zn_step_report *report)
{
    measure_memory(t, report);
    write_log(t, report);
    zn_summary_step(&t->summary, report);
    zn_card_step(&t->card, report);
    if (t->run.listener.step)
        t->run.listener.step(t->run.listener.self, report);
}

/* What the weights are worth before the first step, to hold the rest to. */
static zn_status evaluate_at_start(struct training *t)
{
    struct zn_step_report report = {.step = 0, .steps = t->settings.steps};
    if (!t->eval_windows || zn_saving_resumed_step(t->saving) >= 0)
        return ZN_OK;
    ZN_TRY(evaluate_if_due(t, 0, &report));
    if (t->failure != ZN_OK)
        return stop_early(t, 0);
    write_log(t, &report);
    zn_card_step(&t->card, &report);
    if (t->run.listener.step)
        t->run.listener.step(t->run.listener.self, &report);
    return ZN_OK;
}

static zn_status judge_step(struct training *t, int64_t step, const struct zn_verdict *verdict)
{
    if (!verdict->skipped)
        t->n_skipped = 0;
    else if (t->engine.type != ZN_F16 || zn_loss_scale_is_least(&t->loss_scale))
        t->n_skipped++;
    zn_loss_scale_update(&t->loss_scale, verdict->skipped);
    if (t->n_skipped < MAX_SKIPPED)
        return ZN_OK;
    return zn_fail(ZN_ERR_NUMERIC, "%d steps in a row were skipped, the last (%lld) because the %s", MAX_SKIPPED,
                   (long long)step + 1, verdict->reason);
}

/* The verdict's reason is borrowed by the report. */
static zn_status compute_step(struct training *t, int64_t step, struct zn_verdict *verdict, struct zn_step_report *report)
{
    uint64_t sent = zn_run_bytes_sent(&t->run);
    const struct zn_moved before = zn_engine_moved(t->run.engine);
    double start = zn_clock_now(&t->run.clock);
    double lr = zn_schedule_lr(&t->schedule, zn_engine_decided(t->run.engine) + 1);
    struct step_size size;
    zn_progress_begin_step(t->run.listener.progress, step + 1);
    ZN_TRY(read_batches(t, step, &size));
    ZN_TRY(run_step(t, lr, size.n_losses, verdict));
    const struct zn_moved now = zn_engine_moved(t->run.engine);
    *report = (struct zn_step_report){.step = step + 1,
                                      .loss = verdict->loss / (double)size.n_losses,
                                      .has_pairs = t->engine.has_pairs,
                                      .accuracy = verdict->n_right / (double)size.n_losses,
                                      .margin = verdict->margins / (double)size.n_losses,
                                      .grad_norm = verdict->norm,
                                      .lr = lr,
                                      .scale = t->loss_scale.scale,
                                      .seconds = zn_clock_now(&t->run.clock) - start,
                                      .tokens = size.n_tokens,
                                      .targets = size.n_targets,
                                      .skipped = verdict->skipped,
                                      .reason = verdict->reason,
                                      .comm_bytes = zn_run_bytes_sent(&t->run) - sent,
                                      .nvme_read_bytes = now.read - before.read,
                                      .nvme_write_bytes = now.written - before.written};
    t->n_updated += !verdict->skipped;
    if (size.n_targets > 0) /* else it says nothing about the numbers */
        remember(t, judge_step(t, step, verdict));
    return ZN_OK;
}

/* The best weights take the place of those of the last step. */
static zn_status place_best(struct training *t, int64_t n_done)
{
    if (!ZN_GIVEN(&t->settings, early_stop) || t->best.step < 0 || t->failure != ZN_OK)
        return ZN_OK;
    zn_run_note(&t->run, "the output has the weights of step %lld, whose held-out loss %.6g is the lowest", (long long)t->best.step,
                t->best.loss);
    zn_status status = ZN_OK;
    if (zn_comm_rank(t->run.comm) == 0)
        status = t->best.step == n_done ? zn_best_prune(t->settings.output, -1) : zn_best_place(t->settings.output, t->best.step);
    return zn_comm_agree(t->run.comm, status);
}

/* The last checkpoint is made before an update that is pending is applied: a run that goes on has it still before it. A
 * disk that is too full for the checkpoint may have room for the model. */
static zn_status write_output(struct training *t, int64_t n_done)
{
    zn_status saved;
    ZN_TRY(zn_saving_end(t->saving, n_done, t->n_skipped, &saved));
    remember(t, saved);
    ZN_TRY(zn_zero_finish(t->run.engine));
    return t->run.is_temporary ? ZN_OK : zn_output_write_model(t->settings.output, &t->run);
}

/* The log has the last step before a checkpoint of it is there, and its held-out loss in that same line later. */
static zn_status end_last_step(struct training *t, struct zn_step_report *report)
{
    measure_memory(t, report);
    if (t->metrics && zn_metrics_can_replace(t->metrics))
        write_log(t, report);
    return write_output(t, t->settings.steps);
}

/* After the last step the weights are written first: whatever fails in the evaluation, they are there. */
static zn_status one_step(struct training *t, int64_t step, struct zn_step_report *report)
{
    bool is_last = step + 1 == t->settings.steps;
    zn_tracing_before(t->tracing, step);
    ZN_TRY(compute_step(t, step, &t->verdict, report));
    ZN_TRY(zn_tracing_after(t->tracing, step));
    t->step = step + 1;
    zn_status status = is_last ? end_last_step(t, report) : ZN_OK;
    if (status == ZN_OK)
        status = evaluate_if_due(t, step + 1, report);
    report_step(t, report);
    ZN_TRY(status);
    if (is_last)
        return place_best(t, step + 1);
    if (t->failure == ZN_OK && stops_early(t))
        return ZN_OK;
    return t->failure == ZN_OK ? zn_saving_after_step(t->saving, step + 1, t->n_skipped) : stop_early(t, step + 1);
}

/* The run ends before its last step. */
static zn_status end_early(struct training *t, int64_t n_done)
{
    zn_run_note(&t->run, "ends after step %lld of %lld: %lld evaluations in a row without a lower held-out loss", (long long)n_done,
                (long long)t->settings.steps, (long long)t->best.n_worse);
    ZN_TRY(write_output(t, n_done));
    return place_best(t, n_done);
}

/* Nothing is left to train, but for --early-stop to compare the weights with the best. */
static zn_status end_at_once(struct training *t, int64_t n_done)
{
    struct zn_step_report report;
    ZN_TRY(write_output(t, n_done));
    if (!ZN_GIVEN(&t->settings, early_stop) || n_done == 0)
        return ZN_OK;
    ZN_TRY(evaluate_if_due(t, n_done, &report));
    return place_best(t, n_done);
}

bool training_is_done(const struct training *t)
{
    return t->is_over || t->step >= t->settings.steps || stops_early(t);
}

zn_status training_step(struct training *t, struct zn_step_report *report)
{
    struct zn_step_report own;
    report = report ? report : &own;
    *report = (struct zn_step_report){0};
    if (training_is_done(t))
        return zn_fail(ZN_ERR_USAGE, "all %lld steps of the run are done, or it stopped early: steps says how many there are", (long long)t->settings.steps);
    return one_step(t, t->step, report);
}

/* Rank 0: the run is marked as finished, and its log is whole. */
static zn_status end_records(const struct training *t)
{
    if (zn_comm_rank(t->run.comm) == 0)
        ZN_TRY(zn_output_write_run(t->settings.output, &t->run, &t->settings, true));
    return t->log_failure[0] ? zn_fail_text(ZN_ERR_IO, t->log_failure) : ZN_OK;
}

/* Rank 0: the summary is told and kept beside the log. It is no reason to fail a run that has its model. */
static void tell_summary(struct training *t)
{
    zn_text text;
    char *path = NULL;
    if (zn_comm_rank(t->run.comm) != 0 || t->summary.first_step == 0)
        return;
    t->summary.saved = zn_saving_bytes(t->saving) + (double)t->model_bytes;
    zn_text_init(&text);
    zn_summary_add(&text, &t->summary, &t->run);
    zn_status status = zn_text_status(&text);
    if (status == ZN_OK && t->run.listener.summary)
        t->run.listener.summary(t->run.listener.self, text.data);
    if (status == ZN_OK)
        status = zn_path_join(t->settings.output, "summary.txt", &path);
    if (status == ZN_OK)
        status = zn_file_write(path, text.data, text.n_bytes);
    if (status != ZN_OK)
        zn_run_note(&t->run, "no summary: %s", zn_error_message());
    free(path);
    zn_text_fini(&text);
}

/* Rank 0. It is no reason to fail a run that has its model, either. */
static void write_card(const struct training *t)
{
    if (zn_comm_rank(t->run.comm) == 0 && zn_card_write(&t->card, &t->run, &t->settings) != ZN_OK)
        zn_run_note(&t->run, "no model card: %s", zn_error_message());
}

/* Everything is written; what went wrong on the way is told, alike on every rank. */
static zn_status end_run(struct training *t)
{
    if (!t->run.is_temporary)
        write_card(t);
    if (t->run.listener.end && !t->run.is_temporary)
        t->run.listener.end(t->run.listener.self, t->settings.output);
    tell_summary(t);
    remember(t, zn_comm_agree(t->run.comm, end_records(t)));
    t->ends_alike = true;
    return t->failure == ZN_OK ? ZN_OK : zn_fail_text(t->failure, t->failure_text);
}

zn_status training_end(struct training *t)
{
    int64_t first = zn_saving_first_step(t->saving), steps = t->settings.steps;
    if (t->is_over)
        return ZN_OK;
    if (!training_is_done(t))
        return zn_fail(ZN_ERR_USAGE, "%lld of %lld steps are done: the run has not come to its end", (long long)t->step,
                       (long long)steps);
    if (first == steps)
        ZN_TRY(end_at_once(t, steps));
    else if (t->step < steps)
        ZN_TRY(end_early(t, t->step));
    if (t->step > first && t->n_updated == 0)
        remember(t, zn_fail(ZN_ERR_NUMERIC, "every step of this run was skipped (%lld): the weights written are those it "
                            "began with; the log has the reasons", (long long)(t->step - first)));
    return end_run(t);
}

/* What is agreed upon the others have already, as they have a stop: so it is with all failures before there is a device. */
void training_tell_failure(const struct training *t, zn_status status)
{
    const struct zn_train_listener *listener = &t->options->listener;
    if (status != ZN_ERR_INTERRUPTED && !t->ends_alike && t->run.device)
        zn_comm_abort(t->run.comm, status);
    if (listener->failed)
        listener->failed(listener->self, zn_error_message(), zn_comm_speaks(t->run.comm));
}

zn_status training_begin(struct training *t, const struct training_setup *setup)
{
    const struct zn_train_options *options = setup->options;
    *t = (struct training){.options = options, .settings = options->settings, .best.step = -1};
    zn_run_init(&t->run, setup->comm, &options->listener);
    t->run.network = setup->network;
    t->run.is_temporary = setup->is_temporary;
    t->summary.began = zn_clock_now(&t->run.clock);
    t->run.origin = (struct zn_run_origin){options->command_line, options->settings.trace, time(NULL)};
    t->run.rows = (struct zn_row_options){.map = t->settings.map.word, .n_map = t->settings.map.n,
                                          .pairs = strcmp(t->settings.objective, "dpo") == 0};
    ZN_TRY(training_set_up(t));
    t->is_over = zn_saving_is_done(t->saving);
    if (t->is_over)
        return ZN_OK;
    t->step = zn_saving_first_step(t->saving);
    ZN_TRY(zn_comm_agree(setup->comm, zn_tracing_begin(t, &t->tracing)));
    ZN_TRY(evaluate_at_start(t));
    zn_saving_restore(t->saving, &t->n_skipped);
    return ZN_OK;
}

void training_fini(struct training *t)
{
    zn_saving_destroy(t->saving);
    zn_metrics_destroy(t->metrics);
    for (int64_t a = 0; t->batches && a < t->engine.accumulate; a++)
        zn_host_batch_fini(&t->batches[a]);
    free(t->batches);
    free(t->views);
    free(t->which);
    free(t->frozen);
    zn_windows_destroy(t->windows);
    zn_windows_destroy(t->eval_windows);
    zn_data_part_fini(&t->trained);
    zn_data_part_fini(&t->held_out_part);
    zn_data_close(&t->data);
    zn_data_close(&t->eval_data);
    zn_run_fini(&t->run);
    zn_tracing_destroy(t->tracing);
}

zn_status zn_train_as_rank(const struct zn_train_options *options, zn_comm *comm)
{
    struct training t;
    zn_status status = training_begin(&t, &(struct training_setup){.options = options, .comm = comm});
    while (status == ZN_OK && !training_is_done(&t))
        status = training_step(&t, NULL);
    if (status == ZN_OK)
        status = training_end(&t);
    if (status != ZN_OK)
        training_tell_failure(&t, status);
    training_fini(&t);
    return status;
}

zn_status zn_train(const struct zn_train_options *options)
{
    zn_clock clock;
    zn_comm *comm;
    zn_clock_init_real(&clock);
    ZN_TRY(zn_comm_is_launched() ? zn_comm_create_mpi(&clock, &comm) : zn_comm_create_self(&clock, &comm));
    zn_status status = zn_train_as_rank(options, comm);
    zn_comm_destroy(comm);
    return status;
}
