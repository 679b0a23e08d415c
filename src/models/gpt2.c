/* GPT-2: learned positions, pre-norm blocks with fused q, k, v, gelu; weights stored (in,out). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/build.h"

struct block {
    int norm1_weight, norm1_bias, qkv_weight, qkv_bias, out_weight, out_bias;
    int norm2_weight, norm2_bias, up_weight, up_bias, down_weight, down_bias;
};

struct gpt2 {
    zn_module module;
    int64_t hidden, inner, heads, layers, positions;
    float eps, initializer_range;
    zn_gelu_form gelu;
    bool scale_attention, scale_by_layer;
    struct zn_tensor_rank rank;
    int token_table, position_table, final_weight, final_bias, head;
    struct block *blocks;
};

static zn_tensor *block_forward(const struct gpt2 *g, zn_tape *t, int layer, zn_tensor *x)
{
    const zn_module *m = &g->module;
    const struct block *b = &g->blocks[layer];
    int64_t head_dim = g->hidden / g->heads;
    int64_t heads = g->heads / g->rank.count;
    struct zn_attention how = {.heads = heads, .kv_heads = heads, .head_dim = head_dim};
    how.scale = g->scale_attention ? (float)(1.0 / sqrt((double)head_dim)) : 1.0f;
    if (g->scale_by_layer)
        how.scale /= (float)(layer + 1);

    zn_tensor *h = zn_layernorm(t, x, param_at(m, b->norm1_weight), param_at(m, b->norm1_bias), g->eps);
    h = zn_copy_to_slices(t, h, param_at(m, b->qkv_weight));
    h = zn_linear(t, h, param_at(m, b->qkv_weight), param_at(m, b->qkv_bias), ZN_IN_OUT);
    h = zn_attention_fused(t, h, &how);
    h = zn_linear_of_slices(t, h, param_at(m, b->out_weight), param_at(m, b->out_bias), ZN_IN_OUT);
    x = zn_add(t, x, h);

    h = zn_layernorm(t, x, param_at(m, b->norm2_weight), param_at(m, b->norm2_bias), g->eps);
    h = zn_copy_to_slices(t, h, param_at(m, b->up_weight));
    h = zn_linear(t, h, param_at(m, b->up_weight), param_at(m, b->up_bias), ZN_IN_OUT);
    h = zn_gelu(t, h, g->gelu);
    h = zn_linear_of_slices(t, h, param_at(m, b->down_weight), param_at(m, b->down_bias), ZN_IN_OUT);
    return zn_add(t, x, h);
}

static zn_tensor *gpt2_forward(const zn_module *m, zn_tape *t, int segment, zn_tensor *x,
                               const struct zn_batch *batch)
{
    const struct gpt2 *g = (const struct gpt2 *)m;
    if (segment == 0)
        return zn_embedding(t, batch->ids, param_at(m, g->token_table), param_at(m, g->position_table));
    if (segment <= g->layers)
        return block_forward(g, t, segment - 1, x);
    x = zn_layernorm(t, x, param_at(m, g->final_weight), param_at(m, g->final_bias), g->eps);
    return zn_module_head(t, x, param_at(m, g->head), batch);
}

static void gpt2_destroy(zn_module *m)
{
    struct gpt2 *g = (struct gpt2 *)m;
    free(g->blocks);
    free(m->params);
    free(g);
}

static zn_status read_activation(zn_json *config, zn_gelu_form *form)
{
    const char *name;
    ZN_TRY(zn_json_get_string_or(config, "activation_function", "gelu_new", &name));
    if (strcmp(name, "gelu_new") == 0 || strcmp(name, "gelu_pytorch_tanh") == 0) {
        *form = ZN_GELU_TANH;
    } else if (strcmp(name, "gelu") == 0) {
        *form = ZN_GELU_EXACT;
    } else {
        zn_json_fail(config, "activation_function '%s' is not supported (gelu_new and gelu are)", name);
        return ZN_ERR_UNSUPPORTED;
    }
    return ZN_OK;
}

static zn_status read_config(zn_json *config, struct gpt2 *g, zn_model *model)
{
    double eps, range, embd, attn, resid;
    bool cross;
    ZN_TRY(config_size(config, "vocab_size", &g->module.vocabulary));
    ZN_TRY(config_size(config, "n_embd", &g->hidden));
    ZN_TRY(config_layers(config, "n_layer", &g->layers));
    ZN_TRY(config_size(config, "n_head", &g->heads));
    ZN_TRY(config_size_or(config, "n_positions", 1024, &g->positions));
    ZN_TRY(config_size_or(config, "n_inner", 4 * g->hidden, &g->inner));
    ZN_TRY(zn_json_get_number_or(config, "layer_norm_epsilon", 1e-5, &eps));
    ZN_TRY(zn_json_get_number_or(config, "initializer_range", 0.02, &range));
    ZN_TRY(zn_json_get_bool_or(config, "tie_word_embeddings", true, &model->tied));
    ZN_TRY(zn_json_get_bool_or(config, "scale_attn_weights", true, &g->scale_attention));
    ZN_TRY(zn_json_get_bool_or(config, "scale_attn_by_inverse_layer_idx", false, &g->scale_by_layer));
    ZN_TRY(zn_json_get_bool_or(config, "add_cross_attention", false, &cross));
    ZN_TRY(zn_json_get_number_or(config, "embd_pdrop", 0.1, &embd));
    ZN_TRY(zn_json_get_number_or(config, "attn_pdrop", 0.1, &attn));
    ZN_TRY(zn_json_get_number_or(config, "resid_pdrop", 0.1, &resid));
    ZN_TRY(read_activation(config, &g->gelu));
    if (cross)
        return zn_json_fail(config, "add_cross_attention is not supported"), ZN_ERR_UNSUPPORTED;
    if (g->hidden % g->heads != 0)
        return zn_json_fail(config, "n_embd %lld is not a multiple of n_head %lld",
                            (long long)g->hidden, (long long)g->heads);
    g->eps = (float)eps;
    g->initializer_range = (float)range;
    model->has_dropout = embd > 0 || attn > 0 || resid > 0;
    return ZN_OK;
}

static void declare_block(struct gpt2 *g, struct param_list *list, int layer)
{
    struct block *b = &g->blocks[layer];
    int64_t c = g->hidden, inner = g->inner;
    int s = layer + 1;
    float std = g->initializer_range;
    float out_std = std / (float)sqrt(2.0 * (double)g->layers); /* what ends in the residual */
    const int64_t row[] = {c, 0}, qkv[] = {c, 3 * c, 0}, qkv_row[] = {3 * c, 0}, out[] = {c, c, 0};
    const int64_t up[] = {c, inner, 0}, up_row[] = {inner, 0}, down[] = {inner, c, 0};
