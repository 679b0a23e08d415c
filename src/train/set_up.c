/* What comes before the first step: opens model, data and output folder, plans, checks the room, and starts the engine. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"
#include "plan/calibrate_machine.h"
#include "plan/predict.h"
#include "train/adapters.h"
#include "train/agreement.h"
#include "train/binding.h"
#include "train/device.h"
#include "train/output.h"
#include "train/room.h"
#include "train/training.h"

/* Before the process is bound to some of the cores: the file is that of all of them. */
static double core_flops(const struct training *t)
{
    struct zn_cluster machine;
    bool is_found;
    if (zn_calibration_load(&machine, &is_found) != ZN_OK || !is_found || machine.device.cores <= 0)
        return 0;
    return machine.device.flops[t->engine.type] / machine.device.cores;
}

/* Of what a rank computes on; 0: nobody measured it. */
static double peak_flops(const struct training *t)
{
    const struct zn_run *run = &t->run;
    if (!run->accelerator)
        return t->peak_flops * run->threads;
    return run->peak_flops_known ? run->figures.device.flops[t->engine.type] : 0;
}

static void report_plan(struct training *t, const struct zn_room *room)
{
    const struct zn_run *run = &t->run;
    const zn_manifest *m = &run->plan.manifest;
    struct zn_plan_report report = {
        .architecture = run->model->architecture,
        .n_parameters = zn_model_n_elements(run->model),
        .n_adapters = zn_run_has_adapters(run) ? zn_model_n_written(run->model) : 0,
        .steps = t->settings.steps,
        .tokens_per_step =
            t->engine.micro_batch * t->engine.accumulate * t->engine.seq_len * run->mesh.data,
        .memory_limit = run->memory_limit,
        .device = run->accelerator ? zn_accelerator_name(run->accelerator) : NULL,
        .device_limit = run->device_limit,
        .shares_memory = !run->accelerator || zn_accelerator_info(run->accelerator)->shares_memory,
        .recompute = run->recompute,
        .vertical = t->engine.vertical,
        .schedule_reason = run->schedule_reason,
        .tile_bytes = t->engine.tile_bytes,
        .process_bytes = zn_run_overhead(run),
        .ranks = zn_comm_n_ranks(run->comm),
        .stage = t->engine.stage,
        .precision = t->settings.precision,
        .threads = run->threads,
        .isa = run->isa,
        .checkpoint_every = t->settings.checkpoint_every,
        .keep = t->settings.keep,
        .saves_at_end = strcmp(t->settings.save, "all") == 0,
        .flops = zn_step_flops(run->model, &t->engine),
        .peak_flops = peak_flops(t),
    };
    t->run.planned.process_bytes = report.process_bytes;
    t->run.planned.flops = report.flops;
    t->run.planned.peak_flops = report.peak_flops;
    zn_room_sizes(run, room, &report.model_bytes, &report.checkpoint_bytes);
    zn_saving_set_bytes(t->saving, report.checkpoint_bytes);
    t->model_bytes = report.model_bytes;
    for (int tier = 0; tier < ZN_N_TIERS; tier++) {
        for (int kind = 0; kind < ZN_N_KINDS; kind++)
            report.bytes[kind][tier] = zn_manifest_bytes(m, (zn_tier)tier, (zn_kind)kind);
        bool is_process = tier == ZN_TIER_HOST || (tier == ZN_TIER_DEVICE && report.shares_memory);
        for (int kind = 0; kind < ZN_N_KINDS && is_process; kind++)
            t->run.planned.process_bytes += report.bytes[kind][tier];
    }
    if (run->listener.plan)
        run->listener.plan(run->listener.self, &report);
}

static zn_status make_batches(struct training *t)
{
    t->batches = calloc((size_t)t->engine.accumulate, sizeof *t->batches);
    t->views = calloc((size_t)t->engine.accumulate, sizeof *t->views);
    t->which = calloc((size_t)t->engine.micro_batch, sizeof *t->which);
    if (!t->batches || !t->views || !t->which)
        return zn_fail(ZN_ERR_MEMORY, "no memory for %lld micro-batches", (long long)t->engine.accumulate);
    for (int64_t a = 0; a < t->engine.accumulate; a++)
        ZN_TRY(zn_host_batch_init(&t->batches[a], t->engine.micro_batch, t->engine.seq_len));
    return ZN_OK;
}

