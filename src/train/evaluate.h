/* Mean loss over windows of data. */
#ifndef ZN_TRAIN_EVALUATE_H
#define ZN_TRAIN_EVALUATE_H

#include "train/windows.h"

/* Over all windows, which the ranks share: the sum of the losses of all targets that count over their number. Sets
 * is_evaluation_alike of the run. Collective. */
zn_status zn_run_evaluate(struct zn_run *run, const struct zn_engine_options *options, const zn_windows *windows,
                          struct zn_eval_result *result);

#endif
