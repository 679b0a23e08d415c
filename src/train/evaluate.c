/* Mean loss over data: `zinc eval`, and held-out data while training. */
#include <math.h>
#include <stdlib.h>

#include "train/batch.h"
#include "train/binding.h"
#include "train/data.h"
#include "train/run.h"

/* What one rank adds to the mean. */
struct share {
    double loss;
    int64_t n_targets;
};

/* Windows go round the ranks, a batch to each; every rank makes as many passes, as a pass may
 * gather from all. */
static zn_status evaluate_share(struct zn_run *run, const struct zn_engine_options *options,
                                const zn_token_source *source, int64_t n_windows, struct share *share)
{
    int64_t rows = options->micro_batch, round = rows * zn_comm_n_ranks(run->comm);
    struct zn_host_batch batch;
    ZN_TRY(zn_host_batch_init(&batch, rows, options->time));
    zn_status status = ZN_OK;
    for (int64_t start = 0; start < n_windows && status == ZN_OK; start += round) {
        int64_t first = start + zn_comm_rank(run->comm) * rows;
        double loss = 0;
        for (int64_t row = 0; row < rows && status == ZN_OK; row++) {
            if (first + row < n_windows)
                status = zn_host_batch_fill(&batch, row, source, first + row);
            else
                zn_host_batch_ignore(&batch, row);
        }
        if (status == ZN_OK)
            status = zn_engine_evaluate(run->engine, batch.ids, batch.targets, &loss);
        share->loss += loss;
        share->n_targets += zn_host_batch_n_targets(&batch);
    }
    zn_host_batch_fini(&batch);
    return status;
}

zn_status zn_run_evaluate(struct zn_run *run, const struct zn_engine_options *options,
                          const zn_token_source *source, struct zn_eval_result *result)
{
    int64_t n_windows;
    struct share mine = {0}, sum = {0};
    ZN_TRY(zn_tokens_n_windows(source, options->time, &n_windows));
    ZN_TRY(evaluate_share(run, options, source, n_windows, &mine));
    int n_ranks = zn_comm_n_ranks(run->comm);
    struct share *all = calloc((size_t)n_ranks, sizeof *all);
    if (!all)
        return zn_fail(ZN_ERR_MEMORY, "no memory for an evaluation");
    zn_status status = zn_comm_exchange(run->comm, &mine, sizeof mine, all);
    for (int r = 0; r < n_ranks && status == ZN_OK; r++) {
        sum.loss += all[r].loss;
        sum.n_targets += all[r].n_targets;
    }
    free(all);
    ZN_TRY(status);
    if (sum.n_targets == 0)
        return zn_fail(ZN_ERR_INPUT, "the data to evaluate has no target that counts");
    result->windows = n_windows;
    result->tokens = sum.n_targets;
    result->loss = sum.loss / (double)sum.n_targets;
    result->perplexity = exp(result->loss);
    return ZN_OK;
}

void zn_eval_options_init(struct zn_eval_options *options)
{
    *options = (struct zn_eval_options){.micro_batch = 1};
}

zn_status zn_eval(const struct zn_eval_options *options, struct zn_eval_result *result)
{
    struct zn_run run;
    zn_clock clock;
    zn_comm *comm;
    zn_token_source *source = NULL;
    int64_t seq_len = options->seq_len;
    zn_clock_init_real(&clock);
    ZN_TRY(zn_comm_create_self(&clock, &comm));
    zn_run_init(&run, comm, &options->listener);
    zn_status status = zn_run_open_model(&run, options->model, false, &seq_len);
    if (status == ZN_OK)
        status = zn_run_measure(&run, options->threads, 0);
    if (status == ZN_OK)
        status = zn_run_open_data(&run, options->model, options->data, options->n_data, NULL, true, &source);
    if (status == ZN_OK)
        status = zn_run_bind(&run, options->threads);
    /* Nothing to choose: there are no states but parameters. */
    const struct zn_choices choices = {.keep_logits = true};
    struct zn_engine_options engine = {.delay_after = -1, .micro_batch = options->micro_batch, .time = seq_len};
    if (status == ZN_OK)
        status = zn_run_plan(&run, &engine, &choices);
    if (status == ZN_OK)
        status = zn_run_start(&run, &engine, NULL, 0);
    if (status == ZN_OK)
        status = zn_run_evaluate(&run, &engine, source, result);
    zn_tokens_close(source);
    zn_run_fini(&run);
    zn_comm_destroy(comm);
    return status;
}
