/* Reading PEFT folders. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/text.h"
#include "checkpoint/fingerprint.h"
#include "checkpoint/peft.h"

enum { CONFIG_BYTES = 16 * 1024 * 1024, PIECE = 1 << 18, MAX_RANK = 1 << 20 };

static const char PREFIX[] = "base_model.model.", A_END[] = ".lora_A.weight", B_END[] = ".lora_B.weight";

struct zn_peft {
    char *folder, *source; /* source: "--adapter FOLDER", for messages */
    zn_json *config;
    zn_st_file *file;
    double dropout;
    struct zn_adapter_options options;
    char **modules; /* those of the options */
};

/* ---- adapter_config.json ---- */

/* Neither absent nor null, false, 0, "", [] or {}. */
static bool is_set(zn_json *config, const char *key)
{
    bool is_true = false;
    double number = 0;
    const char *text = "";
    zn_json *inner;
    switch (zn_json_type_at(config, key)) {
    case ZN_JSON_BOOL:
        return zn_json_get_bool(config, key, &is_true) == ZN_OK && is_true;
    case ZN_JSON_NUMBER:
        return zn_json_get_number(config, key, &number) == ZN_OK && number != 0;
    case ZN_JSON_STRING:
        return zn_json_get_string(config, key, &text) == ZN_OK && text[0] != '\0';
    case ZN_JSON_ARRAY:
        return zn_json_get_array(config, key, &inner) == ZN_OK && zn_json_n_items(inner) > 0;
    case ZN_JSON_OBJECT:
        return zn_json_get_object(config, key, &inner) == ZN_OK && zn_json_n_keys(inner) > 0;
    case ZN_JSON_NULL:
        break;
    }
    return false;
}

static zn_status refuse(const zn_json *config, const char *key, const char *what)
{
    zn_json_fail(config, "\"%s\": %s cannot be applied", zn_shown(key).text, what);
    return ZN_ERR_UNSUPPORTED;
}

/* What would make another layer than W x + scale × B A x. */
static zn_status check_features(zn_json *config)
{
    static const struct {
        const char *key, *what;
    } features[] = {{"use_dora", "DoRA"},
                    {"modules_to_save", "modules that were trained beside the adapters"},
                    {"rank_pattern", "ranks that differ between modules"},
                    {"alpha_pattern", "alphas that differ between modules"},
                    {"lora_bias", "a bias of an adapter"},
                    {"layer_replication", "layers that are there several times"},
                    {"trainable_token_indices", "rows of the embedding that were trained"},
                    {"target_parameters", "adapters of parameters that are no linear layer's"},
                    {"alora_invocation_tokens", "activated LoRA"},
                    {"arrow_config", "Arrow routing"}};
    for (size_t i = 0; i < sizeof features / sizeof features[0]; i++)
        if (is_set(config, features[i].key))
            return refuse(config, features[i].key, features[i].what);
    for (const char *key = zn_json_first_key(config); key; key = zn_json_next_key(config, key))
        if (strncmp(key, "use_", 4) == 0 && strcmp(key, "use_rslora") != 0 && is_set(config, key))
            return refuse(config, key, "this variant of LoRA");
    return ZN_OK;
}

/* Words that must be these. PiSSA, OLoRA and others like them begin from a base that they have changed. */
static zn_status check_words(zn_json *config)
{
    const char *type, *bias, *task, *init = "";
    ZN_TRY(zn_json_get_string(config, "peft_type", &type));
    if (strcmp(type, "LORA") != 0)
        return refuse(config, "peft_type", "an adapter other than LORA");
    ZN_TRY(zn_json_get_string_or(config, "bias", "none", &bias));
    if (strcmp(bias, "none") != 0)
        return refuse(config, "bias", "a trained bias");
    ZN_TRY(zn_json_get_string_or(config, "task_type", "CAUSAL_LM", &task));
    if (strcmp(task, "CAUSAL_LM") != 0)
        return refuse(config, "task_type", "an adapter for another task than CAUSAL_LM");
    if (zn_json_type_at(config, "init_lora_weights") != ZN_JSON_STRING)
        return ZN_OK;
    ZN_TRY(zn_json_get_string(config, "init_lora_weights", &init));
    if (strcmp(init, "gaussian") != 0 && strcmp(init, "eva") != 0 && strcmp(init, "orthogonal") != 0)
        return refuse(config, "init_lora_weights", "an adapter of a base that its start has changed");
    return ZN_OK;
}

