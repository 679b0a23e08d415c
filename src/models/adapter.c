/* Declares adapters after the parameters of a model; their segments are those of the weights they adapt. */
#include "models/adapter.h"

#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/build.h"

static const char PREFIX[] = "base_model.model.", WEIGHT[] = ".weight";

bool zn_is_adapter(const zn_param *param)
{
    return strncmp(param->name, PREFIX, sizeof PREFIX - 1) == 0;
}

int zn_model_first_written(const zn_model *model)
{
    const zn_module *module = model->module;
    return module->n_adapters > 0 ? module->n_params - 2 * module->n_adapters : 0;
}

int64_t zn_model_n_written(const zn_model *model)
{
    int64_t n = 0;
    for (int i = zn_model_first_written(model); i < model->module->n_params; i++)
        n += zn_param_n_whole(&model->module->params[i]);
    return n;
}

/* Matrices between the embedding's segment and the head's. */
bool zn_adapter_module(const zn_model *model, const zn_param *p, char module[ZN_PARAM_NAME])
{
    size_t n = strlen(p->name), end = sizeof WEIGHT - 1;
    bool is_linear = zn_param_is_hidden_matrix(p, model->module->n_segments) && !zn_is_adapter(p);
    if (!is_linear || n <= end || strcmp(p->name + n - end, WEIGHT) != 0)
        return false;
    snprintf(module, ZN_PARAM_NAME, "%.*s", (int)(n - end), p->name);
    return true;
}

zn_status zn_model_list_matrices(const zn_model *model, bool **is_matrix)
{
    char name[ZN_PARAM_NAME];
    bool *list = calloc((size_t)model->module->n_params, sizeof *list);
    if (!list)
        return zn_fail(ZN_ERR_MEMORY, "no memory for the list of matrices");
    for (int i = 0; i < model->module->n_params; i++)
        list[i] = zn_adapter_module(model, &model->module->params[i], name);
    *is_matrix = list;
    return ZN_OK;
}

/* A glob is held against the whole path and against its last word, as PEFT's target_modules are. */
static bool is_target(const char *target, const char *module)
{
    const char *word = strrchr(module, '.');
    if (strcmp(target, "all") == 0)
        return true;
    if (strcmp(target, "attention") == 0)
        return strstr(module, "attn") != NULL;
    if (strcmp(target, "mlp") == 0)
        return strstr(module, ".mlp.") != NULL;
    return fnmatch(target, module, 0) == 0 || fnmatch(target, word ? word + 1 : module, 0) == 0;
}

static bool is_chosen(const struct zn_adapter_options *o, const char *module)
{
    for (size_t i = 0; i < o->n_targets; i++)
        if (is_target(o->targets[i], module))
            return true;
    return o->n_targets == 0;
}

static zn_status check_targets(const zn_model *model, const struct zn_adapter_options *o)
{
    char module[ZN_PARAM_NAME], example[ZN_PARAM_NAME] = "";
    for (size_t i = 0; i < o->n_targets; i++) {
        bool fits = false;
        for (int k = 0; k < model->module->n_params && !fits; k++) {
            if (!zn_adapter_module(model, &model->module->params[k], module))
                continue;
            fits = is_target(o->targets[i], module);
            if (!example[0])
                snprintf(example, sizeof example, "%s", module);
        }
        if (!fits)
            return zn_fail(ZN_ERR_USAGE, "%s '%s': no linear layer of the blocks has such a name (one is '%s')",
                           o->source ? o->source : "--lora-targets", zn_shown(o->targets[i]).text, example);
    }
    return ZN_OK;
}

/* PEFT's own start: A as torch's linear layers begin, B zero. */
static zn_status declare(struct param_list *list, const zn_param *weight, const char *module, bool is_in_out, int64_t rank)
{
    int64_t in = weight->dims[is_in_out ? 0 : 1], out = weight->dims[is_in_out ? 1 : 0];
    const int64_t a[] = {rank, in, 0}, b[] = {out, rank, 0};
    int segment = weight->segment;
    if (strlen(module) + 40 > ZN_PARAM_NAME)
        return zn_fail(ZN_ERR_UNSUPPORTED, "the name of '%s' is too long for an adapter", module);
    param_add(list, segment, ZN_INIT_UNIFORM, (float)(1 / sqrt((double)in)), a, "%s%s.lora_A.weight", PREFIX, module);
    param_add(list, segment, ZN_INIT_ZEROS, 0, b, "%s%s.lora_B.weight", PREFIX, module);
    return list->status;
}

