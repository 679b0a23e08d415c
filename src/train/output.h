/* The output folder: refused when it holds a run, filled so that any hub tool opens it. */
#ifndef ZN_TRAIN_OUTPUT_H
#define ZN_TRAIN_OUTPUT_H

#include "base/text.h"
#include "train/run.h"

/* A folder that holds a run is refused unless `overwrite`; the model's own folder always. */
zn_status zn_output_check(const char *folder, const char *model_folder, bool overwrite);

/* Fails, naming the flag, where the file could not be written; one right in the folder, which may be made yet, can. NULL is
 * legal. */
zn_status zn_output_check_file(const char *flag, const char *path, const char *folder);

/* run.json: the resolved configuration, and whether the run has written its model; and its text, a JSON object. */
zn_status zn_output_write_run(const char *folder, const struct zn_run *run, const struct zn_settings *settings, bool is_finished);
void zn_output_add_run(zn_text *text, const struct zn_run *run, const struct zn_settings *settings, bool is_finished);

/* Steps of the finished run whose model the folder holds. */
enum { ZN_OUTPUT_NO_MODEL = -1, ZN_OUTPUT_UNKNOWN = -2 /* there is a model, and nothing tells of how many steps */ };
zn_status zn_output_finished(const char *folder, int64_t *steps);

/* Weights, config.json and the tokenizer's files; of adapters a PEFT folder. Collective; rank 0 writes. */
zn_status zn_output_write_model(const char *folder, struct zn_run *run);

#endif
