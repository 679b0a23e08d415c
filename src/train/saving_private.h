/* What saving.c and resume.c share. */
#ifndef ZN_TRAIN_SAVING_PRIVATE_H
#define ZN_TRAIN_SAVING_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "checkpoint/load.h"
#include "checkpoint/save.h"
#include "train/saving.h"

enum { MESSAGE_BYTES = 1024 };

struct zn_saving {
    struct zn_saving_setup setup;
    char *folder;     /* OUTPUT/checkpoints */
    int lock;         /* of the output folder, on rank 0; -1 */
    zn_checkpoint *checkpoint; /* NULL: the run begins at its beginning */
    int64_t first_step, first_window;
    int64_t finished; /* steps of the model there without a checkpoint to go on from; ZN_OUTPUT_NO_MODEL, or _UNKNOWN */
    int64_t n_saved;           /* whole checkpoints of this run … */
    uint64_t checkpoint_bytes; /* … and the size of each */
    int64_t last_saved;    /* step of the newest whole checkpoint */
    uint64_t file_bytes;   /* of an optimizer file; 0: by the model */
    char *configuration;   /* as of run.json, for messages and state.json; rank 0 */
    /* A save under way. `settled` is set last by the thread, which owns the save until then. */
    zn_save *save;
    int64_t step; /* that it is of */
    double begun;
    bool in_background;
    pthread_t thread;
    atomic_bool settled;
    zn_status status;
    char message[MESSAGE_BYTES];
};

#endif