static void join(zn_module *module, int n_before, const int *weights, float scale)
{
    for (int i = 0; i < module->n_adapters; i++) {
        zn_param *a = &module->params[n_before + 2 * i];
        module->adapters[i] = (struct zn_adapter){.a = a, .b = a + 1, .scale = scale};
        module->params[weights[i]].adapter = &module->adapters[i];
    }
}

zn_status zn_model_add_adapters(zn_model *model, const struct zn_adapter_options *o)
{
    zn_module *module = model->module;
    int n_before = module->n_params;
    struct param_list list = {.params = module->params, .n_params = n_before, .capacity = n_before};
    double scale = o->is_rank_stabilised ? o->alpha / sqrt((double)o->rank) : o->alpha / (double)o->rank;
    char name[ZN_PARAM_NAME];
    ZN_TRY(check_targets(model, o));
    int *weights = calloc((size_t)n_before + 1, sizeof *weights);
    module->adapters = calloc((size_t)n_before + 1, sizeof *module->adapters);
    zn_status status = weights && module->adapters ? ZN_OK : zn_fail(ZN_ERR_MEMORY, "no memory for adapters");
    for (int i = 0; i < n_before && status == ZN_OK; i++) {
        const zn_param weight = list.params[i]; /* the list moves as it grows */
        if (!zn_adapter_module(model, &weight, name) || !is_chosen(o, name))
            continue;
        weights[module->n_adapters++] = i;
        status = declare(&list, &weight, name, model->is_in_out, o->rank);
    }
    module->params = list.params;
    module->n_params = list.n_params;
    if (status == ZN_OK)
        join(module, n_before, weights, (float)scale);
    free(weights);
    return status;
}

/* ---- As PEFT names them ---- */

/* The last n words of a path. */
static const char *last_words(const char *path, int n_words)
{
    const char *at = path + strlen(path);
    while (at > path && n_words > 0)
        n_words -= *--at == '.';
    return n_words == 0 ? at + 1 : path;
}

/* Whether PEFT would adapt no module but those that have an adapter. */
static bool fits_adapted_only(const zn_model *model, const char *end)
{
    size_t n_end = strlen(end), n_weight = sizeof WEIGHT - 1;
    for (int i = 0; i < zn_model_first_written(model); i++) {
        const zn_param *p = &model->module->params[i];
        size_t n = strlen(p->name);
        if (p->adapter || n < n_end + n_weight || strcmp(p->name + n - n_weight, WEIGHT) != 0)
            continue;
        const char *at = p->name + n - n_weight - n_end;
        if (strncmp(at, end, n_end) == 0 && (at == p->name || at[-1] == '.'))
            return false;
    }
    return true;
}

static const char *shortest_end(const zn_model *model, const char *path)
{
    const char *end = path;
    for (int n = 1; (end = last_words(path, n)) != path && !fits_adapted_only(model, end);)
        n++;
    return end;
}

/* Whether a module before parameter `before` ends in the same words. */
static bool is_listed(const zn_model *model, int before, const char *end)
{
    char path[ZN_PARAM_NAME];
    for (int i = 0; i < before; i++) {
        const zn_param *p = &model->module->params[i];
        if (p->adapter && zn_adapter_module(model, p, path) && strcmp(shortest_end(model, path), end) == 0)
            return true;
    }
    return false;
}

void zn_adapter_add_targets(zn_text *text, const zn_model *model)
{
    char path[ZN_PARAM_NAME];
    const char *separator = "[";
    for (int i = 0; i < zn_model_first_written(model); i++) {
        const zn_param *p = &model->module->params[i];
        if (!p->adapter || !zn_adapter_module(model, p, path))
            continue;
        const char *end = shortest_end(model, path);
        if (is_listed(model, i, end))
            continue;
        zn_text_add(text, "%s", separator);
        zn_text_add_quoted(text, end);
        separator = ", ";
    }
    zn_text_add(text, "]");
}
