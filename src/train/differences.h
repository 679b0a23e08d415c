/* What a run that goes on has otherwise than the run of its checkpoint. */
#ifndef ZN_TRAIN_DIFFERENCES_H
#define ZN_TRAIN_DIFFERENCES_H

#include "base/json.h"
#include "train/run.h"

/* Notes each setting that changes numbers or what is written and that differs, by its flag, with both values. Both are
 * configurations as of run.json; a key that only one has, as those of another version, is not compared. */
zn_status zn_differences_note(const struct zn_run *run, zn_json *saved, zn_json *now);

#endif
