/* A micro-batch on the host: rows of inputs and their targets, from windows of the data. */
#ifndef ZN_TRAIN_BATCH_H
#define ZN_TRAIN_BATCH_H

#include "train/windows.h"
#include "zero/engine.h"

struct zn_host_batch {
    int64_t rows, max_seq_len;
    int32_t *ids, *targets, *position_ids; /* (rows, seq_len); target -1: does not count */
    int32_t *sequences;                    /* (rows, seq_len): which example of the batch; -1: padding */
    int32_t *window;                       /* max_time + 1 */
    uint8_t *counts;                       /* max_time + 1 */
    /* Of what it holds. */
    int64_t seq_len;      /* of its longest window */
    int64_t n_tokens;  /* places that are no padding */
    int64_t n_targets; /* that count */
    int64_t n_losses;  /* what the loss is a mean of: the targets that count, or the pairs */
    bool has_examples, has_pairs;
};

zn_status zn_host_batch_init(struct zn_host_batch *batch, int64_t rows, int64_t max_seq_len);
void zn_host_batch_fini(struct zn_host_batch *batch);

/* Row r ← window which[r]; -1: a row that counts for nothing. Blocks on files. */
zn_status zn_host_batch_fill(struct zn_host_batch *batch, const zn_windows *windows, const int64_t *which);

/* As the engine takes it; lives as long as the batch. */
struct zn_micro_batch zn_host_batch_view(const struct zn_host_batch *batch);

#endif