static zn_status read_config(zn_peft *p)
{
    char *path;
    ZN_TRY(zn_path_join(p->folder, ZN_PEFT_CONFIG, &path));
    zn_status status = zn_json_load_file(path, CONFIG_BYTES, &p->config);
    free(path);
    ZN_TRY(status);
    ZN_TRY(check_words(p->config));
    ZN_TRY(check_features(p->config));
    ZN_TRY(zn_json_get_int(p->config, "r", 1, MAX_RANK, &p->options.rank));
    ZN_TRY(zn_json_get_number(p->config, "lora_alpha", &p->options.alpha));
    ZN_TRY(zn_json_get_bool_or(p->config, "use_rslora", false, &p->options.is_rank_stabilised));
    return zn_json_get_number_or(p->config, "lora_dropout", 0, &p->dropout);
}

/* ---- adapter_model.safetensors ---- */

static zn_status open_weights(zn_peft *p)
{
    char *path;
    bool found;
    ZN_TRY(zn_folder_holds(p->folder, ZN_PEFT_WEIGHTS, &found));
    if (!found)
        return zn_fail(ZN_ERR_INPUT, "%s: no " ZN_PEFT_WEIGHTS " (adapter_model.bin is not read: save the adapter with "
                       "safe_serialization=True)", p->source);
    ZN_TRY(zn_path_join(p->folder, ZN_PEFT_WEIGHTS, &path));
    zn_status status = zn_st_open(path, &p->file);
    free(path);
    return status;
}

/* The module's path within "base_model.model.PATH.lora_A.weight"; 0: the name is not of this form. */
static size_t module_length(const char *name, const char *end)
{
    size_t n = strlen(name), n_prefix = sizeof PREFIX - 1, n_end = strlen(end);
    if (n <= n_prefix + n_end || strncmp(name, PREFIX, n_prefix) != 0 || strcmp(name + n - n_end, end) != 0)
        return 0;
    return n - n_prefix - n_end;
}

static zn_status list_modules(zn_peft *p)
{
    size_t n_tensors = zn_st_n_tensors(p->file), n = 0;
    p->modules = calloc(n_tensors + 1, sizeof *p->modules);
    if (!p->modules)
        return zn_fail(ZN_ERR_MEMORY, "%s: no memory for its tensors", p->source);
    for (size_t i = 0; i < n_tensors; i++) {
        const char *name = zn_st_tensor_at(p->file, i)->name;
        size_t length = module_length(name, A_END);
        if (length == 0 && module_length(name, B_END) == 0)
            return zn_fail(ZN_ERR_UNSUPPORTED, "%s: tensor '%s' is neither A nor B of a linear layer's adapter, and cannot be applied",
                           zn_st_path(p->file), zn_shown(name).text);
        if (length > 0 && !(p->modules[n++] = strndup(name + sizeof PREFIX - 1, length)))
            return zn_fail(ZN_ERR_MEMORY, "%s: no memory for its tensors", p->source);
    }
    if (n == 0)
        return zn_fail(ZN_ERR_INPUT, "%s: holds no adapter", zn_st_path(p->file));
    p->options.targets = (const char *const *)p->modules;
    p->options.n_targets = n;
    p->options.source = p->source;
    return ZN_OK;
}

/* ---- The folder ---- */

static zn_status name_source(zn_peft *p, const char *folder)
{
    p->folder = strdup(folder);
    if (!p->folder || asprintf(&p->source, "--adapter %s", folder) < 0)
        return zn_fail(ZN_ERR_MEMORY, "--adapter %s: out of memory", folder);
    return zn_folder_exists(folder) ? ZN_OK : zn_fail(ZN_ERR_INPUT, "--adapter %s: no such folder", folder);
}

zn_status zn_peft_open(const char *folder, zn_peft **peft)
{
    zn_peft *p = calloc(1, sizeof *p);
    if (!p)
        return zn_fail(ZN_ERR_MEMORY, "--adapter %s: out of memory", folder);
    zn_status status = name_source(p, folder);
    if (status == ZN_OK)
        status = read_config(p);
    if (status == ZN_OK)
        status = open_weights(p);
    if (status == ZN_OK)
        status = list_modules(p);
    if (status != ZN_OK) {
        zn_peft_close(p);
        return status;
    }
    *peft = p;
    return ZN_OK;
}

