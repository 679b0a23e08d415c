/* A micro-batch on the host: rows of T inputs and their T targets. */
#ifndef ZN_TRAIN_BATCH_H
#define ZN_TRAIN_BATCH_H

#include "formats/tokens.h"

struct zn_host_batch {
    int64_t rows, time;
    int32_t *ids, *targets; /* (rows, time); target -1: does not count */
    int32_t *window;        /* time + 1 */
    uint8_t *counts;        /* time + 1 */
};

zn_status zn_host_batch_init(struct zn_host_batch *batch, int64_t rows, int64_t time);
void zn_host_batch_fini(struct zn_host_batch *batch);

/* Row ← window i of the source. Blocks on the file. */
zn_status zn_host_batch_fill(struct zn_host_batch *batch, int64_t row, const zn_token_source *source,
                             int64_t i);

/* A row that counts for nothing. */
void zn_host_batch_ignore(struct zn_host_batch *batch, int64_t row);

/* How many targets count. */
int64_t zn_host_batch_n_targets(const struct zn_host_batch *batch);

#endif
