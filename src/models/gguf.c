/* Names, layouts and metadata of llama.cpp's architectures gpt2, llama, qwen2 and qwen3. */
#include "models/gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/llama.h"

struct gpt2_config {
    int64_t heads, inner;
    double eps;
};

struct zn_gguf_model {
    const zn_model *model;
    const char *architecture;
    bool is_gpt2;
    struct gpt2_config gpt2;
    struct llama_config llama;
    float *rope_factors;
};

/* ---- Reading ---- */

static zn_status refuse(zn_json *config, const char *what)
{
    zn_json_fail(config, "%s cannot be exported: llama.cpp has no such model", what);
    return ZN_ERR_UNSUPPORTED;
}

static zn_status read_gpt2(zn_json *config, const zn_model *model, struct gpt2_config *c)
{
    const char *activation;
    bool scales, scales_by_layer;
    ZN_TRY(config_size(config, "n_head", &c->heads));
    ZN_TRY(config_size_or(config, "n_inner", 4 * model->hidden, &c->inner));
    ZN_TRY(zn_json_get_number_or(config, "layer_norm_epsilon", 1e-5, &c->eps));
    ZN_TRY(zn_json_get_string_or(config, "activation_function", "gelu_new", &activation));
    ZN_TRY(zn_json_get_bool_or(config, "scale_attn_weights", true, &scales));
    ZN_TRY(zn_json_get_bool_or(config, "scale_attn_by_inverse_layer_idx", false, &scales_by_layer));
    if (strcmp(activation, "gelu") == 0)
        return refuse(config, "activation_function 'gelu' (llama.cpp has gelu_new)");
    if (!scales)
        return refuse(config, "scale_attn_weights false");
    return scales_by_layer ? refuse(config, "scale_attn_by_inverse_layer_idx true") : ZN_OK;
}

static zn_status check_llama(zn_json *config, const char *architecture, const struct llama_config *c)
{
    bool is_qwen2 = strcmp(architecture, "qwen2") == 0, is_qwen3 = strcmp(architecture, "qwen3") == 0;
    if (is_qwen2 && c->heads * c->head_dim != c->hidden)
        return refuse(config, "a qwen2 whose heads are not hidden_size together");
    if (is_qwen3 && c->out_bias)
        return refuse(config, "a qwen3 with attention_bias");
    if ((is_qwen2 || is_qwen3) && c->rope.kind == ROPE_LLAMA3)
        return refuse(config, "a qwen with rope_type 'llama3'");
    return ZN_OK;
}

static zn_status read_llama(zn_json *config, zn_gguf_model *g)
{
    struct llama_config *c = &g->llama;
    ZN_TRY(llama_config_read(config, g->model->architecture, c));
    ZN_TRY(check_llama(config, g->architecture, c));
    if (c->rope.kind != ROPE_LLAMA3)
        return ZN_OK;
    g->rope_factors = malloc((size_t)(c->head_dim / 2) * sizeof *g->rope_factors);
    if (!g->rope_factors)
        return zn_fail(ZN_ERR_MEMORY, "no memory for rotary factors");
    rope_factors(&c->rope, c->head_dim, g->rope_factors);
    return ZN_OK;
}

zn_status zn_gguf_model_create(zn_json *config, const zn_model *model, zn_gguf_model **gguf)
{
    zn_gguf_model *g = calloc(1, sizeof *g);
    if (!g)
        return zn_fail(ZN_ERR_MEMORY, "no memory for a model");
    g->model = model;
    g->architecture = strcmp(model->architecture, "mistral") == 0 ? "llama" : model->architecture;
    g->is_gpt2 = strcmp(model->architecture, "gpt2") == 0;
    zn_status status = g->is_gpt2 ? read_gpt2(config, model, &g->gpt2) : read_llama(config, g);
    if (status != ZN_OK) {
        zn_gguf_model_destroy(g);
        return status;
    }
    *gguf = g;
    return ZN_OK;
}

void zn_gguf_model_destroy(zn_gguf_model *gguf)
{
    if (!gguf)
        return;
    free(gguf->llama.windows);
    free(gguf->rope_factors);
    free(gguf);
}

const char *zn_gguf_model_architecture(const zn_gguf_model *gguf)
{
    return gguf->architecture;
}

const float *zn_gguf_model_rope_factors(const zn_gguf_model *gguf, int64_t *n)
{
    *n = gguf->rope_factors ? gguf->llama.head_dim / 2 : 0;
    return gguf->rope_factors;
}

/* The one that is not 0; all that are there are equal. */
static int64_t find_window(const zn_gguf_model *g)
{
    int64_t window = 0;
    for (int64_t i = 0; !g->is_gpt2 && i < g->llama.layers; i++)
        window = g->llama.windows[i] > window ? g->llama.windows[i] : window;
    return window;
}

