/* Qwen2, Qwen2.5 (bias on q, k and v) and Qwen3 (RMS norm on each head's q and k). */
#include "models/llama.h"

/* A window only where use_sliding_window says so, from max_window_layers on or by layer_types. */
static zn_status read_windows(zn_json *config, struct llama_config *c)
{
    bool slides;
    int64_t window, first;
    ZN_TRY(zn_json_get_bool_or(config, "use_sliding_window", false, &slides));
    ZN_TRY(config_size_or(config, "sliding_window", 4096, &window));
    ZN_TRY(zn_json_get_int_or(config, "max_window_layers", 0, INT32_MAX, 28, &first));
    return slides ? llama_config_windows(config, window, first, c) : ZN_OK;
}

zn_status qwen2_read(zn_json *config, struct llama_config *c)
{
    ZN_TRY(llama_config_common(config, 0, c));
    ZN_TRY(llama_config_rope(config, 10000, &c->rope));
    c->qkv_bias = true;
    return read_windows(config, c);
}

zn_status qwen3_read(zn_json *config, struct llama_config *c)
{
    bool attention_bias;
    ZN_TRY(llama_config_common(config, 128, c));
    ZN_TRY(llama_config_rope(config, 10000, &c->rope));
    ZN_TRY(zn_json_get_bool_or(config, "attention_bias", false, &attention_bias));
    c->qkv_bias = c->out_bias = attention_bias;
    c->head_norm = true;
    return read_windows(config, c);
}
