/* The Llama family: one architecture with switches, and one file for each member's reading of its
 * config. */
#ifndef ZN_MODELS_LLAMA_H
#define ZN_MODELS_LLAMA_H

#include "models/build.h"

typedef enum rope_kind { ROPE_PLAIN, ROPE_LINEAR, ROPE_LLAMA3 } rope_kind;

struct rope_config {
    rope_kind kind;
    double theta, factor, low_freq_factor, high_freq_factor, original_positions;
};

struct llama_config {
    int64_t vocabulary, hidden, intermediate, layers, heads, kv_heads, head_dim, positions;
    double eps, initializer_range;
    struct rope_config rope;
    bool qkv_bias, out_bias, mlp_bias, head_norm, tied, has_dropout;
    int64_t *windows; /* for each layer, 0 is none; owned */
};

/* What every member has in common; the readers below add their own. */
zn_status llama_config_common(zn_json *config, int64_t default_head_dim, struct llama_config *c);
zn_status llama_config_rope(zn_json *config, double default_theta, struct rope_config *rope);

/* Sets the window of the layers that layer_types (or, without it, `first_sliding` on) name. */
zn_status llama_config_windows(zn_json *config, int64_t window, int64_t first_sliding,
                               struct llama_config *c);

zn_status llama_read(zn_json *config, struct llama_config *c);
zn_status mistral_read(zn_json *config, struct llama_config *c);
zn_status qwen2_read(zn_json *config, struct llama_config *c);
zn_status qwen3_read(zn_json *config, struct llama_config *c);

/* The reader of a model_type. The caller frees the windows, also after a failure. */
zn_status llama_config_read(zn_json *config, const char *architecture, struct llama_config *c);

/* cos and sin of the angles, (positions, head_dim/2) each, as the hub's code computes them: frequencies
 * and angles rounded to fp32. */
void rope_tables(const struct rope_config *rope, int64_t positions, int64_t head_dim, float *cosines,
                 float *sines);

/* By what each of the head_dim/2 plain frequencies is divided. */
void rope_factors(const struct rope_config *rope, int64_t head_dim, float *factors);

#endif
