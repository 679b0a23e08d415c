/* The registry: which file makes which model_type, and what they share. */
#include "models/model.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "base/text.h"
#include "models/build.h"

static const struct {
    const char *model_type;
    zn_status (*create)(zn_json *config, int64_t max_seq_len, zn_model *model);
} architectures[] = {
    {"gpt2", gpt2_create},           {"llama", llama_family_create},
    {"mistral", llama_family_create}, {"qwen2", llama_family_create},
    {"qwen3", llama_family_create},
};

/* Quantised weights have other tensors, and what is written beside config.json would not be what it says. */
static zn_status check_not_quantised(zn_json *config)
{
    zn_json *how;
    const char *method = NULL;
    if (!zn_json_has(config, "quantization_config"))
        return ZN_OK;
    if (zn_json_get_object(config, "quantization_config", &how) != ZN_OK ||
        zn_json_get_string_or(how, "quant_method", NULL, &method) != ZN_OK)
        method = NULL;
    zn_json_fail(config, "has a quantization_config%s%s: quantised weights cannot be read; take the unquantised model that "
                 "they were made from", method ? " of " : "", method ? zn_shown(method).text : "");
    return ZN_ERR_UNSUPPORTED;
}

zn_status zn_model_create(zn_json *config, int64_t max_seq_len, zn_model **model)
{
    return zn_model_create_sliced(config, max_seq_len, (struct zn_tensor_rank){0, 1}, model);
}

zn_status zn_model_create_sliced(zn_json *config, int64_t max_seq_len, struct zn_tensor_rank rank, zn_model **model)
{
    const char *type;
    ZN_TRY(zn_json_get_string(config, "model_type", &type));
    ZN_TRY(check_not_quantised(config));
    for (size_t i = 0; i < sizeof architectures / sizeof architectures[0]; i++) {
        if (strcmp(type, architectures[i].model_type) != 0)
            continue;
        zn_model *m = calloc(1, sizeof *m);
        if (!m)
            return zn_fail(ZN_ERR_MEMORY, "no memory for a model");
        snprintf(m->architecture, sizeof m->architecture, "%s", type);
        m->rank = rank;
        zn_status status = architectures[i].create(config, max_seq_len, m);
        if (status != ZN_OK) {
            free(m);
            return status;
        }
        *model = m;
        return ZN_OK;
    }
    zn_json_fail(config, "model_type '%s' is not supported (gpt2, llama, mistral, qwen2 and qwen3 are)",
                 type);
    return ZN_ERR_UNSUPPORTED;
}