int64_t zn_gguf_model_window(const zn_gguf_model *gguf)
{
    int64_t window = find_window(gguf);
    return window < gguf->model->max_positions ? window : 0;
}

/* ---- Metadata ---- */

/* "llama.block_count" of "block_count"; lives until the next call. */
static const char *key_of(const zn_gguf_model *g, const char *name, char key[ZN_GGUF_NAME])
{
    snprintf(key, ZN_GGUF_NAME, "%s.%s", g->architecture, name);
    return key;
}

static void add_count(const zn_gguf_model *g, zn_gguf_metadata *metadata, const char *name, int64_t value)
{
    char key[ZN_GGUF_NAME];
    zn_gguf_add_u32(metadata, key_of(g, name, key), (uint32_t)value);
}

static void add_number(const zn_gguf_model *g, zn_gguf_metadata *metadata, const char *name, double value)
{
    char key[ZN_GGUF_NAME];
    zn_gguf_add_f32(metadata, key_of(g, name, key), (float)value);
}

/* Which layers slide is said where not all do. */
static void add_windows(const zn_gguf_model *g, zn_gguf_metadata *metadata)
{
    const struct llama_config *c = &g->llama;
    int64_t window = find_window(g), n = 0;
    char key[ZN_GGUF_NAME];
    for (int64_t i = 0; i < c->layers; i++)
        n += c->windows[i] > 0;
    if (n == 0)
        return;
    add_count(g, metadata, "attention.sliding_window", window);
    if (n == c->layers)
        return;
    zn_gguf_add_array(metadata, key_of(g, "attention.sliding_window_pattern", key), ZN_GGUF_BOOL, (uint64_t)c->layers);
    for (int64_t i = 0; i < c->layers; i++)
        zn_gguf_item_bool(metadata, c->windows[i] > 0);
}

static void describe_llama(const zn_gguf_model *g, zn_gguf_metadata *metadata)
{
    const struct llama_config *c = &g->llama;
    char key[ZN_GGUF_NAME];
    add_count(g, metadata, "feed_forward_length", c->intermediate);
    add_count(g, metadata, "attention.head_count", c->heads);
    add_count(g, metadata, "attention.head_count_kv", c->kv_heads);
    add_count(g, metadata, "attention.key_length", c->head_dim);
    add_count(g, metadata, "attention.value_length", c->head_dim);
    add_number(g, metadata, "attention.layer_norm_rms_epsilon", c->eps);
    add_windows(g, metadata);
    add_count(g, metadata, "rope.dimension_count", c->head_dim);
    add_number(g, metadata, "rope.freq_base", c->rope.theta);
    if (c->rope.kind == ROPE_LINEAR) {
        zn_gguf_add_string(metadata, key_of(g, "rope.scaling.type", key), "linear");
        add_number(g, metadata, "rope.scaling.factor", c->rope.factor);
    }
}

void zn_gguf_model_describe(const zn_gguf_model *gguf, zn_gguf_metadata *metadata)
{
    const zn_model *model = gguf->model;
    add_count(gguf, metadata, "vocab_size", model->module->vocabulary);
    add_count(gguf, metadata, "context_length", model->max_positions);
    add_count(gguf, metadata, "embedding_length", model->hidden);
    add_count(gguf, metadata, "block_count", model->n_layers);
    if (!gguf->is_gpt2) {
        describe_llama(gguf, metadata);
        return;
    }
    add_count(gguf, metadata, "feed_forward_length", gguf->gpt2.inner);
    add_count(gguf, metadata, "attention.head_count", gguf->gpt2.heads);
    add_count(gguf, metadata, "attention.head_count_kv", gguf->gpt2.heads);
    add_number(gguf, metadata, "attention.layer_norm_epsilon", gguf->gpt2.eps);
}

/* ---- Tensors ---- */

enum place { OUTSIDE, IN_BLOCK };