#define NAME(rest) "transformer.h.%d." rest, layer
    b->norm1_weight = param_add(list, s, ZN_INIT_ONES, 0, row, NAME("ln_1.weight"));
    b->norm1_bias = param_add(list, s, ZN_INIT_ZEROS, 0, row, NAME("ln_1.bias"));
    b->qkv_weight = param_add(list, s, ZN_INIT_NORMAL, std, qkv, NAME("attn.c_attn.weight"));
    b->qkv_bias = param_add(list, s, ZN_INIT_ZEROS, 0, qkv_row, NAME("attn.c_attn.bias"));
    b->out_weight = param_add(list, s, ZN_INIT_NORMAL, out_std, out, NAME("attn.c_proj.weight"));
    b->out_bias = param_add(list, s, ZN_INIT_ZEROS, 0, row, NAME("attn.c_proj.bias"));
    b->norm2_weight = param_add(list, s, ZN_INIT_ONES, 0, row, NAME("ln_2.weight"));
    b->norm2_bias = param_add(list, s, ZN_INIT_ZEROS, 0, row, NAME("ln_2.bias"));
    b->up_weight = param_add(list, s, ZN_INIT_NORMAL, std, up, NAME("mlp.c_fc.weight"));
    b->up_bias = param_add(list, s, ZN_INIT_ZEROS, 0, up_row, NAME("mlp.c_fc.bias"));
    b->down_weight = param_add(list, s, ZN_INIT_NORMAL, out_std, down, NAME("mlp.c_proj.weight"));
    b->down_bias = param_add(list, s, ZN_INIT_ZEROS, 0, row, NAME("mlp.c_proj.bias"));