void zn_model_destroy(zn_model *model)
{
    if (!model)
        return;
    zn_module_destroy(model->module);
    free(model);
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

bool zn_model_ignores(const zn_model *model, const char *tensor)
{
    if (strcmp(model->architecture, "gpt2") == 0 &&
        (ends_with(tensor, ".attn.bias") || ends_with(tensor, ".attn.masked_bias")))
        return true;
    if (ends_with(tensor, ".rotary_emb.inv_freq"))
        return true;
    return model->tied && strcmp(tensor, "lm_head.weight") == 0;
}

int64_t zn_model_n_elements(const zn_model *model)
{
    int64_t sum = 0;
    for (int i = 0; i < model->module->n_params; i++)
        sum += zn_param_n_whole(&model->module->params[i]);
    return sum;
}

int64_t zn_model_n_held(const zn_model *model)
{
    int64_t sum = 0;
    for (int i = 0; i < model->module->n_params; i++)
        sum += model->module->params[i].n_elements;
    return sum;
}

int param_add(struct param_list *list, int segment, zn_init init, float spread,
              const int64_t *dims, const char *format, ...)
{
    if (list->status != ZN_OK)
        return 0;
    if (list->n_params == list->capacity) {
        int capacity = list->capacity ? 2 * list->capacity : 64;
        zn_param *grown = realloc(list->params, (size_t)capacity * sizeof *grown);
        if (!grown) {
            list->status = zn_fail(ZN_ERR_MEMORY, "no memory for the list of parameters");
            return 0;
        }
        list->params = grown;
        list->capacity = capacity;
    }
    zn_param *p = &list->params[list->n_params];
    *p = (zn_param){.index = list->n_params,
                    .segment = segment,
                    .init = init,
                    .spread = spread,
                    .n_elements = 1,
                    .slice = {.count = 1, .parts = 1, .copy = list->rank.index, .copies = list->rank.count}};
    va_list args;
    va_start(args, format);
    vsnprintf(p->name, sizeof p->name, format, args);
    va_end(args);
    for (; dims[p->ndim] != 0; p->ndim++) {
        p->dims[p->ndim] = dims[p->ndim];
        if (!zn_mul_count(p->n_elements, dims[p->ndim], &p->n_elements) ||
            p->n_elements > INT64_MAX / 64)
            list->status = zn_fail(ZN_ERR_INPUT, "config.json: '%s' would be too large", p->name);
    }
    return list->n_params++;
}

static void slice(struct param_list *list, int index, struct zn_slice how)
{
    if (list->status != ZN_OK || list->rank.count < 2)
        return;
    zn_param *p = &list->params[index];
    p->slice = how;
    if (!zn_is_sliced(p))
        return;
    memcpy(p->shape, p->dims, sizeof p->shape);
    p->dims[how.dim] = (p->shape[how.dim] + how.count - 1) / how.count;
    p->n_elements = p->n_elements / p->shape[how.dim] * p->dims[how.dim];
}

void param_slice(struct param_list *list, int index, int dim, int parts)
{
    slice(list, index, (struct zn_slice){.dim = dim, .index = list->rank.index, .count = list->rank.count, .parts = parts, .copies = 1});
}

void param_slice_heads(struct param_list *list, int index, int dim, int64_t n_heads)
{
    int count = n_heads < list->rank.count ? (int)n_heads : list->rank.count, copies = list->rank.count / count;
    slice(list, index, (struct zn_slice){.dim = dim,
                                         .index = list->rank.index / copies,
                                         .count = count,
                                         .parts = 1,
                                         .copy = list->rank.index % copies,
                                         .copies = copies,
                                         .sums_gradients = copies > 1});
}

void param_sum_gradients(struct param_list *list, int index)
{
    slice(list, index, (struct zn_slice){.count = 1,
                                         .parts = 1,
                                         .copy = list->rank.index,
                                         .copies = list->rank.count,
                                         .sums_gradients = true});
}

zn_status config_check_tensor(struct zn_tensor_rank rank, const struct tensor_shape *s)
{
    int n = rank.count;
    if (s->heads % n != 0)
        return zn_fail(ZN_ERR_USAGE, "--tensor-parallel %d: does not divide the model's %lld heads", n, (long long)s->heads);
    if (s->kv_heads % n != 0 && n % s->kv_heads != 0)
        return zn_fail(ZN_ERR_USAGE, "--tensor-parallel %d: neither divides the model's %lld heads of keys and values nor is a "
                       "multiple of them", n, (long long)s->kv_heads);
    if (s->inner % n != 0)
        return zn_fail(ZN_ERR_USAGE, "--tensor-parallel %d: does not divide the MLP's width %lld", n, (long long)s->inner);
    if ((s->vocabulary + n - 1) / n * (n - 1) >= s->vocabulary)
        return zn_fail(ZN_ERR_USAGE, "--tensor-parallel %d: a vocabulary of %lld leaves a rank without a row", n,
                       (long long)s->vocabulary);
    return ZN_OK;
}

zn_status config_size(zn_json *config, const char *key, int64_t *value)
{
    return zn_json_get_int(config, key, 1, INT32_MAX, value);
}

zn_status config_size_or(zn_json *config, const char *key, int64_t fallback, int64_t *value)
{
    return zn_json_get_int_or(config, key, 1, INT32_MAX, fallback, value);
}

zn_status config_layers(zn_json *config, const char *key, int64_t *value)
{
    enum { MAX_LAYERS = 10000 };
    return zn_json_get_int(config, key, 1, MAX_LAYERS, value);
}
