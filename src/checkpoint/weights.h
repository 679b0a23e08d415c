/* Weights between hub folders and the engine, piece by piece: the model never exists twice. Adapters are no part of a hub folder:
 * checking and loading leave them out; a model that has some writes them alone. */
#ifndef ZN_CHECKPOINT_WEIGHTS_H
#define ZN_CHECKPOINT_WEIGHTS_H

#include "formats/model_files.h"
#include "formats/safetensors_write.h"
#include "models/model.h"
#include "zero/engine.h"

/* How a folder names and stores its tensors, so that export can do the same. */
struct zn_weights_style {
    bool without_prefix; /* names lack the model's optional prefix */
    zn_dtype dtype;      /* the type most elements have */
};

/* Checks that the folder has every parameter with its shape, before anything is allocated. Calls
 * `warn` with the name of each tensor that nobody wants. */
zn_status zn_weights_check(const zn_model *model, const zn_model_files *files,
                           void (*warn)(void *self, const char *tensor), void *self,
                           struct zn_weights_style *style);

/* The folder's tensor of a parameter. */
zn_status zn_weights_find(const zn_model *model, const zn_model_files *files,
                          const struct zn_weights_style *style, const zn_param *param,
                          struct zn_model_tensor *found);

/* How a folder of this style names and stores a parameter; the name is the model's. */
struct zn_st_spec zn_weights_spec(const zn_model *model, const struct zn_weights_style *style, const zn_param *param);

/* The type that parameters can be kept in without a loss: the folder's, fp32 where it has several. */
zn_status zn_weights_type(const zn_model *model, const zn_model_files *files, const struct zn_weights_style *style,
                          zn_dtype *type);

/* `progress`, when not NULL, is told the elements that are there. Blocks. */
zn_status zn_weights_load(zn_engine *engine, const zn_model *model, const zn_model_files *files,
                          const struct zn_weights_style *style, void (*progress)(void *self, int64_t done, int64_t total),
                          void *self);

/* A writer of what the model writes, tensor i of it being parameter zn_model_first_written + i: "model", or "adapter_model". `cut`
 * may be NULL: one writer makes all files. */
zn_status zn_weights_writer(const zn_model *model, const char *folder, const struct zn_weights_style *style,
                            const struct zn_st_cut *cut, zn_st_writer **writer);

/* Collective: hands out the masters of what the model writes. */
zn_status zn_weights_stream(zn_engine *engine, const zn_model *model, zn_take_values take, void *self);

/* Collective: rank 0 writes model.safetensors (or shards), or adapter_model.safetensors, into the folder, which is there. */
zn_status zn_weights_export(zn_engine *engine, zn_comm *comm, const zn_model *model, const char *folder,
                            const struct zn_weights_style *style);

#endif
