/* Checkpoints of a run: where it begins, when it saves, and how it stops. */
#ifndef ZN_TRAIN_SAVING_H
#define ZN_TRAIN_SAVING_H

#include "train/best.h"
#include "train/order.h"
#include "train/data.h"
#include "train/room.h"
#include "zero/precision.h"

/* What a checkpoint is made of; borrowed for the life of the saving. */
struct zn_saving_setup {
    struct zn_run *run;
    const struct zn_settings *settings; /* resolved by the time they are used */
    const struct zn_engine_options *engine;
    const struct zn_order *order;
    const struct zn_data *data; /* open by the time it is used */
    const char *const *packing; /* the same; of its examples, stream where there are none */
    zn_loss_scale *loss_scale;
    struct zn_best *best;
    int (*stop)(void *self); /* as of struct zn_train_options */
    void *stop_self;
};

typedef struct zn_saving zn_saving;

/* Locks the output folder if it is there and, with --resume, finds the checkpoint to go on from (run->checkpoint) and
 * refuses one of another model, optimizer or data order. Collective; blocks. */
zn_status zn_saving_open(const struct zn_saving_setup *setup, zn_saving **saving);

/* Ends what is under way in the background and gives the lock back. NULL is legal. */
void zn_saving_destroy(zn_saving *saving);

/* ---- Not collective ---- */

/* --resume of a run that has its model and all steps: nothing is left to do. Known after zn_saving_check_data. */
bool zn_saving_is_done(const zn_saving *saving);

/* Steps done before this run; -1: it does not go on from a checkpoint. */
int64_t zn_saving_resumed_step(const zn_saving *saving);
int64_t zn_saving_first_step(const zn_saving *saving); /* the same, but 0 */

/* Windows of the data that are consumed before a step (from 0). */
int64_t zn_saving_consumed(const zn_saving *saving, int64_t step);

/* Once the data are open and the steps are known: a checkpoint of other data, or of more steps, is refused, and so is a
 * finished model without a checkpoint. Blocks on files. */
zn_status zn_saving_check_data(zn_saving *saving);

/* What the run needs on its file systems; the paths are the saving's and the caller's. */
struct zn_room zn_saving_room(const zn_saving *saving, const struct zn_swap_paths *swap);

/* Rank 0, once the output folder is there and before anything is written to it: takes the lock, checks the folder once
 * more, removes what dead runs left and, with --overwrite, the checkpoints of the run before. */
zn_status zn_saving_prepare(zn_saving *saving);

/* Bytes of one checkpoint, and of all that this run has saved. */
void zn_saving_set_bytes(zn_saving *saving, uint64_t n_bytes);
double zn_saving_bytes(const zn_saving *saving);

/* Before the first step: the loss scale and the count of skipped steps as they were. */
void zn_saving_restore(const zn_saving *saving, int64_t *n_skipped);

/* ---- Collective; block ---- */

/* A checkpoint beside those of the run, as folder/step-N: none goes for it. */
zn_status zn_saving_save(zn_saving *saving, const char *folder, int64_t step, int64_t n_skipped);

/* Finds a checkpoint as --resume does, and goes on from it: it is run->checkpoint from now on, held to the run's options and data.
 * zn_checkpoint_load and zn_saving_restore come next. */
zn_status zn_saving_go_to(zn_saving *saving, const char *from);

/* After each step but the last, with the number of steps done: saves when it is due; a checkpoint that cannot be written is
 * noted, and the run goes on. ZN_ERR_INTERRUPTED on every rank once a rank was told to stop; a checkpoint is saved then. */
zn_status zn_saving_after_step(zn_saving *saving, int64_t step, int64_t n_skipped);

/* Where a run cannot go on for a reason that every rank has alike, `why` with its message: saves what was trained. Returns
 * `why`, its message followed by what became of the checkpoint; another status where the engine fails. */
zn_status zn_saving_stop(zn_saving *saving, int64_t step, int64_t n_skipped, zn_status why);

/* After the last step: a checkpoint where one is due or --save all asks for it. Everything is saved and in place, or *saved
 * is why not, alike on every rank. */
zn_status zn_saving_end(zn_saving *saving, int64_t step, int64_t n_skipped, zn_status *saved);

#endif