#undef NAME
    param_slice(list, b->qkv_weight, 1, 3);
    param_slice(list, b->qkv_bias, 0, 3);
    param_slice(list, b->out_weight, 0, 1);
    param_slice(list, b->up_weight, 1, 1);
    param_slice(list, b->up_bias, 0, 1);
    param_slice(list, b->down_weight, 0, 1);
}

static void declare(struct gpt2 *g, struct param_list *list, bool tied)
{
    int64_t c = g->hidden, vocabulary = g->module.vocabulary;
    int last = (int)g->layers + 1;
    const int64_t row[] = {c, 0}, table[] = {vocabulary, c, 0}, positions[] = {g->positions, c, 0};
    float std = g->initializer_range;
    g->token_table = param_add(list, 0, ZN_INIT_NORMAL, std, table, "transformer.wte.weight");
    param_slice(list, g->token_table, 0, 1);
    g->position_table = param_add(list, 0, ZN_INIT_NORMAL, std, positions, "transformer.wpe.weight");
    if (list->status == ZN_OK)
        list->params[g->position_table].stays_whole = true;
    for (int layer = 0; layer < g->layers; layer++)
        declare_block(g, list, layer);
    g->final_weight = param_add(list, last, ZN_INIT_ONES, 0, row, "transformer.ln_f.weight");
    g->final_bias = param_add(list, last, ZN_INIT_ZEROS, 0, row, "transformer.ln_f.bias");
    g->head = tied ? g->token_table
                   : param_add(list, last, ZN_INIT_NORMAL, std, table, "lm_head.weight");
    if (!tied)
        param_slice(list, g->head, 0, 1);
}

zn_status gpt2_create(zn_json *config, int64_t max_seq_len, zn_model *model)
{
    struct gpt2 *g = calloc(1, sizeof *g);
    if (!g)
        return zn_fail(ZN_ERR_MEMORY, "no memory for a model");
    g->module.forward = gpt2_forward;
    g->module.destroy = gpt2_destroy;
    g->rank = model->rank;
    struct param_list list = {.rank = model->rank};
    zn_status status = read_config(config, g, model);
    if (status == ZN_OK)
        status = config_check_tensor(g->rank, &(struct tensor_shape){g->heads, g->heads, g->inner, g->module.vocabulary});
    if (status != ZN_OK)
        goto undo_model;
    g->blocks = calloc((size_t)g->layers, sizeof *g->blocks);
    if (!g->blocks) {
        status = zn_fail(ZN_ERR_MEMORY, "no memory for %lld layers", (long long)g->layers);
        goto undo_model;
    }
    declare(g, &list, model->tied);
    status = list.status;
    g->module.params = list.params;
    g->module.n_params = list.n_params;
    if (status != ZN_OK)
        goto undo_model;
    g->module.n_segments = (int)g->layers + 2;
    g->module.only_embeds = true;
    g->module.max_seq_len = max_seq_len ? max_seq_len : g->positions;
    model->module = &g->module;
    model->max_positions = g->positions;
    model->n_layers = g->layers;
    model->hidden = g->hidden;
    model->optional_prefix = "transformer.";
    model->is_in_out = true;
    return ZN_OK;
undo_model:
    gpt2_destroy(&g->module);
    return status;
}
