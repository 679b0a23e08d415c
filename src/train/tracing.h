/* The time line of one step of a real run: kernels, requests between ranks, transfers of storage. */
#ifndef ZN_TRAIN_TRACING_H
#define ZN_TRAIN_TRACING_H

#include "train/training.h"

typedef struct zn_tracing zn_tracing;

/* For the third step that this run makes, or the last where it makes fewer: by then all is as in later steps. Without
 * options.trace the tracing is NULL, which is legal everywhere below. Everything the run computes with is there, and idle. Not
 * collective. */
zn_status zn_tracing_begin(const struct training *training, zn_tracing **tracing);

/* Around each step, counted from 0. Rank 0 writes the file after the step that is traced, with a process for each rank whose
 * time begins with its step. `after` is collective. */
void zn_tracing_before(zn_tracing *tracing, int64_t step);
zn_status zn_tracing_after(zn_tracing *tracing, int64_t step);

/* When the engine is destroyed: nothing is under way any more. */
void zn_tracing_destroy(zn_tracing *tracing);

#endif
