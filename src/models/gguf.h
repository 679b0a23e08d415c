/* A model in llama.cpp's words: the architecture's metadata, and the name and layout of each tensor in a GGUF file. What
 * llama.cpp would compute otherwise is refused by name. */
#ifndef ZN_MODELS_GGUF_H
#define ZN_MODELS_GGUF_H

#include "formats/gguf_write.h"
#include "models/model.h"

typedef struct zn_gguf_model zn_gguf_model;

/* config is the one that the model was made of. The caller destroys. */
zn_status zn_gguf_model_create(zn_json *config, const zn_model *model, zn_gguf_model **gguf);
void zn_gguf_model_destroy(zn_gguf_model *gguf); /* NULL is legal */

/* general.architecture: "llama" for Mistral too. */
const char *zn_gguf_model_architecture(const zn_gguf_model *gguf);

/* Adds the keys that begin with the architecture's name. */
void zn_gguf_model_describe(const zn_gguf_model *gguf, zn_gguf_metadata *metadata);

/* The tensor that a parameter becomes. */
struct zn_gguf_param {
    struct zn_gguf_spec spec; /* of the type that was asked for, or of the one that this tensor has in every file */
    zn_gguf_layout layout;
    int64_t n_heads; /* of ZN_GGUF_PAIRED */
    bool falls_back; /* its rows are no whole blocks: f16 instead of q8_0 */
};
zn_status zn_gguf_model_param(const zn_gguf_model *gguf, const zn_param *param, zn_gguf_type type, struct zn_gguf_param *out);

/* The tensor rope_freqs.weight, by which llama.cpp divides rotary frequencies; NULL: there is none. The model's. */
const float *zn_gguf_model_rope_factors(const zn_gguf_model *gguf, int64_t *n);

/* The sliding window, which llama.cpp does not apply to these architectures: longer texts give other results there. 0: none
 * that matters. */
int64_t zn_gguf_model_window(const zn_gguf_model *gguf);

#endif
