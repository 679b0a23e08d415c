/* Adapters merged into the weights that they adapt: W + scale × B A, in fp32. */
#ifndef ZN_CHECKPOINT_MERGE_H
#define ZN_CHECKPOINT_MERGE_H

#include "checkpoint/peft.h"

typedef struct zn_merging zn_merging;

/* Declares the folder's adapters in the model and holds them to it. Both are borrowed. The caller destroys. */
zn_status zn_merging_create(const zn_peft *peft, zn_model *model, zn_merging **merging);
void zn_merging_destroy(zn_merging *merging); /* NULL is legal */

/* The tensor of a parameter of the base, as zn_weights_find gives it; zn_model_tensor_read gives merged values, until the next one is
 * found. Memory is that of the adapter of one weight. Blocks. */
zn_status zn_merging_find(zn_merging *merging, const zn_model_files *files, const struct zn_weights_style *style,
                          const zn_param *param, struct zn_model_tensor *found);

struct zn_merge_options {
    const char *model, *adapter, *output; /* folders */
    const char *dtype;                    /* of the weights written; NULL: that of the model's folder */
    void (*note)(void *self, const char *text);
    void *self;
};

/* Writes the merged model as a hub folder, which must not hold one: config.json and the tokenizer's files are the base's. Memory does not
 * grow with the model. Blocks. */
zn_status zn_merge_folders(const struct zn_merge_options *options);

#endif
