/* A model made from a hub folder's config.json: the module the engine runs, and what loading
 * and export need to know of the folder's conventions. */
#ifndef ZN_MODELS_MODEL_H
#define ZN_MODELS_MODEL_H

#include "autograd/module.h"
#include "base/json.h"

/* Which rank of a tensor-parallel group a model is made for. */
struct zn_tensor_rank {
    int index, count;
};

typedef struct zn_model {
    zn_module *module;
    struct zn_tensor_rank rank;
    char architecture[32];     /* model_type: "gpt2", "llama", … */
    int64_t max_positions;     /* the longest sequence the weights were made for */
    int64_t n_layers, hidden;
    const char *optional_prefix; /* some folders leave this off their tensor names; or NULL */
    bool tied;                   /* the head is the embedding */
    bool is_in_out;              /* weights of linear layers are stored (in, out) */
    bool has_dropout;            /* the config asks for it; it is never applied */
} zn_model;

/* Reads config.json's root. max_seq_len is the longest sequence that will be run, 0 for
 * max_positions. What is not supported is refused by name. The caller destroys. */
zn_status zn_model_create(zn_json *config, int64_t max_seq_len, zn_model **model);
void zn_model_destroy(zn_model *model);

/* The same with the slices of parameters that one rank of a tensor-parallel group holds. What cannot be shared by so many ranks is
 * refused by name. */
zn_status zn_model_create_sliced(zn_json *config, int64_t max_seq_len, struct zn_tensor_rank rank, zn_model **model);

/* Whether a tensor of the folder that no parameter claims is known to be needless: mask buffers
 * of old GPT-2 files, rotary tables, the copy of a tied head. */
bool zn_model_ignores(const zn_model *model, const char *tensor);

/* Total elements of all parameters, and of those slices that this rank holds. */
int64_t zn_model_n_elements(const zn_model *model);
int64_t zn_model_n_held(const zn_model *model);

#endif
