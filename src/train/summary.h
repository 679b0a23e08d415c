/* What a run has cost: time, memory, bytes moved, and wear of drives. */
#ifndef ZN_TRAIN_SUMMARY_H
#define ZN_TRAIN_SUMMARY_H

#include "train/run.h"

/* Terabytes that may be written to a drive for each that it holds, over its life: what makers of common drives rate them for.
 * Assumed, and said so. */
enum { ZN_DRIVE_TBW = 600 };

/* Rank 0's. All zero but `began`: nothing was done yet. */
struct zn_summary {
    double began; /* by the run's clock */
    int64_t first_step, last_step; /* first 0: no step was made */
    double step_seconds, tokens, targets;
    double sent, read, written; /* bytes of steps, this rank's */
    double saved;               /* bytes of checkpoints and the model, of all ranks */
    struct zn_step_report last; /* its strings are not used */
};

void zn_summary_step(struct zn_summary *summary, const struct zn_step_report *step);

/* Lines of text, which the caller ends. */
void zn_summary_add(zn_text *text, const struct zn_summary *summary, const struct zn_run *run);

#endif
