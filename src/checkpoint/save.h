/* Saving a checkpoint, in three parts so that the slow one can run beside training:
 *
 *   begin    collective: all states of this moment go to files of a temporary folder
 *   settle   each rank alone, on any thread: syncs its files and hashes them
 *   publish  collective: the list of contents, and the name. From then on there is a checkpoint
 *
 * What goes wrong with files, of any part, is told by publish on every rank alike: the engine is then as it was, nothing of
 * the save is left, and training may go on. Begin fails only where the engine or the communicator does.
 *
 * A file has one writer, fed with pieces from whichever rank and tier they lie in; memory does not grow with the
 * model. The files depend on nothing but the values: not on ranks, stage or offload (state.json and
 * manifest.json excepted). */
#ifndef ZN_CHECKPOINT_SAVE_H
#define ZN_CHECKPOINT_SAVE_H

#include "checkpoint/hub_files.h"
#include "checkpoint/peft.h"
#include "checkpoint/state.h"
#include "checkpoint/weights.h"

struct zn_save_options { /* all borrowed for begin; engine, comm and folder until the end */
    zn_engine *engine;
    zn_comm *comm;
    const zn_model *model;
    const struct zn_weights_style *style;
    const zn_hub_files *hub;   /* the source folder's small files; used on rank 0 */
    const struct zn_adapter_record *adapter; /* of a model with adapters; else NULL */
    const char *folder;        /* OUTPUT/checkpoints; made if it is not there */
    const char *configuration; /* as of run.json; used on rank 0 */
    uint64_t file_bytes;       /* of one optimizer file; 0: by the size of the model */
    struct zn_run_state state; /* what the files hold is filled in by begin */
};

typedef struct zn_save zn_save;

/* Blocks. A full disk is found before anything is written. */
zn_status zn_save_begin(const struct zn_save_options *options, zn_save **save);

/* Not collective; blocks. The save belongs to this thread until it returns. */
zn_status zn_save_settle(zn_save *save);

/* Blocks. `settled` is this rank's status of settle, with its message: a failure of one is that of all. */
zn_status zn_save_publish(zn_save *save, zn_status settled);

/* Not collective; what was not published is removed. NULL is legal. */
void zn_save_destroy(zn_save *save);

#endif
