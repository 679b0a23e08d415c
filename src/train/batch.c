/* Rows of tokens from windows of the data. */
#include "train/batch.h"

#include <stdlib.h>

zn_status zn_host_batch_init(struct zn_host_batch *batch, int64_t rows, int64_t max_seq_len)
{
    size_t n = (size_t)(rows * max_seq_len);
    *batch = (struct zn_host_batch){.rows = rows, .max_seq_len = max_seq_len};
    batch->ids = calloc(n, sizeof(int32_t));
    batch->targets = calloc(n, sizeof(int32_t));
    batch->position_ids = calloc(n, sizeof(int32_t));
    batch->sequences = calloc(n, sizeof(int32_t));
    batch->window = calloc((size_t)max_seq_len + 1, sizeof(int32_t));
    batch->counts = calloc((size_t)max_seq_len + 1, 1);
    if (batch->ids && batch->targets && batch->position_ids && batch->sequences && batch->window && batch->counts)
        return ZN_OK;
    zn_host_batch_fini(batch);
    return zn_fail(ZN_ERR_MEMORY, "no memory for a batch of %lld × %lld tokens", (long long)rows,
                   (long long)max_seq_len);
}

void zn_host_batch_fini(struct zn_host_batch *batch)
{
    free(batch->ids);
    free(batch->targets);
    free(batch->position_ids);
    free(batch->sequences);
    free(batch->window);
    free(batch->counts);
    *batch = (struct zn_host_batch){0};
}

static void ignore_row(const struct zn_window_row *row)
{
    for (int64_t t = 0; t < row->seq_len; t++) {
        row->ids[t] = row->position_ids[t] = 0;
        row->targets[t] = row->sequences[t] = -1;
    }
}

zn_status zn_host_batch_fill(struct zn_host_batch *batch, const zn_windows *windows, const int64_t *which)
{
    batch->seq_len = 1;
    batch->n_tokens = batch->n_targets = 0;
    batch->has_examples = zn_windows_has_examples(windows);
    batch->has_pairs = zn_windows_has_pairs(windows);
    int32_t n_sequences = 0;
    for (int64_t r = 0; r < batch->rows; r++) {
        int64_t seq_len = which[r] >= 0 ? zn_windows_time(windows, which[r]) : 1;
        batch->seq_len = seq_len > batch->seq_len ? seq_len : batch->seq_len;
    }
    if (!batch->has_examples) /* ranks without a window take part with an empty one */
        batch->seq_len = batch->max_seq_len;
    for (int64_t r = 0; r < batch->rows; r++) {
        int64_t at = r * batch->seq_len, n_tokens = 0;
        const struct zn_window_row row = {.seq_len = batch->seq_len,
                                          .ids = batch->ids + at,
                                          .targets = batch->targets + at,
                                          .position_ids = batch->position_ids + at,
                                          .sequences = batch->sequences + at,
                                          .n_sequences = &n_sequences,
                                          .window = batch->window,
                                          .counts = batch->counts};
        if (which[r] >= 0)
            ZN_TRY(zn_windows_fill(windows, which[r], &row, &n_tokens));
        else
            ignore_row(&row);
        batch->n_tokens += n_tokens;
    }
    for (int64_t i = 0; i < batch->rows * batch->seq_len; i++)
        batch->n_targets += batch->targets[i] >= 0;
    batch->n_losses = batch->has_pairs ? n_sequences / 2 : batch->n_targets;
    return ZN_OK;
}

struct zn_micro_batch zn_host_batch_view(const struct zn_host_batch *batch)
{
    return (struct zn_micro_batch){.ids = batch->ids,
                                   .targets = batch->targets,
                                   .position_ids = batch->has_examples ? batch->position_ids : NULL,
                                   .sequences = batch->has_pairs ? batch->sequences : NULL,
                                   .seq_len = batch->seq_len};
}
