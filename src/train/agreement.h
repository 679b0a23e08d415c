/* Ranks that were started differently are told so, by name, before anything runs. */
#ifndef ZN_TRAIN_AGREEMENT_H
#define ZN_TRAIN_AGREEMENT_H

#include "train/data.h"

/* Collective: fails on every rank, naming what differs and which rank, unless all ranks have the
 * same program, settings (as recorded), model and data. Of weights a sample is compared. Blocks on files. */
zn_status zn_agree_on_run(const struct zn_run *run, const struct zn_settings *settings, const struct zn_engine_options *engine,
                          const struct zn_data *data, const struct zn_data *eval_data);

/* Collective: all ranks look for a checkpoint or none, since they do it together. */
zn_status zn_agree_on_resume(const struct zn_run *run, const struct zn_settings *settings);

/* Collective: the smallest of the ranks' memory limits and the first rank's figures of its machine, so that all plan the same. */
zn_status zn_agree_on_machine(struct zn_run *run);

#endif