/* Names without ".weight" and ".bias", below the block's where it has one. */
static const struct renamed {
    enum place place;
    const char *hub, *name;
    zn_gguf_layout layout; /* of weights and, where they are paired, biases; only llama pairs */
} names[] = {
    {OUTSIDE, "model.embed_tokens", "token_embd", ZN_GGUF_SAME},
    {OUTSIDE, "model.norm", "output_norm", ZN_GGUF_SAME},
    {OUTSIDE, "lm_head", "output", ZN_GGUF_SAME},
    {OUTSIDE, "transformer.wte", "token_embd", ZN_GGUF_SAME},
    {OUTSIDE, "transformer.wpe", "position_embd", ZN_GGUF_SAME},
    {OUTSIDE, "transformer.ln_f", "output_norm", ZN_GGUF_SAME},
    {IN_BLOCK, "input_layernorm", "attn_norm", ZN_GGUF_SAME},
    {IN_BLOCK, "self_attn.q_proj", "attn_q", ZN_GGUF_PAIRED},
    {IN_BLOCK, "self_attn.k_proj", "attn_k", ZN_GGUF_PAIRED},
    {IN_BLOCK, "self_attn.v_proj", "attn_v", ZN_GGUF_SAME},
    {IN_BLOCK, "self_attn.o_proj", "attn_output", ZN_GGUF_SAME},
    {IN_BLOCK, "self_attn.q_norm", "attn_q_norm", ZN_GGUF_SAME},
    {IN_BLOCK, "self_attn.k_norm", "attn_k_norm", ZN_GGUF_SAME},
    {IN_BLOCK, "post_attention_layernorm", "ffn_norm", ZN_GGUF_SAME},
    {IN_BLOCK, "mlp.gate_proj", "ffn_gate", ZN_GGUF_SAME},
    {IN_BLOCK, "mlp.up_proj", "ffn_up", ZN_GGUF_SAME},
    {IN_BLOCK, "mlp.down_proj", "ffn_down", ZN_GGUF_SAME},
    {IN_BLOCK, "ln_1", "attn_norm", ZN_GGUF_SAME},
    {IN_BLOCK, "attn.c_attn", "attn_qkv", ZN_GGUF_TRANSPOSED},
    {IN_BLOCK, "attn.c_proj", "attn_output", ZN_GGUF_TRANSPOSED},
    {IN_BLOCK, "ln_2", "ffn_norm", ZN_GGUF_SAME},
    {IN_BLOCK, "mlp.c_fc", "ffn_up", ZN_GGUF_TRANSPOSED},
    {IN_BLOCK, "mlp.c_proj", "ffn_down", ZN_GGUF_TRANSPOSED},
};

/* The row of a name that goes on with a dot, and what follows that dot. */
static const struct renamed *find_name(enum place place, const char *name, const char **rest)
{
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        size_t n = strlen(names[i].hub);
        if (names[i].place == place && strncmp(name, names[i].hub, n) == 0 && name[n] == '.') {
            *rest = name + n + 1;
            return &names[i];
        }
    }
    return NULL;
}

static zn_status rename_param(const zn_gguf_model *g, const zn_param *p, struct zn_gguf_param *out)
{
    const char *prefix = g->is_gpt2 ? "transformer.h." : "model.layers.", *rest = NULL;
    const struct renamed *found;
    if (strncmp(p->name, prefix, strlen(prefix)) == 0) {
        char *end;
        long block = strtol(p->name + strlen(prefix), &end, 10);
        found = find_name(IN_BLOCK, end + (*end == '.'), &rest);
        if (found)
            snprintf(out->spec.name, sizeof out->spec.name, "blk.%ld.%s.%s", block, found->name, rest);
    } else {
        found = find_name(OUTSIDE, p->name, &rest);
        if (found)
            snprintf(out->spec.name, sizeof out->spec.name, "%s.%s", found->name, rest);
    }
    if (!found)
        return zn_fail(ZN_ERR_INTERNAL, "tensor '%s' has no name in llama.cpp", p->name);
    out->layout = found->layout;
    if (found->layout == ZN_GGUF_PAIRED && strcmp(g->architecture, "llama") != 0)
        out->layout = ZN_GGUF_SAME;
    if (found->layout == ZN_GGUF_TRANSPOSED && p->ndim != 2)
        out->layout = ZN_GGUF_SAME;
    out->n_heads = strcmp(found->name, "attn_k") == 0 ? g->llama.kv_heads : g->llama.heads;
    return ZN_OK;
}

zn_status zn_gguf_model_param(const zn_gguf_model *gguf, const zn_param *param, zn_gguf_type type, struct zn_gguf_param *out)
{
    *out = (struct zn_gguf_param){0};
    ZN_TRY(rename_param(gguf, param, out));
    bool transposed = out->layout == ZN_GGUF_TRANSPOSED;
    out->spec.n_dims = param->ndim;
    for (int i = 0; i < param->ndim; i++)
        out->spec.dims[i] = param->dims[transposed ? param->ndim - 1 - i : i];
    /* llama.cpp adds positions and vectors to fp32. */
    if (param->ndim < 2 || strcmp(out->spec.name, "position_embd.weight") == 0)
        type = ZN_GGUF_F32;
    out->falls_back = out->spec.dims[param->ndim - 1] % zn_gguf_group(type) != 0;
    out->spec.type = out->falls_back ? ZN_GGUF_F16 : type;
    return ZN_OK;
}
