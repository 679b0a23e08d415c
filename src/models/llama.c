/* The Llama family: RMS norm, rotary embedding, grouped heads, gated MLP. */
#include "models/llama.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"

struct projection {
    int weight, bias;
};

struct block {
    int norm1, norm2, q_norm, k_norm;
    struct projection q, k, v, out, gate, up, down;
};

struct llama {
    zn_module module;
    struct llama_config config;
    struct zn_tensor_rank rank;
    struct block *blocks;
    int table, norm, head;
    zn_constant tables[2]; /* cos, sin */
    float *angles;         /* the values of both */
};

static zn_tensor *project(const struct llama *l, zn_tape *t, zn_tensor *x, struct projection p)
{
    return zn_linear(t, x, param_at(&l->module, p.weight), param_at(&l->module, p.bias), ZN_OUT_IN);
}

/* The way back from heads or the MLP, of which each rank of a tensor-parallel group has its own. */
static zn_tensor *project_back(const struct llama *l, zn_tape *t, zn_tensor *x, struct projection p)
{
    return zn_linear_of_slices(t, x, param_at(&l->module, p.weight), param_at(&l->module, p.bias), ZN_OUT_IN);
}

/* q or k: projected, normed per head (Qwen3), turned by position. */
static zn_tensor *heads(const struct llama *l, zn_tape *t, zn_tensor *x, struct projection p,
                        int norm, int64_t n_heads)
{
    zn_tensor *h = project(l, t, x, p);
    if (norm >= 0)
        h = zn_rmsnorm(t, h, param_at(&l->module, norm), (float)l->config.eps);
    return zn_rope(t, h, n_heads, &l->tables[0], &l->tables[1]);
}

static zn_tensor *block_forward(const struct llama *l, zn_tape *t, int layer, zn_tensor *x)
{
    const struct llama_config *c = &l->config;
    const struct block *b = &l->blocks[layer];
    struct zn_attention how = {.heads = c->heads / l->rank.count,
                               .kv_heads = kv_heads_held(c->kv_heads, l->rank.count),
                               .head_dim = c->head_dim,
                               .window = c->windows[layer],
                               .scale = (float)(1.0 / sqrt((double)c->head_dim))};

    zn_tensor *h = zn_rmsnorm(t, x, param_at(&l->module, b->norm1), (float)c->eps);
    h = zn_copy_to_slices(t, h, param_at(&l->module, b->q.weight));
    zn_tensor *q = heads(l, t, h, b->q, b->q_norm, how.heads);
    zn_tensor *k = heads(l, t, h, b->k, b->k_norm, how.kv_heads);
    zn_tensor *v = project(l, t, h, b->v);
    h = zn_attention(t, q, k, v, &how);
    x = zn_add(t, x, project_back(l, t, h, b->out));

    h = zn_rmsnorm(t, x, param_at(&l->module, b->norm2), (float)c->eps);
    h = zn_copy_to_slices(t, h, param_at(&l->module, b->gate.weight));
    h = zn_swiglu(t, project(l, t, h, b->gate), project(l, t, h, b->up));
    return zn_add(t, x, project_back(l, t, h, b->down));
}

static zn_tensor *llama_forward(const zn_module *m, zn_tape *t, int segment, zn_tensor *x,
                                const struct zn_batch *batch)
{
    const struct llama *l = (const struct llama *)m;
    if (segment == 0)
        return zn_embedding(t, batch->ids, param_at(m, l->table), NULL);
    if (segment <= l->config.layers)
        return block_forward(l, t, segment - 1, x);
    x = zn_rmsnorm(t, x, param_at(m, l->norm), (float)l->config.eps);
    return zn_module_head(t, x, param_at(m, l->head), batch);
}

static void llama_destroy(zn_module *m)
{
    struct llama *l = (struct llama *)m;
    free(l->config.windows);
    free(l->blocks);
    free(l->angles);
    free(m->params);
    free(l);
}

static struct projection declare_projection(const struct llama *l, struct param_list *list,
                                            int layer, const char *name, int64_t out, int64_t in,
                                            bool bias)
{
    const int64_t matrix[] = {out, in, 0}, row[] = {out, 0};
    struct projection p = {.bias = -1};
    p.weight = param_add(list, layer + 1, ZN_INIT_NORMAL, (float)l->config.initializer_range, matrix,
                         "model.layers.%d.%s.weight", layer, name);
    if (bias)
        p.bias = param_add(list, layer + 1, ZN_INIT_ZEROS, 0, row, "model.layers.%d.%s.bias", layer,
                           name);
    return p;
}

static int declare_norm(struct param_list *list, int layer, const char *name, int64_t n)
{
    const int64_t row[] = {n, 0};
    return param_add(list, layer + 1, ZN_INIT_ONES, 0, row, "model.layers.%d.%s.weight", layer, name);
}

/* Columns of what a rank computes are rows of the weight; what it takes, columns. */
static void slice_out(struct param_list *list, struct projection p, int64_t n_heads)
{
    param_slice_heads(list, p.weight, 0, n_heads);
    if (p.bias >= 0)
        param_slice_heads(list, p.bias, 0, n_heads);
}

static void slice_block(const struct llama_config *c, struct param_list *list, const struct block *b)
{
    slice_out(list, b->q, c->heads);
    slice_out(list, b->k, c->kv_heads);
    slice_out(list, b->v, c->kv_heads);
    slice_out(list, b->gate, c->intermediate);
    slice_out(list, b->up, c->intermediate);
    param_slice(list, b->out.weight, 1, 1);
    param_slice(list, b->down.weight, 1, 1);
    if (c->head_norm) { /* each rank norms its own heads */
        param_sum_gradients(list, b->q_norm);
        param_sum_gradients(list, b->k_norm);
    }
}

