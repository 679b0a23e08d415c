/* --early-stop: the weights of the lowest held-out loss so far. They wait on disk, as the model or adapter that would be written:
 * OUTPUT/best/step-00000040, which appears when it is whole. No memory grows with the model, and a run that goes on from a
 * checkpoint finds those that its checkpoint names. At the end they become the output. */
#ifndef ZN_TRAIN_BEST_H
#define ZN_TRAIN_BEST_H

#include "train/run.h"

struct zn_best {
    int64_t step; /* -1: none yet */
    double loss;
    int64_t n_worse; /* evaluations since, none of them lower */
};

/* Takes note of an evaluation; whether it is the lowest so far. */
bool zn_best_take(struct zn_best *best, int64_t step, double loss);

/* Writes the present weights as those of the step; the ones before go, unless a checkpoint of the output folder names them. Fails
 * alike on every rank. Collective; blocks. */
zn_status zn_best_write(struct zn_run *run, const char *output, int64_t step);

/* The weights of the step become the output's, in place of what is there. Not collective; blocks on files. */
zn_status zn_best_place(const char *output, int64_t step);

/* Removes those of all steps but `stays` that no checkpoint names. Not collective; blocks on files. */
zn_status zn_best_prune(const char *output, int64_t stays);

/* What a run that goes on needs; refuses where it is gone. Not collective. */
zn_status zn_best_check(const char *output, int64_t step);

#endif
