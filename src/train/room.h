/* Room for everything a run writes, checked before its first step. */
#ifndef ZN_TRAIN_ROOM_H
#define ZN_TRAIN_ROOM_H

#include "train/run.h"

struct zn_room {
    const struct zn_settings *settings;
    const struct zn_engine_options *engine;
    const char *checkpoints; /* their folder, there or not */
    int64_t first_step;
    const struct zn_swap_paths *swap;
};

/* The files of the run: the model, and each checkpoint. */
void zn_room_sizes(const struct zn_run *run, const struct zn_room *room, uint64_t *model_bytes, uint64_t *checkpoint_bytes);

/* Sums, by file system, the swap of all ranks of the node (not yet made), the checkpoints that will be there at once beyond
 * those that are, and the model, and fails where one is too full, naming the folder and the flags that help. Where there is
 * no room for the checkpoint that a signal would ask for, that is noted. Collective; blocks on files. */
zn_status zn_room_check(struct zn_run *run, const struct zn_room *room);

#endif