static void declare_block(struct llama *l, struct param_list *list, int layer)
{
    const struct llama_config *c = &l->config;
    struct block *b = &l->blocks[layer];
    int64_t q = c->heads * c->head_dim, kv = c->kv_heads * c->head_dim;
    b->norm1 = declare_norm(list, layer, "input_layernorm", c->hidden);
    b->q = declare_projection(l, list, layer, "self_attn.q_proj", q, c->hidden, c->qkv_bias);
    b->k = declare_projection(l, list, layer, "self_attn.k_proj", kv, c->hidden, c->qkv_bias);
    b->v = declare_projection(l, list, layer, "self_attn.v_proj", kv, c->hidden, c->qkv_bias);
    b->out = declare_projection(l, list, layer, "self_attn.o_proj", c->hidden, q, c->out_bias);
    b->q_norm = b->k_norm = -1;
    if (c->head_norm) {
        b->q_norm = declare_norm(list, layer, "self_attn.q_norm", c->head_dim);
        b->k_norm = declare_norm(list, layer, "self_attn.k_norm", c->head_dim);
    }
    b->norm2 = declare_norm(list, layer, "post_attention_layernorm", c->hidden);
    b->gate = declare_projection(l, list, layer, "mlp.gate_proj", c->intermediate, c->hidden, c->mlp_bias);
    b->up = declare_projection(l, list, layer, "mlp.up_proj", c->intermediate, c->hidden, c->mlp_bias);
    b->down = declare_projection(l, list, layer, "mlp.down_proj", c->hidden, c->intermediate, c->mlp_bias);
    slice_block(c, list, b);
}

static void declare(struct llama *l, struct param_list *list)
{
    const struct llama_config *c = &l->config;
    const int64_t table[] = {c->vocabulary, c->hidden, 0}, row[] = {c->hidden, 0};
    int last = (int)c->layers + 1;
    float std = (float)c->initializer_range;
    l->table = param_add(list, 0, ZN_INIT_NORMAL, std, table, "model.embed_tokens.weight");
    param_slice(list, l->table, 0, 1);
    for (int layer = 0; layer < c->layers; layer++)
        declare_block(l, list, layer);
    l->norm = param_add(list, last, ZN_INIT_ONES, 0, row, "model.norm.weight");
    l->head = c->tied ? l->table : param_add(list, last, ZN_INIT_NORMAL, std, table, "lm_head.weight");
    if (!c->tied)
        param_slice(list, l->head, 0, 1);
}

static zn_status make_tables(struct llama *l)
{
    int64_t n;
    bool fits = zn_mul_count(l->module.max_seq_len, l->config.head_dim / 2, &n) && n <= INT64_MAX / 64;
    l->angles = fits ? malloc(2 * (size_t)n * sizeof *l->angles) : NULL;
    if (!l->angles)
        return zn_fail(ZN_ERR_MEMORY, "no memory for rotary tables of %lld positions",
                       (long long)l->module.max_seq_len);
    rope_tables(&l->config.rope, l->module.max_seq_len, l->config.head_dim, l->angles, l->angles + n);
    l->tables[0] = (zn_constant){"rope.cos", 0, n, l->angles};
    l->tables[1] = (zn_constant){"rope.sin", 1, n, l->angles + n};
    l->module.constants = l->tables;
    l->module.n_constants = 2;
    return ZN_OK;
}

zn_status llama_config_read(zn_json *config, const char *architecture, struct llama_config *c)
{
    if (strcmp(architecture, "mistral") == 0)
        return mistral_read(config, c);
    if (strcmp(architecture, "qwen2") == 0)
        return qwen2_read(config, c);
    if (strcmp(architecture, "qwen3") == 0)
        return qwen3_read(config, c);
    return llama_read(config, c);
}

zn_status llama_family_create(zn_json *config, int64_t max_seq_len, zn_model *model)
{
    struct llama *l = calloc(1, sizeof *l);
    if (!l)
        return zn_fail(ZN_ERR_MEMORY, "no memory for a model");
    struct llama_config *c = &l->config;
    struct param_list list = {.rank = model->rank};
    l->rank = model->rank;
    l->module.forward = llama_forward;
    l->module.destroy = llama_destroy;
    zn_status status = llama_config_read(config, model->architecture, c);
    if (status == ZN_OK)
        status = config_check_tensor(l->rank,
                                     &(struct tensor_shape){c->heads, c->kv_heads, c->intermediate, c->vocabulary});
    if (status != ZN_OK)
        goto undo_model;
    l->blocks = calloc((size_t)c->layers, sizeof *l->blocks);
    if (!l->blocks) {
        status = zn_fail(ZN_ERR_MEMORY, "no memory for %lld layers", (long long)c->layers);
        goto undo_model;
    }
    declare(l, &list);
    l->module.params = list.params;
    l->module.n_params = list.n_params;
    l->module.n_segments = (int)c->layers + 2;
    l->module.only_embeds = true;
    l->module.vocabulary = c->vocabulary;
    l->module.max_seq_len = max_seq_len ? max_seq_len : c->positions;
    status = list.status != ZN_OK ? list.status : make_tables(l);
    if (status != ZN_OK)
        goto undo_model;
    model->module = &l->module;
    model->max_positions = c->positions;
    model->n_layers = c->layers;
    model->hidden = c->hidden;
    model->tied = c->tied;
    model->has_dropout = c->has_dropout;
    model->optional_prefix = "model.";
    return ZN_OK;
undo_model:
    llama_destroy(&l->module);
    return status;
}
