/* Ranks that were started differently are told so, by name, before anything runs. */
#ifndef ZN_TRAIN_AGREEMENT_H
#define ZN_TRAIN_AGREEMENT_H

#include "train/run.h"

/* Collective: fails on every rank, naming what differs and which rank, unless all ranks have the
 * same program, options, model and data. Of weights and data a sample is compared. eval_data may be
 * NULL. Blocks on files. */
zn_status zn_agree_on_run(const struct zn_run *run, const struct zn_train_options *options,
                          const struct zn_engine_options *engine, const zn_token_source *data,
                          const zn_token_source *eval_data);

/* A hash of how many tokens there are and of a sample of them. Blocks on files. */
zn_status zn_data_fingerprint(const zn_token_source *data, uint64_t *hash);

/* Collective: the smallest of the ranks' memory limits, so that all plan the same. */
zn_status zn_agree_on_memory(struct zn_run *run);

#endif
