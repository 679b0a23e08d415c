/* Adapters of a run: from its settings or a PEFT folder to the model. */
#ifndef ZN_TRAIN_ADAPTERS_H
#define ZN_TRAIN_ADAPTERS_H

#include "train/run.h"

/* Whether the run's model has adapters, over a base that is not trained. */
bool zn_run_has_adapters(const struct zn_run *run);

/* Opens the PEFT folder whose adapters the run applies or trains on; says what of it is not applied. NULL: none. Before the model is
 * made. Blocks. */
zn_status zn_run_open_adapter(struct zn_run *run, const char *folder);

/* Before the model is made: the adapters that the settings of training ask for, and those settings with what they come to. */
zn_status zn_run_resolve_adapters(struct zn_run *run, struct zn_settings *settings);

/* Before the model is made: what --base-quantize says. */
void zn_run_set_quantised(struct zn_run *run, const char *base_quantize);

/* Makes the model of run->config with its adapters. The caller destroys it. */
zn_status zn_run_make_model(struct zn_run *run, int64_t seq_len, zn_model **model);

/* Once the model's files are open: the PEFT folder fits the model; the run knows its base. `seed` is that of a base from scratch.
 * Blocks. */
zn_status zn_run_check_adapters(struct zn_run *run, uint64_t seed);

/* The engine keeps the base in `type` and trains, if it trains, the adapters in fp32. Without adapters it does nothing. */
void zn_run_freeze_base(const struct zn_run *run, struct zn_engine_options *engine, zn_dtype type);

/* The engine keeps the base's matrices quantised, where the run says so. After zn_run_freeze_base. */
void zn_run_quantise_base(const struct zn_run *run, struct zn_engine_options *engine);

/* Fills the adapters: from the PEFT folder, or anew. Not collective; blocks. */
zn_status zn_run_fill_adapters(struct zn_run *run, uint64_t seed);

/* Refuses to go on from a checkpoint of other adapters or another base. Blocks. */
zn_status zn_run_check_resumed(const struct zn_run *run, const zn_checkpoint *checkpoint);

#endif
