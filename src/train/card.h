/* The model card of a run: README.md of its output folder, for the hub and for people. */
#ifndef ZN_TRAIN_CARD_H
#define ZN_TRAIN_CARD_H

#include "train/run.h"

struct zn_card_loss {
    int64_t step;
    double loss;
    bool is_known;
};

/* Rank 0's. All zero: nothing is known yet. */
struct zn_card {
    struct zn_card_loss first, last;           /* of the steps of this run that were not skipped */
    struct zn_card_loss first_held, last_held; /* of its evaluations */
    double targets;
};

void zn_card_step(struct zn_card *card, const struct zn_step_report *step);

/* Writes the card, or removes it where the settings want none. What the person wrote or edited stays, and that is noted. Blocks. */
zn_status zn_card_write(const struct zn_card *card, const struct zn_run *run, const struct zn_settings *settings);

#endif
