/* Low-rank adapters (LoRA, Hu et al. 2021): beside each chosen weight W of a linear layer, A (rank, in) and B (out, rank) are
 * declared, and the layer gives W x + scale × B A x. The weights themselves are not trained. */
#ifndef ZN_MODELS_ADAPTER_H
#define ZN_MODELS_ADAPTER_H

#include "base/text.h"
#include "models/model.h"

struct zn_adapter_options {
    int64_t rank;
    double alpha;
    bool is_rank_stabilised;     /* scale alpha / √rank instead of alpha / rank */
    const char *const *targets;  /* "all", "attention", "mlp", or globs over names of modules */
    size_t n_targets;            /* 0: all */
    const char *source;          /* where the targets come from, for messages; NULL: --lora-targets */
};

/* Declares the adapters of a model that has none. Names are those of PEFT's files. A target that fits no linear layer of the blocks
 * is refused by name. */
zn_status zn_model_add_adapters(zn_model *model, const struct zn_adapter_options *options);

/* The path of the module whose weight this is: its name without ".weight"; false where the parameter is no linear layer's of a
 * block. */
bool zn_adapter_module(const zn_model *model, const zn_param *param, char module[ZN_PARAM_NAME]);

/* A list by parameter index: whether it is the weight of a linear layer of a block, which is what a quantised base has quantised. The
 * caller frees it. */
zn_status zn_model_list_matrices(const zn_model *model, bool **is_matrix);

/* Whether the parameter is an adapter's. */
bool zn_is_adapter(const zn_param *param);

/* What a run writes are the parameters from this index on: the adapters alone where the model has some. */
int zn_model_first_written(const zn_model *model);
int64_t zn_model_n_written(const zn_model *model); /* elements of those */

/* Adds the adapted modules as PEFT's target_modules: a JSON list of the shortest ends of their paths that fit no other module. */
void zn_adapter_add_targets(zn_text *text, const zn_model *model);

#endif