static zn_status open_log(struct training *t)
{
    const struct zn_settings *o = &t->settings;
    int64_t resumed = zn_saving_resumed_step(t->saving);
    char *path = NULL;
    if (!ZN_GIVEN(o, log))
        ZN_TRY(zn_path_join(o->output, "metrics.jsonl", &path));
    const char *log = path ? path : o->log;
    zn_status status = resumed >= 0 ? zn_metrics_continue(log, resumed, &t->metrics)
                                    : zn_metrics_create(log, &t->metrics);
    free(path);
    ZN_TRY(status);
    ZN_TRY(zn_path_join(o->output, "tensorboard", &path));
    status = zn_metrics_add_events(t->metrics, path, resumed);
    free(path);
    return status;
}

/* Before any work: what is written at the end can be written. */
static zn_status check_outputs(const struct zn_settings *o)
{
    ZN_TRY(zn_output_check(o->output, o->model, o->overwrite || ZN_GIVEN(o, resume)));
    ZN_TRY(zn_output_check_file("--log", o->log, o->output));
    return zn_output_check_file("--trace", o->trace, o->output);
}

/* The model and the machine: no rank waits for another here. */
static zn_status open_inputs(struct training *t)
{
    struct zn_settings *o = &t->settings;
    struct zn_run *run = &t->run;
    zn_progress_begin(run->listener.progress, "opening the model", NULL, 0);
    t->engine.seq_len = o->seq_len;
    ZN_TRY(settings_resolve(t));
    if (zn_optimizer_is_lossy(t->engine.optimizer))
        zn_run_note(run, "--optimizer %s is lossy: its moments are kept in %s, not in fp32", t->engine.optimizer->name,
                    t->engine.optimizer->state[0].type == ZN_BF16 ? "bf16" : "8 bits");
    run->byte_tokenizer = o->byte_tokenizer;
    ZN_TRY(zn_run_resolve_adapters(run, o));
    ZN_TRY(zn_run_find_model(run, &o->model));
    ZN_TRY(zn_run_hold_files(run, o->model));
    ZN_TRY(zn_run_open_model(run, o->model, o->from_scratch, &t->engine.seq_len));
    ZN_TRY(zn_run_check_adapters(run, (uint64_t)o->seed));
    ZN_TRY(settings_resolve_model(t));
    ZN_TRY(zn_run_measure(run, (int)o->threads, o->memory_limit));
    t->peak_flops = core_flops(t);
    ZN_TRY(zn_run_open_device(run, o));
    if (zn_comm_rank(run->comm) == 0)
        ZN_TRY(check_outputs(o));
    return make_batches(t);
}

static zn_status make_windows(struct training *t, const struct zn_data *data, const struct zn_data_part *part, const char *what,
                              zn_windows **windows)
{
    const struct zn_windows_options options = {.seq_len = t->engine.seq_len,
                                               .packing = t->packing,
                                               .truncate = t->settings.truncate_rows,
                                               .max_seq_len = t->run.model->max_positions,
                                               .what = what,
                                               .part = part};
    ZN_TRY(zn_windows_create(&t->run, data, &options, windows));
    t->engine.has_examples = t->engine.has_examples || zn_windows_has_examples(*windows);
    t->run.data_bytes += zn_windows_bytes(*windows) + (part ? zn_data_part_bytes(part) : 0);
    if (zn_windows_has_examples(*windows))
        zn_run_note(&t->run, "%s: %lld %s in %lld windows of at most %lld tokens, %.0f%% filled", what,
                    (long long)zn_windows_n_examples(*windows), zn_windows_has_pairs(*windows) ? "pairs" : "examples", (long long)zn_windows_n_packed(*windows),
                    (long long)t->engine.seq_len, 100 * zn_windows_filled(*windows));
    return ZN_OK;
}

static zn_status open_windows(struct training *t, const struct zn_data_options *from, const char *what,
                              struct zn_data *data, zn_windows **windows)
{
    ZN_TRY(zn_run_open_data(&t->run, from, data));
    t->run.data_bytes += zn_examples_bytes(data->examples);
    return make_windows(t, data, NULL, what, windows);
}

/* Both kinds of windows from the same data. */
static zn_status open_split(struct training *t, const struct zn_data_options *from)
{
    const struct zn_settings *o = &t->settings;
    const struct zn_split split = {.fraction = o->eval_split, .seed = (uint64_t)o->seed, .shuffle = o->shuffle};
    ZN_TRY(zn_run_open_data(&t->run, from, &t->data));
    t->run.data_bytes += zn_examples_bytes(t->data.examples);
    ZN_TRY(zn_split_data(&t->data, &split, &t->trained, &t->held_out_part));
    ZN_TRY(make_windows(t, &t->data, &t->trained, "--data", &t->windows));
    return make_windows(t, &t->data, &t->held_out_part, "--eval-split", &t->eval_windows);
}

