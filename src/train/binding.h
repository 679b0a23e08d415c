/* Which part of its node a rank computes on. */
#ifndef ZN_TRAIN_BINDING_H
#define ZN_TRAIN_BINDING_H

#include "train/run.h"

/* Shares the processors of a node among the ranks that may use the same ones, sets run->threads (`threads`, or with 0 the
 * cores of the share) and binds this process to its share; zn_run_fini takes it back. A system that forbids it is told in a note: a run
 * is slower without, not wrong. Collective; before the first thread that computes and the first large
 * allocation. */
zn_status zn_run_bind(struct zn_run *run, int threads);

#endif
