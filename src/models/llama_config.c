/* The keys of config.json that the Llama family shares, in the old and the new form. */
#include <stdlib.h>
#include <string.h>

#include "models/llama.h"

static zn_status refuse(zn_json *config, const char *key, const char *value)
{
    zn_json_fail(config, "%s '%s' is not supported", key, value);
    return ZN_ERR_UNSUPPORTED;
}

zn_status llama_config_common(zn_json *config, int64_t default_head_dim, struct llama_config *c)
{
    const char *activation;
    double dropout;
    ZN_TRY(config_size(config, "vocab_size", &c->vocabulary));
    ZN_TRY(config_size(config, "hidden_size", &c->hidden));
    ZN_TRY(config_size(config, "intermediate_size", &c->intermediate));
    ZN_TRY(config_layers(config, "num_hidden_layers", &c->layers));
    ZN_TRY(config_size(config, "num_attention_heads", &c->heads));
    ZN_TRY(config_size_or(config, "num_key_value_heads", c->heads, &c->kv_heads));
    ZN_TRY(config_size_or(config, "max_position_embeddings", 2048, &c->positions));
    int64_t fallback = default_head_dim ? default_head_dim : c->hidden / c->heads;
    ZN_TRY(config_size_or(config, "head_dim", fallback ? fallback : 1, &c->head_dim));
    ZN_TRY(zn_json_get_number_or(config, "rms_norm_eps", 1e-6, &c->eps));
    ZN_TRY(zn_json_get_number_or(config, "initializer_range", 0.02, &c->initializer_range));
    ZN_TRY(zn_json_get_bool_or(config, "tie_word_embeddings", false, &c->tied));
    ZN_TRY(zn_json_get_number_or(config, "attention_dropout", 0, &dropout));
    ZN_TRY(zn_json_get_string_or(config, "hidden_act", "silu", &activation));
    c->has_dropout = dropout > 0;
    if (strcmp(activation, "silu") != 0)
        return refuse(config, "hidden_act", activation);
    if (c->heads % c->kv_heads != 0)
        return zn_json_fail(config, "num_attention_heads %lld is not a multiple of num_key_value_heads %lld",
                            (long long)c->heads, (long long)c->kv_heads);
    if (c->head_dim % 2 != 0)
        return zn_json_fail(config, "head_dim %lld is odd: rotary embedding needs pairs",
                            (long long)c->head_dim);
    c->windows = calloc((size_t)c->layers, sizeof *c->windows);
    if (!c->windows)
        return zn_fail(ZN_ERR_MEMORY, "no memory for %lld layers", (long long)c->layers);
    return ZN_OK;
}

static zn_status positive(zn_json *object, const char *key, double *value)
{
    ZN_TRY(zn_json_get_number(object, key, value));
    if (!(*value > 0))
        return zn_json_fail(object, "%s must be positive", key);
    return ZN_OK;
}

/* `at` is rope_parameters or rope_scaling. */
static zn_status read_scaling(zn_json *at, struct rope_config *rope)
{
    const char *type;
    ZN_TRY(zn_json_get_string_or(at, "type", "default", &type)); /* the oldest name of it */
    ZN_TRY(zn_json_get_string_or(at, "rope_type", type, &type));
    if (strcmp(type, "default") == 0)
        return ZN_OK;
    if (strcmp(type, "linear") == 0) {
        rope->kind = ROPE_LINEAR;
        return positive(at, "factor", &rope->factor);
    }
    if (strcmp(type, "llama3") != 0)
        return refuse(at, "rope_type", type);
    rope->kind = ROPE_LLAMA3;
    ZN_TRY(positive(at, "factor", &rope->factor));
    ZN_TRY(positive(at, "low_freq_factor", &rope->low_freq_factor));
    ZN_TRY(positive(at, "high_freq_factor", &rope->high_freq_factor));
    ZN_TRY(positive(at, "original_max_position_embeddings", &rope->original_positions));
    if (rope->high_freq_factor <= rope->low_freq_factor)
        return zn_json_fail(at, "high_freq_factor must be above low_freq_factor");
    return ZN_OK;
}

zn_status llama_config_rope(zn_json *config, double default_theta, struct rope_config *rope)
{
    zn_json *parameters, *scaling;
    double partial;
    ZN_TRY(zn_json_get_number_or(config, "rope_theta", default_theta, &rope->theta));
    ZN_TRY(zn_json_get_number_or(config, "partial_rotary_factor", 1, &partial));
    ZN_TRY(zn_json_get_object_or_null(config, "rope_scaling", &scaling));
    ZN_TRY(zn_json_get_object_or_null(config, "rope_parameters", &parameters));
    if (parameters) {
        ZN_TRY(zn_json_get_number_or(parameters, "rope_theta", rope->theta, &rope->theta));
        ZN_TRY(zn_json_get_number_or(parameters, "partial_rotary_factor", partial, &partial));
        ZN_TRY(read_scaling(parameters, rope));
    } else if (scaling) {
        ZN_TRY(read_scaling(scaling, rope));
    }
    if (partial != 1)
        return refuse(config, "partial_rotary_factor", "below 1");
    if (!(rope->theta > 0))
        return zn_json_fail(config, "rope_theta must be positive");
    return ZN_OK;
}

zn_status llama_config_windows(zn_json *config, int64_t window, int64_t first_sliding,
                               struct llama_config *c)
{
    zn_json *types;
    ZN_TRY(zn_json_get_array_or_null(config, "layer_types", &types));
    if (types && zn_json_n_items(types) != (size_t)c->layers)
        return zn_json_fail(types, "has %zu entries for %lld layers", zn_json_n_items(types),
                            (long long)c->layers);
    for (int64_t i = 0; i < c->layers; i++) {
        bool sliding = i >= first_sliding;
        if (types) {
            const char *type;
            ZN_TRY(zn_json_item_string(types, (size_t)i, &type));
            sliding = strcmp(type, "sliding_attention") == 0;
            if (!sliding && strcmp(type, "full_attention") != 0)
                return refuse(types, "layer type", type);
        }
        if (sliding && window == 0)
            return zn_json_fail(config, "layer %lld slides but sliding_window is not set", (long long)i);
        c->windows[i] = sliding ? window : 0;
    }
    return ZN_OK;
}

zn_status llama_read(zn_json *config, struct llama_config *c)
{
    bool attention_bias;
    ZN_TRY(llama_config_common(config, 0, c));
    ZN_TRY(llama_config_rope(config, 10000, &c->rope));
    ZN_TRY(zn_json_get_bool_or(config, "attention_bias", false, &attention_bias));
    ZN_TRY(zn_json_get_bool_or(config, "mlp_bias", false, &c->mlp_bias));
    c->qkv_bias = c->out_bias = attention_bias;
    return ZN_OK;
}