void zn_peft_close(zn_peft *p)
{
    if (!p)
        return;
    for (size_t i = 0; p->modules && p->modules[i]; i++)
        free(p->modules[i]);
    free(p->modules);
    zn_st_close(p->file);
    zn_json_destroy(p->config);
    free(p->source);
    free(p->folder);
    free(p);
}

const char *zn_peft_folder(const zn_peft *p)
{
    return p->folder;
}

const struct zn_adapter_options *zn_peft_options(const zn_peft *p)
{
    return &p->options;
}

double zn_peft_dropout(const zn_peft *p)
{
    return p->dropout;
}

static zn_status check_tensor(const zn_peft *p, const zn_param *param)
{
    const struct zn_st_tensor *t = zn_st_find(p->file, param->name);
    char is[ZN_SHAPE_TEXT], wanted[ZN_SHAPE_TEXT];
    zn_dtype type;
    if (!t)
        return zn_fail(ZN_ERR_INPUT, "%s: no tensor '%s'", zn_st_path(p->file), param->name);
    if (t->n_dims != param->ndim || memcmp(t->dims, param->dims, (size_t)param->ndim * sizeof param->dims[0]) != 0)
        return zn_fail(ZN_ERR_INPUT, "%s: tensor '%s' has shape %s, not %s: it is of another base or rank", zn_st_path(p->file),
                       param->name, zn_shape_text(t->n_dims, t->dims, is), zn_shape_text(param->ndim, param->dims, wanted));
    if (!zn_st_dtype_is_float(t->dtype, &type))
        return zn_fail(ZN_ERR_UNSUPPORTED, "%s: tensor '%s' is of type %s, which cannot be read", zn_st_path(p->file), param->name,
                       zn_st_dtype_name(t->dtype));
    return ZN_OK;
}

zn_status zn_peft_check(const zn_peft *p, const zn_model *model)
{
    const zn_module *module = model->module;
    int first = zn_model_first_written(model);
    for (int i = first; i < module->n_params; i++)
        ZN_TRY(check_tensor(p, &module->params[i]));
    if (zn_st_n_tensors(p->file) != (size_t)(module->n_params - first))
        return zn_fail(ZN_ERR_INPUT, "%s: has %zu tensors; the adapters of this model are %d", zn_st_path(p->file),
                       zn_st_n_tensors(p->file), module->n_params - first);
    return ZN_OK;
}

zn_status zn_peft_read(const zn_peft *p, const zn_param *param, int64_t first, int64_t n_elements, float *values)
{
    return zn_st_read_f32(p->file, zn_st_find(p->file, param->name), first, n_elements, values);
}

static zn_status load_param(const zn_peft *p, zn_engine *engine, const zn_param *param, float *piece)
{
    struct zn_range range = zn_engine_owned_range(engine, param, 0);
    while (range.n > 0) {
        int64_t n = range.n < PIECE ? range.n : PIECE;
        ZN_TRY(zn_peft_read(p, param, range.first, n, piece));
        ZN_TRY(zn_engine_write_state(engine, param, ZN_STATE_MASTER, range.first, piece, n));
        range = zn_engine_owned_range(engine, param, range.first + n);
    }
    return ZN_OK;
}

zn_status zn_peft_load(const zn_peft *p, zn_engine *engine, const zn_model *model)
{
    float *piece = malloc(PIECE * sizeof *piece);
    zn_status status = piece ? ZN_OK : zn_fail(ZN_ERR_MEMORY, "no memory to load an adapter");
    for (int i = zn_model_first_written(model); i < model->module->n_params && status == ZN_OK; i++)
        status = load_param(p, engine, &model->module->params[i], piece);
    free(piece);
    return status;
}

zn_status zn_peft_hash(const zn_peft *p, uint64_t *hash)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < zn_st_n_tensors(p->file); i++)
        ZN_TRY(zn_fingerprint_tensor(p->file, zn_st_tensor_at(p->file, i), &sum));
    *hash = sum;
    return ZN_OK;
}
