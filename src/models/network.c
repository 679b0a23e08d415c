/* Networks of the caller's own: declarations, and the module that runs its function. */
#include "models/network.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "base/text.h"
#include "models/describe.h"

struct zn_network {
    struct zn_network_options options;
    char name[32];
    zn_param *params; /* room for options.n_parameters: their addresses stay */
    int n_params;
};

enum { MAX_SEGMENTS = 10000, MAX_PARAMETERS = 1000000 };

static zn_status check_options(const struct zn_network_options *o)
{
    if (o->size != sizeof *o)
        return zn_fail(ZN_ERR_USAGE, "a network: size of its options is %zu, not %zu: set it to sizeof", o->size, sizeof *o);
    if (!o->name || !o->name[0] || strlen(o->name) > 31 ||
        strspn(o->name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != strlen(o->name))
        return zn_fail(ZN_ERR_USAGE, "a network: its name is one to 31 letters, digits, - and _");
    if (o->n_segments < 1 || o->n_segments > MAX_SEGMENTS || o->n_parameters < 1 || o->n_parameters > MAX_PARAMETERS ||
        o->vocabulary < 1 || o->vocabulary > INT32_MAX || o->max_seq_len < 1 || o->max_seq_len > INT32_MAX || !o->forward)
        return zn_fail(ZN_ERR_USAGE, "network %s: needs segments, parameters, vocabulary and max_seq_len of at least 1, and forward",
                       o->name);
    return ZN_OK;
}

zn_status zn_network_create(const struct zn_network_options *options, zn_network **network)
{
    ZN_TRY(check_options(options));
    zn_network *n = calloc(1, sizeof *n);
    zn_param *params = calloc((size_t)options->n_parameters, sizeof *params);
    if (!n || !params) {
        free(n);
        free(params);
        return zn_fail(ZN_ERR_MEMORY, "no memory for a network");
    }
    *n = (zn_network){.options = *options, .params = params};
    snprintf(n->name, sizeof n->name, "%s", options->name);
    *network = n;
    return ZN_OK;
}

void zn_network_destroy(zn_network *network)
{
    if (!network)
        return;
    free(network->params);
    free(network);
}

static zn_status check_declaration(const zn_network *n, const char *name, int segment, int n_dims)
{
    if (n->n_params == n->options.n_parameters)
        return zn_fail(ZN_ERR_USAGE, "network %s: more than the %d parameters that its options say", n->name, n->n_params);
    if (!name || !name[0] || strlen(name) >= ZN_PARAM_NAME)
        return zn_fail(ZN_ERR_USAGE, "network %s: a parameter's name has 1 to %d bytes", n->name, ZN_PARAM_NAME - 1);
    for (int i = 0; i < n->n_params; i++)
        if (strcmp(n->params[i].name, name) == 0)
            return zn_fail(ZN_ERR_USAGE, "network %s: parameter %s is declared twice", n->name, name);
    if (segment < 0 || segment >= n->options.n_segments || n_dims < 1 || n_dims > ZN_MAX_DIMS)
        return zn_fail(ZN_ERR_USAGE, "network %s: parameter %s: segments are 0 to %d, dimensions 1 to %d", n->name, name,
                       n->options.n_segments - 1, ZN_MAX_DIMS);
    return ZN_OK;
}

zn_status zn_network_declare(zn_network *n, const char *name, int segment, int n_dims, const int64_t *dims, zn_init init, float spread,
                             const zn_param **param)
{
    ZN_TRY(check_declaration(n, name, segment, n_dims));
    zn_param *p = &n->params[n->n_params];
    *p = (zn_param){.index = n->n_params, .segment = segment, .ndim = n_dims, .init = init, .spread = spread, .n_elements = 1};
    snprintf(p->name, sizeof p->name, "%s", name);
    for (int i = 0; i < n_dims; i++) {
        p->dims[i] = dims[i];
        if (dims[i] < 1 || !zn_mul_count(p->n_elements, dims[i], &p->n_elements) || p->n_elements > INT64_MAX / 64)
            return zn_fail(ZN_ERR_USAGE, "network %s: parameter %s: its dimensions are no shape", n->name, name);
    }
    n->n_params++;
    *param = p;
    return ZN_OK;
}

/* ---- The model ---- */

struct network_module {
    zn_module module;
    const zn_network *network;
};

static zn_tensor *forward(const zn_module *module, zn_tape *tape, int segment, zn_tensor *x, const struct zn_batch *batch)
{
    const struct zn_network_options *o = &((const struct network_module *)module)->network->options;
    return o->forward(o->self, tape, segment, x, batch);
}

static void destroy(zn_module *module)
{
    free(module->params);
    free(module);
}

static zn_status check_network(const zn_network *n, int64_t max_seq_len)
{
    if (n->n_params == 0)
        return zn_fail(ZN_ERR_USAGE, "network %s: has no parameters", n->name);
    if (max_seq_len > n->options.max_seq_len)
        return zn_fail(ZN_ERR_USAGE, "network %s: takes sequences of at most %lld", n->name, (long long)n->options.max_seq_len);
    return ZN_OK;
}

zn_status zn_network_make_model(const zn_network *n, int64_t max_seq_len, zn_model **model)
{
    ZN_TRY(check_network(n, max_seq_len));
    zn_model *m = calloc(1, sizeof *m);
    struct network_module *own = calloc(1, sizeof *own);
    zn_param *params = calloc((size_t)n->n_params, sizeof *params);
    if (!m || !own || !params) {
        free(m);
        free(own);
        free(params);
        return zn_fail(ZN_ERR_MEMORY, "no memory for a model");
    }
    memcpy(params, n->params, (size_t)n->n_params * sizeof *params);
    own->network = n;
    own->module = (zn_module){.forward = forward,
                              .destroy = destroy,
                              .n_segments = n->options.n_segments,
                              .params = params,
                              .n_params = n->n_params,
                              .vocabulary = n->options.vocabulary,
                              .max_seq_len = max_seq_len ? max_seq_len : n->options.max_seq_len};
    *m = (zn_model){.module = &own->module,
                    .max_positions = n->options.max_seq_len,
                    .n_layers = n->options.n_segments,
                    .hidden = n->params[0].dims[n->params[0].ndim - 1]};
    snprintf(m->architecture, sizeof m->architecture, "%s", n->name);
    *model = m;
    return ZN_OK;
}

zn_status zn_network_config(const zn_network *n, char **text)
{
    zn_text t;
    zn_text_init(&t);
    zn_text_add(&t, "{\n  \"model_type\": \"%s\",\n  \"vocab_size\": %lld,\n  \"max_position_embeddings\": %lld\n}\n", n->name,
                (long long)n->options.vocabulary, (long long)n->options.max_seq_len);
    zn_status status = zn_text_status(&t);
    if (status == ZN_OK)
        *text = t.data; /* the caller's now */
    else
        zn_text_fini(&t);
    return status;
}

/* ---- Operators in the public form ---- */

zn_tensor *zn_batch_ids(const struct zn_batch *batch)
{
    return batch->ids;
}

zn_tensor *zn_causal_attention(zn_tape *tape, zn_tensor *q, zn_tensor *k, zn_tensor *v, int64_t heads, int64_t kv_heads)
{
    int64_t head_dim = heads > 0 ? zn_tensor_dim(q, 2) / heads : 0;
    const struct zn_attention how = {.heads = heads,
                                     .kv_heads = kv_heads,
                                     .head_dim = head_dim,
                                     .scale = head_dim > 0 ? (float)(1.0 / sqrt((double)head_dim)) : 0.0f};
    return zn_attention(tape, q, k, v, &how);
}

zn_tensor *zn_head(zn_tape *tape, zn_tensor *x, const zn_param *weight, const struct zn_batch *batch)
{
    return zn_module_head(tape, x, weight, batch);
}
