/* Mean loss over data: `zinc eval`, and held-out data while training. */
#include <math.h>
#include <stdlib.h>

#include "train/batch.h"
#include "train/run.h"

zn_status zn_run_evaluate(struct zn_run *run, const struct zn_engine_options *options,
                          const zn_token_source *source, struct zn_eval_result *result)
{
    int64_t n_windows;
    ZN_TRY(zn_tokens_n_windows(source, options->time, &n_windows));
    struct zn_host_batch batch;
    ZN_TRY(zn_host_batch_init(&batch, options->micro_batch, options->time));
    double sum = 0;
    zn_status status = ZN_OK;
    for (int64_t i = 0; i < n_windows && status == ZN_OK; i += options->micro_batch) {
        double loss = 0;
        for (int64_t row = 0; row < options->micro_batch && status == ZN_OK; row++) {
            if (i + row < n_windows)
                status = zn_host_batch_fill(&batch, row, source, i + row);
            else
                zn_host_batch_ignore(&batch, row);
        }
        if (status == ZN_OK)
            status = zn_engine_evaluate(run->engine, batch.ids, batch.targets, &loss);
        sum += loss;
    }
    zn_host_batch_fini(&batch);
    if (status != ZN_OK)
        return status;
    result->windows = n_windows;
    result->tokens = n_windows * options->time;
    result->loss = sum / (double)result->tokens;
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
    zn_token_source *source = NULL;
    int64_t seq_len = options->seq_len;
    zn_run_init(&run, &options->listener);
    zn_status status = zn_run_open_model(&run, options->model, false, &seq_len);
    if (status == ZN_OK)
        status = zn_run_measure(&run, options->threads, 0);
    if (status == ZN_OK)
        status = zn_run_open_data(&run, options->model, options->data, options->n_data, &source);
    struct zn_engine_options engine = {.micro_batch = options->micro_batch, .time = seq_len};
    if (status == ZN_OK)
        status = zn_run_plan(&run, &engine, 0);
    if (status == ZN_OK)
        status = zn_run_start(&run, &engine, 0);
    if (status == ZN_OK)
        status = zn_run_evaluate(&run, &engine, source, result);
    zn_tokens_close(source);
    zn_run_fini(&run);
    return status;
}
