/* Mean loss over data: `zinc eval`, and held-out data while training. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/elementary.h"
#include "train/adapters.h"
#include "train/agreement.h"
#include "train/batch.h"
#include "train/binding.h"
#include "train/device.h"
#include "train/evaluate.h"
#include "train/train.h"

/* What one rank adds to the mean. */
struct share {
    double loss;
    int64_t n_tokens, n_targets, n_losses;
    int64_t bad; /* the first window of the first batch whose loss is not finite; -1: all are */
};

static zn_status evaluate_batch(struct zn_run *run, const zn_windows *windows, int64_t first, struct zn_host_batch *batch,
                                int64_t *which, struct share *share)
{
    double loss = 0;
    for (int64_t row = 0; row < batch->rows; row++)
        which[row] = first + row < zn_windows_n(windows) ? first + row : -1;
    /* A rank without its data would keep the others waiting. */
    zn_status filled = zn_comm_agree(run->comm, zn_host_batch_fill(batch, windows, which));
    run->is_evaluation_alike = filled != ZN_OK;
    ZN_TRY(filled);
    const struct zn_micro_batch view = zn_host_batch_view(batch);
    ZN_TRY(zn_zero_evaluate(run->engine, &view, &loss));
    if (!isfinite(loss) && share->bad < 0)
        share->bad = first;
    share->loss += loss;
    share->n_tokens += batch->n_tokens;
    share->n_targets += batch->n_targets;
    share->n_losses += batch->n_losses;
    return ZN_OK;
}

/* Windows go round the ranks, a batch to each; every rank makes as many passes, as a pass may
 * gather from all. */
static zn_status evaluate_share(struct zn_run *run, const struct zn_engine_options *options,
                                const zn_windows *windows, struct share *share)
{
    int64_t rows = options->micro_batch, round = rows * run->mesh.data;
    struct zn_host_batch batch;
    ZN_TRY(zn_host_batch_init(&batch, rows, options->seq_len));
    int64_t *which = calloc((size_t)rows, sizeof *which);
    zn_status status = which ? ZN_OK : zn_fail(ZN_ERR_MEMORY, "no memory for an evaluation");
    zn_progress_begin(run->listener.progress, "evaluating", "windows", zn_windows_n(windows));
    for (int64_t start = 0; start < zn_windows_n(windows) && status == ZN_OK; start += round) {
        status = evaluate_batch(run, windows, start + zn_run_data_rank(run) * rows, &batch, which, share);
        zn_progress_set(run->listener.progress, start + round < zn_windows_n(windows) ? start + round : zn_windows_n(windows));
    }
    zn_progress_end(run->listener.progress);
    free(which);
    zn_host_batch_fini(&batch);
    return status;
}

/* Says where the loss stopped being a number, which is where to look. */
static void explain(const struct share *sum, int64_t rows, struct zn_eval_result *result)
{
    long long first = (long long)sum->bad + 1, n = (long long)result->windows;
    result->reason[0] = '\0';
    if (isfinite(result->loss))
        return;
    if (sum->bad < 0)
        snprintf(result->reason, sizeof result->reason, "the sum of the losses is not finite");
    else if (rows == 1)
        snprintf(result->reason, sizeof result->reason, "the loss of window %lld of %lld is not finite", first, n);
    else
        snprintf(result->reason, sizeof result->reason, "the loss of the %lld windows from window %lld of %lld is not finite",
                 (long long)rows, first, n);
}

zn_status zn_run_evaluate(struct zn_run *run, const struct zn_engine_options *options, const zn_windows *windows,
                          struct zn_eval_result *result)
{
    struct share mine = {.bad = -1}, sum = {.bad = -1};
    run->is_evaluation_alike = false;
    ZN_TRY(evaluate_share(run, options, windows, &mine));
    int n_ranks = zn_comm_n_ranks(run->comm);
    struct share *all = calloc((size_t)n_ranks, sizeof *all);
    if (!all)
        return zn_fail(ZN_ERR_MEMORY, "no memory for an evaluation");
    zn_status status = zn_comm_exchange(run->comm, &mine, sizeof mine, all);
    for (int r = 0; r < n_ranks && status == ZN_OK; r++) {
        if (!zn_run_counts_data(run, r)) /* another rank has the same */
            continue;
        sum.loss += all[r].loss;
        sum.n_tokens += all[r].n_tokens;
        sum.n_targets += all[r].n_targets;
        sum.n_losses += all[r].n_losses;
        if (all[r].bad >= 0 && (sum.bad < 0 || all[r].bad < sum.bad))
            sum.bad = all[r].bad;
    }
    free(all);
    ZN_TRY(status);
    run->is_evaluation_alike = sum.n_targets == 0;
    if (sum.n_targets == 0)
        return zn_fail(ZN_ERR_INPUT, "the data to evaluate has no target that counts");
    result->windows = zn_windows_n(windows);
    result->examples = zn_windows_n_examples(windows);
    result->tokens = sum.n_tokens;
    result->targets = sum.n_targets;
    result->loss = sum.loss / (double)sum.n_losses;
    result->perplexity = zn_exp_f64(result->loss);
    explain(&sum, options->micro_batch, result);
    return ZN_OK;
}

void zn_eval_options_init(struct zn_eval_options *options)
{
    *options = (struct zn_eval_options){0};
    zn_settings_init(&options->settings, ZN_FOR_EVAL);
}

