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
};

/* Declares a parameter and returns its index. dims ends with 0. */
int param_add(struct param_list *list, int segment, zn_init init, float spread,
              const int64_t *dims, const char *format, ...) ZN_PRINTF(6, 7);

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
