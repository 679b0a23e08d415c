/* Opening a checkpoint and filling an engine from it; a format of a later version is ZN_ERR_UNSUPPORTED. */
#ifndef ZN_CHECKPOINT_LOAD_H
#define ZN_CHECKPOINT_LOAD_H

#include "checkpoint/contents.h"
#include "checkpoint/state.h"
#include "checkpoint/weights.h"
#include "zinc/checkpoint.h"

struct zn_checkpoint {
    char *folder;
    zn_contents contents;
    zn_json *root; /* state.json; `state` has strings of it */
    struct zn_run_state state;
};

/* Finds where to go on, the same on every rank. `from` is a checkpoint, or a run's folder or its folder of
 * checkpoints, whose newest whole one is taken. Every byte is held to its hash, shared among the ranks, before
 * anything is believed. `note` hears on rank 0 why a broken one was passed over. *checkpoint is NULL where there
 * is none. Collective; blocks. */
zn_status zn_checkpoint_find(zn_comm *comm, const char *from, void (*note)(void *self, const char *text), void *self,
                             zn_checkpoint **checkpoint);

/* Fails, naming what differs, unless config.json of the checkpoint, or of its base, makes the same model as that of the model's folder. The
 * order of keys, the dtype and keys that do not make the model (transformers_version, use_cache, …) may differ. */
zn_status zn_checkpoint_check_config(const zn_checkpoint *checkpoint, const char *model_folder);

/* Writes the elements that this rank brings into the engine, reading only these. zn_engine_publish comes after.
 * Not collective; blocks. */
zn_status zn_checkpoint_load(const zn_checkpoint *checkpoint, zn_engine *engine, const zn_model *model);

/* Hands out the masters of all parameters in pieces, in any order, for an export. Not collective. */
zn_status zn_checkpoint_stream_masters(const zn_checkpoint *checkpoint, const zn_model *model, zn_take_values take,
                                       void *self);

#endif