/* Examples of rows need a window no longer than the longest of them; documents have as long a one as in training. */
static int64_t default_seq_len(const struct zn_run *run, const struct zn_data *data, int64_t of_training)
{
    int64_t longest = 1, limit = run->model->max_positions;
    for (int64_t i = 0; i < zn_examples_n(data->examples); i++) {
        int64_t size = zn_examples_length(data->examples, i) - 1;
        longest = size > longest ? size : longest;
    }
    if (zn_examples_n(data->examples) == 0 || (zn_tokens_total(data->stream) > 0 && longest < of_training))
        longest = of_training;
    return longest < limit ? longest : limit;
}

/* The windows of the data; the model is made for their length. */
static zn_status open_windows(struct zn_run *run, const struct zn_settings *o, int64_t *seq_len, struct zn_data *data,
                              zn_windows **windows)
{
    struct zn_windows_options options = {.truncate = o->truncate_rows, .max_seq_len = run->model->max_positions, .what = "--data"};
    ZN_TRY(zn_packing_parse(o->packing, &options.packing));
    const struct zn_data_options from = {.folder = o->model, .paths = o->data.word, .n_paths = o->data.n, .may_encode = true,
                                         .packing = options.packing};
    ZN_TRY(zn_run_open_data(run, &from, data));
    ZN_TRY(zn_packing_check(o->packing, o->truncate_rows, zn_examples_n(data->examples) > 0));
    if (!ZN_GIVEN(o, seq_len))
        *seq_len = default_seq_len(run, data, *seq_len);
    options.seq_len = *seq_len;
    ZN_TRY(zn_windows_create(run, data, &options, windows));
    run->data_bytes = zn_examples_bytes(data->examples) + zn_windows_bytes(*windows);
    return zn_run_set_seq_len(run, *seq_len);
}

/* What a run of `zinc eval` has open. */
struct evaluation {
    struct zn_settings settings; /* with the folder of the model */
    struct zn_run run;
    struct zn_engine_options engine;
    struct zn_data data;
    zn_windows *windows;
};

static zn_status open_inputs(struct evaluation *e)
{
    struct zn_settings *o = &e->settings;
    ZN_TRY(zn_settings_check(o, ZN_FOR_EVAL));
    ZN_TRY(zn_run_find_model(&e->run, &o->model));
    e->run.rows = (struct zn_row_options){.map = o->map.word, .n_map = o->map.n};
    e->run.byte_tokenizer = o->byte_tokenizer;
    e->engine = (struct zn_engine_options){.micro_batch = o->micro_batch, .seq_len = o->seq_len};
    ZN_TRY(zn_run_open_adapter(&e->run, o->adapter));
    zn_run_set_quantised(&e->run, o->base_quantize);
    ZN_TRY(zn_run_open_model(&e->run, o->model, false, &e->engine.seq_len));
    ZN_TRY(zn_run_check_adapters(&e->run, 0));
    ZN_TRY(zn_run_measure(&e->run, (int)o->threads, o->memory_limit));
    ZN_TRY(zn_run_open_device(&e->run, o));
    ZN_TRY(open_windows(&e->run, o, &e->engine.seq_len, &e->data, &e->windows));
    e->engine.has_examples = zn_windows_has_examples(e->windows);
    return ZN_OK;
}

/* All ranks succeed or none. */
static zn_status set_up(struct evaluation *e)
{
    struct zn_settings *o = &e->settings;
    static const char *const here = ".";
    const struct zn_swap_paths swap = {.paths = o->nvme_path.n ? o->nvme_path.word : &here,
                                       .n_paths = o->nvme_path.n ? o->nvme_path.n : 1,
                                       .allow_buffered = o->allow_buffered_swap};
    ZN_TRY(zn_comm_agree(e->run.comm, open_inputs(e)));
    ZN_TRY(zn_run_bind(&e->run, (int)o->threads));
    ZN_TRY(zn_run_plan_parameters(&e->run, &e->engine, o->offload_param, NULL));
    zn_run_record(&e->run, &e->engine, o);
    ZN_TRY(zn_agree_on_run(&e->run, o, &e->engine, &e->data, &(struct zn_data){0}));
    return zn_run_start(&e->run, &e->engine, &swap, 0);
}

zn_status zn_eval_as_rank(const struct zn_eval_options *options, zn_comm *comm, struct zn_eval_result *result)
{
    struct evaluation e = {.settings = options->settings};
    zn_run_init(&e.run, comm, &options->listener);
    zn_status status = set_up(&e);
    if (status == ZN_OK)
        status = zn_run_evaluate(&e.run, &e.engine, e.windows, result);
    if (status == ZN_OK)
        result->is_shown = zn_comm_rank(comm) == 0;
    else
        zn_run_tell_failure(&e.run, &options->listener, status);
    zn_windows_destroy(e.windows);
    zn_data_close(&e.data);
    zn_run_fini(&e.run);
    return status;
}

zn_status zn_eval(const struct zn_eval_options *options, struct zn_eval_result *result)
{
    zn_clock clock;
    zn_comm *comm;
    zn_clock_init_real(&clock);
    ZN_TRY(zn_comm_is_launched() ? zn_comm_create_mpi(&clock, &comm) : zn_comm_create_self(&clock, &comm));
    zn_status status = zn_eval_as_rank(options, comm, result);
    zn_comm_destroy(comm);
    return status;
}
