/* PEFT folders: adapter_config.json and adapter_model.safetensors, as the library `peft` writes and reads them. */
#ifndef ZN_CHECKPOINT_PEFT_H
#define ZN_CHECKPOINT_PEFT_H

#include "checkpoint/weights.h"
#include "models/adapter.h"

#define ZN_PEFT_CONFIG "adapter_config.json"
#define ZN_PEFT_STEM "adapter_model"
#define ZN_PEFT_WEIGHTS ZN_PEFT_STEM ".safetensors"

typedef struct zn_peft zn_peft;

/* Reads the configuration and the header of the weights. What this program cannot apply is refused by name: DoRA, modules_to_save,
 * ranks or alphas by pattern, trained biases, another kind of adapter. The caller closes. Blocks. */
zn_status zn_peft_open(const char *folder, zn_peft **peft);
void zn_peft_close(zn_peft *peft); /* NULL is legal */

const char *zn_peft_folder(const zn_peft *peft);

/* Rank, scale and the modules that have an adapter, by their whole paths; theirs is the lifetime of the folder. */
const struct zn_adapter_options *zn_peft_options(const zn_peft *peft);

/* That training in peft would have applied; it is not applied here. */
double zn_peft_dropout(const zn_peft *peft);

/* Fails, naming the tensor, unless the adapters of the model are those of the folder, shapes included. */
zn_status zn_peft_check(const zn_peft *peft, const zn_model *model);

/* Elements first … first+n of an adapter's parameter. Blocks. */
zn_status zn_peft_read(const zn_peft *peft, const zn_param *param, int64_t first, int64_t n_elements, float *values);

/* Fills the adapters that this rank brings. Not collective; blocks. */
zn_status zn_peft_load(const zn_peft *peft, zn_engine *engine, const zn_model *model);

/* The fingerprint of its weights. Blocks. */
zn_status zn_peft_hash(const zn_peft *peft, uint64_t *hash);

/* What a run with adapters says of them and of their base. */
struct zn_adapter_record {
    struct zn_adapter_options options;
    const char *base_name;      /* as it was given */
    uint64_t base_hash;         /* of the base's weights */
    const zn_json *base_config; /* its config.json */
};

/* Writes adapter_config.json for the model's adapters. Blocks. */
zn_status zn_peft_write_config(const char *folder, const zn_model *model, const struct zn_adapter_record *record);

#endif