static zn_status open_data_from(struct training *t, const char *cache, bool may_encode)
{
    struct zn_settings *o = &t->settings;
    struct zn_data_options from = {.folder = o->model, .paths = o->data.word, .n_paths = o->data.n, .cache = cache,
                                   .may_encode = may_encode, .packing = t->packing};
    ZN_TRY(ZN_GIVEN(o, eval_split) ? open_split(t, &from) : open_windows(t, &from, "--data", &t->data, &t->windows));
    ZN_TRY(zn_packing_check(o->packing, o->truncate_rows, zn_windows_has_examples(t->windows)));
    t->packing_name = zn_packing_name(zn_windows_has_examples(t->windows) ? t->packing : ZN_PACKING_STREAM);
    ZN_TRY(settings_resolve_steps(t));
    if (o->eval_data.n == 0)
        return ZN_OK;
    from.paths = o->eval_data.word;
    from.n_paths = o->eval_data.n;
    return open_windows(t, &from, "--eval-data", &t->eval_data, &t->eval_windows);
}

/* Text is encoded by rank 0, and then read by all. */
static zn_status open_data(struct training *t, bool encodes)
{
    char *cache;
    const char *output = t->settings.output;
    if (encodes != (zn_comm_rank(t->run.comm) == 0))
        return ZN_OK;
    bool was_there = zn_folder_exists(output);
    ZN_TRY(zn_path_join(output, "cache", &cache));
    zn_status status = encodes ? zn_folder_remove_left(cache) : ZN_OK; /* of an encoding that was killed */
    if (status == ZN_OK)
        status = open_data_from(t, cache, encodes);
    if (status != ZN_OK && encodes && rmdir(cache) == 0 && !was_there) /* only what is empty goes */
        rmdir(output);
    free(cache);
    return status;
}

static zn_status open_output(struct training *t, const struct zn_room *room)
{
    const struct zn_settings *o = &t->settings;
    if (zn_comm_rank(t->run.comm) != 0)
        return ZN_OK;
    report_plan(t, room);
    ZN_TRY(zn_folder_create(o->output));
    ZN_TRY(zn_saving_prepare(t->saving));
    ZN_TRY(zn_output_write_run(o->output, &t->run, o, false));
    return open_log(t);
}

zn_status training_set_up(struct training *t)
{
    zn_comm *comm = t->run.comm;
    ZN_TRY(zn_comm_agree(comm, open_inputs(t)));
    ZN_TRY(zn_agree_on_resume(&t->run, &t->settings));
    ZN_TRY(zn_saving_open(&(struct zn_saving_setup){&t->run, &t->settings, &t->engine, &t->order, &t->data, &t->packing_name,
                                                    &t->loss_scale, &t->best, t->options->stop, t->options->stop_self},
                          &t->saving));
    ZN_TRY(zn_comm_agree(comm, open_data(t, true)));
    ZN_TRY(zn_comm_agree(comm, open_data(t, false)));
    if (zn_saving_is_done(t->saving))
        return ZN_OK;
    ZN_TRY(zn_run_bind(&t->run, (int)t->settings.threads));
    ZN_TRY(zn_agree_on_machine(&t->run));
    zn_progress_begin(t->run.listener.progress, "planning", NULL, 0);
    ZN_TRY(zn_comm_agree(comm, zn_run_plan(&t->run, &t->engine, &t->choices)));
    zn_run_record(&t->run, &t->engine, &t->settings);
    ZN_TRY(zn_agree_on_run(&t->run, &t->settings, &t->engine, &t->data, &t->eval_data));
    const struct zn_words *paths = &t->settings.nvme_path;
    const struct zn_swap_paths swap = {.paths = paths->n ? paths->word : &t->settings.output,
                                       .n_paths = paths->n ? paths->n : 1,
                                       .allow_buffered = t->settings.allow_buffered_swap};
    const struct zn_room room = zn_saving_room(t->saving, &swap);
    ZN_TRY(zn_room_check(&t->run, &room));
    ZN_TRY(zn_comm_agree(comm, open_output(t, &room)));
    return zn_run_start(&t->run, &t->engine, &swap, (uint64_t)t->settings.seed);
}
