/* Rows of tokens from windows of the data. */
#include "train/batch.h"

#include <stdlib.h>
#include <string.h>

zn_status zn_host_batch_init(struct zn_host_batch *batch, int64_t rows, int64_t time)
{
    size_t n = (size_t)(rows * time);
    *batch = (struct zn_host_batch){.rows = rows, .time = time};
    batch->ids = calloc(n, sizeof(int32_t));
    batch->targets = calloc(n, sizeof(int32_t));
    batch->window = calloc((size_t)time + 1, sizeof(int32_t));
    batch->counts = calloc((size_t)time + 1, 1);
    if (batch->ids && batch->targets && batch->window && batch->counts)
        return ZN_OK;
    zn_host_batch_fini(batch);
    return zn_fail(ZN_ERR_MEMORY, "no memory for a batch of %lld × %lld tokens", (long long)rows,
                   (long long)time);
}

void zn_host_batch_fini(struct zn_host_batch *batch)
{
    free(batch->ids);
    free(batch->targets);
    free(batch->window);
    free(batch->counts);
    *batch = (struct zn_host_batch){0};
}

zn_status zn_host_batch_fill(struct zn_host_batch *batch, int64_t row, const zn_token_source *source,
                             int64_t i)
{
    size_t n_bytes = (size_t)batch->time * sizeof(int32_t);
    int32_t *targets = batch->targets + row * batch->time;
    ZN_TRY(zn_tokens_window(source, i, batch->time, batch->window, batch->counts));
    memcpy(batch->ids + row * batch->time, batch->window, n_bytes);
    for (int64_t t = 0; t < batch->time; t++)
        targets[t] = batch->counts[t + 1] ? batch->window[t + 1] : -1;
    return ZN_OK;
}

void zn_host_batch_ignore(struct zn_host_batch *batch, int64_t row)
{
    for (int64_t t = 0; t < batch->time; t++) {
        batch->ids[row * batch->time + t] = 0;
        batch->targets[row * batch->time + t] = -1;
    }
}

int64_t zn_host_batch_n_targets(const struct zn_host_batch *batch)
{
    int64_t n = 0;
    for (int64_t i = 0; i < batch->rows * batch->time; i++)
        n += batch->targets[i] >= 0;
    return n;
}
