/* What model files are written with: parameter lists and the readers of one architecture. */
#ifndef ZN_MODELS_BUILD_H
#define ZN_MODELS_BUILD_H

#include "models/model.h"

/* A growing list of parameters. Pointers handed out are indices until the list is done, so
 * models declare first and take pointers after. */
struct param_list {
    zn_param *params;
    int n_params, capacity;
    zn_status status; /* sticky */
    struct zn_tensor_rank rank;
};

/* Declares a parameter and returns its index. dims ends with 0. */
int param_add(struct param_list *list, int segment, zn_init init, float spread,
              const int64_t *dims, const char *format, ...) ZN_PRINTF(6, 7);

/* How ranks of a tensor-parallel group share it; without one of these each holds all of it and computes all of its gradient. Along a
 * dimension: in equal slices, of each of `parts` pieces; as many slices as there are heads, or copies of heads; or all of it on
 * each, with a gradient that is the sum of theirs. What does not divide is refused by config_check_tensor. */
void param_slice(struct param_list *list, int index, int dim, int parts);
void param_slice_heads(struct param_list *list, int index, int dim, int64_t n_heads);
void param_sum_gradients(struct param_list *list, int index);

/* That heads, heads of keys and values, the MLP's width and the vocabulary can be shared by the ranks. */
struct tensor_shape {
    int64_t heads, kv_heads, inner, vocabulary;
};
zn_status config_check_tensor(struct zn_tensor_rank rank, const struct tensor_shape *shape);

/* Heads of keys and values that a rank holds. */
static inline int64_t kv_heads_held(int64_t kv_heads, int n_ranks)
{
    return kv_heads > n_ranks ? kv_heads / n_ranks : 1;
}

/* The pointer of a declared parameter, NULL for index < 0. */
static inline const zn_param *param_at(const zn_module *module, int index)
{
    return index < 0 ? NULL : &module->params[index];
}

/* Checks a config's shape number: required, 1 … 2^31-1. */
zn_status config_size(zn_json *config, const char *key, int64_t *value);
zn_status config_size_or(zn_json *config, const char *key, int64_t fallback, int64_t *value);

/* The number of layers: what is listed for each layer must not grow past the machine for a bad file. */
zn_status config_layers(zn_json *config, const char *key, int64_t *value);

/* Makes the model of one architecture. */
zn_status gpt2_create(zn_json *config, int64_t max_seq_len, zn_model *model);
zn_status llama_family_create(zn_json *config, int64_t max_seq_len, zn_model *model);

#endif
