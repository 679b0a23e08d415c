/* `zinc export`: a hub folder as one GGUF file, for llama.cpp. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"
#include "base/json_text.h"
#include "base/size.h"
#include "base/text.h"
#include "checkpoint/merge.h"
#include "cli/commands.h"
#include "formats/hub_cache.h"
#include "cli/progress.h"
#include "models/gguf.h"
#include "text/gguf_tokenizer.h"

enum { CONFIG_BYTES = 16 * 1024 * 1024, QUANTIZATION_VERSION = 2 };

struct export_flags {
    const char *model, *adapter, *gguf, *output, *name, *pre;
    bool overwrite, json;
};

#define AT(field) offsetof(struct export_flags, field)

static const struct zn_option flags[] = {
    {.name = "--model", .kind = ZN_OPTION_STRING, .offset = AT(model), .value = "DIR", .required = true,
     .help = "Hub folder, with tokenizer.json.",
     .more = "Also the output of `zinc train`, a checkpoint, or ORG/NAME in the hub's local cache."},
    {.name = "--adapter", .kind = ZN_OPTION_STRING, .offset = AT(adapter), .value = "DIR", .otherwise = "none",
     .help = "PEFT folder, merged into the weights on the way."},
    {.name = "--gguf", .kind = ZN_OPTION_CHOICE, .offset = AT(gguf), .value = "TYPE", .choices = "f32 f16 bf16 q8_0",
     .required = true, .help = "Write a GGUF file whose matrices are of this type."},
    {.name = "--output", .kind = ZN_OPTION_STRING, .offset = AT(output), .value = "FILE", .required = true,
     .help = "The file to write.", .more = "It appears under its name when it is whole."},
    {.name = "--overwrite", .kind = ZN_OPTION_FLAG, .offset = AT(overwrite), .help = "Replace the file if it is there."},
    {.name = "--name", .kind = ZN_OPTION_STRING, .offset = AT(name), .value = "NAME", .otherwise = "the folder's",
     .help = "general.name of the file."},
    {.name = "--pre", .kind = ZN_OPTION_STRING, .offset = AT(pre), .value = "NAME", .otherwise = "by tokenizer.json",
     .help = "llama.cpp's name of the pre-tokenizer.", .more = "For one that llama.cpp has and Zinc does not know."},
    {.name = "--json", .kind = ZN_OPTION_FLAG, .offset = AT(json), .help = "Print one JSON object instead of text."},
};

static const struct zn_command command = {
    .name = "zinc export",
    .summary = "a model as a GGUF file for llama.cpp",
    .usage = "--model DIR --gguf TYPE --output FILE [flags]",
    .example = "zinc export --model ./SmolLM2-135M --gguf q8_0 --output smollm2-q8_0.gguf",
    .options = flags,
    .n_options = sizeof flags / sizeof flags[0],
    .hint = zn_cli_hint,
};

/* What is exported: all of it belongs to the command. */
struct source {
    zn_json *config;
    zn_model *model;
    zn_model_files *files;
    struct zn_weights_style style;
    zn_peft *peft;       /* NULL: no adapter */
    zn_merging *merging;
    int n_params;        /* of the model, without adapters */
    zn_tokenizer *tokenizer;
    zn_gguf_model *gguf;
};

static void source_fini(struct source *s)
{
    zn_gguf_model_destroy(s->gguf);
    zn_tokenizer_close(s->tokenizer);
    zn_merging_destroy(s->merging);
    zn_peft_close(s->peft);
    zn_model_files_close(s->files);
    zn_model_destroy(s->model);
    zn_json_destroy(s->config);
}

static void show_note(void *self, const char *text)
{
    (void)self;
    fprintf(stderr, "zinc export: %s\n", text);
}

static void tell_unclaimed(void *self, const char *tensor)
{
    (void)self;
    fprintf(stderr, "zinc export: tensor '%s' is none of the model's and is left out\n", zn_shown(tensor).text);
}

/* ---- Reading ---- */

static zn_status load_config(const char *folder, zn_json **config)
{
    char *path;
    if (!zn_folder_exists(folder))
        return zn_fail(ZN_ERR_INPUT, "--model %s: no such folder", folder);
    ZN_TRY(zn_path_join(folder, "config.json", &path));
    zn_status status = zn_json_load_file(path, CONFIG_BYTES, config);
    free(path);
    return status;
}

static zn_status open_tokenizer(const char *folder, zn_tokenizer **tokenizer)
{
    bool found;
    ZN_TRY(zn_folder_holds(folder, "tokenizer.json", &found));
    if (!found)
        return zn_fail(ZN_ERR_INPUT, "%s: no tokenizer.json, and a GGUF file holds the vocabulary: copy the one of the model that "
                       "was trained into the folder, or write it with transformers' "
                       "AutoTokenizer.from_pretrained(…).save_pretrained(…)", folder);
    return zn_tokenizer_open(folder, tokenizer);
}

static zn_status open_adapter(const char *folder, struct source *s)
{
    if (!folder)
        return ZN_OK;
    ZN_TRY(zn_peft_open(folder, &s->peft));
    return zn_merging_create(s->peft, s->model, &s->merging);
}

static zn_status open_source(const char *folder, const char *adapter, struct source *s)
{
    ZN_TRY(load_config(folder, &s->config));
    ZN_TRY(zn_model_create(s->config, 1, &s->model));
    ZN_TRY(zn_gguf_model_create(s->config, s->model, &s->gguf));
    ZN_TRY(zn_model_files_open(folder, &s->files));
    ZN_TRY(zn_weights_check(s->model, s->files, tell_unclaimed, NULL, &s->style));
    s->n_params = s->model->module->n_params;
    ZN_TRY(open_adapter(adapter, s));
    return open_tokenizer(folder, &s->tokenizer);
}

/* ---- What the file holds ---- */

/* The last part of the folder's path, or of its name on the hub. The caller frees it. */
static zn_status find_name(const char *model, char **name)
{
    char *whole = strdup(model);
    if (!whole)
        return zn_fail(ZN_ERR_MEMORY, "out of memory for a name");
    size_t n = strlen(whole);
    while (n > 1 && whole[n - 1] == '/')
        whole[--n] = '\0';
    const char *slash = strrchr(whole, '/'), *last = slash ? slash + 1 : whole;
    if (strcmp(last, ".") == 0 || strcmp(last, "..") == 0) {
        char *real = realpath(whole, NULL);
        free(whole);
        if (!real)
            return zn_fail(ZN_ERR_IO, "%s: %s", model, strerror(errno));
        whole = real;
        last = strrchr(whole, '/') + 1;
    }
    *name = strdup(last);
    free(whole);
    return *name ? ZN_OK : zn_fail(ZN_ERR_MEMORY, "out of memory for a name");
}

static zn_status describe(const struct export_flags *f, const struct source *s, const char *name, zn_gguf_type type,
                          zn_gguf_metadata *metadata)
{
    const struct zn_gguf_vocabulary vocabulary = {.folder = f->model, .config = s->config, .pre = f->pre, .note = show_note,
                                                  .n_tokens = s->model->module->vocabulary};
    zn_gguf_add_string(metadata, "general.architecture", zn_gguf_model_architecture(s->gguf));
    zn_gguf_add_string(metadata, "general.type", "model");
    zn_gguf_add_string(metadata, "general.name", name);
    zn_gguf_add_u32(metadata, "general.file_type", zn_gguf_file_type(type));
    zn_gguf_add_u32(metadata, "general.quantization_version", QUANTIZATION_VERSION);
    zn_gguf_model_describe(s->gguf, metadata);
    return zn_gguf_add_tokenizer(s->tokenizer, &vocabulary, metadata);
}

/* What to write: the model's parameters, then rotary factors where there are some. */
struct work {
    struct zn_gguf_param *params;
    struct zn_gguf_spec *specs;
    size_t n_params, n_specs, n_fallbacks;
    const float *factors;
    int64_t n_factors;
    zn_gguf_writer *writer;
};

static zn_status list_tensors(const struct source *s, zn_gguf_type type, struct work *w)
{
    w->n_params = (size_t)s->n_params;
    w->params = calloc(w->n_params, sizeof *w->params);
    w->specs = calloc(w->n_params + 1, sizeof *w->specs);
    if (!w->params || !w->specs)
        return zn_fail(ZN_ERR_MEMORY, "no memory for the list of tensors");
    for (size_t i = 0; i < w->n_params; i++) {
        ZN_TRY(zn_gguf_model_param(s->gguf, &s->model->module->params[i], type, &w->params[i]));
        w->specs[i] = w->params[i].spec;
        w->n_fallbacks += w->params[i].falls_back;
    }
    w->n_specs = w->n_params;
    w->factors = zn_gguf_model_rope_factors(s->gguf, &w->n_factors);
    if (w->factors)
        w->specs[w->n_specs++] = (struct zn_gguf_spec){"rope_freqs.weight", ZN_GGUF_F32, 1, {w->n_factors}};
    return ZN_OK;
}

static void tell_differences(const struct source *s, const struct work *w)
{
    int64_t window = zn_gguf_model_window(s->gguf);
    if (window > 0)
        fprintf(stderr, "zinc export: llama.cpp does not apply the sliding window to this architecture: texts of more than %lld "
                "tokens give other results there\n", (long long)window);
    if (w->n_fallbacks > 0)
        fprintf(stderr, "zinc export: %zu tensors are f16: their rows are no multiple of %d, as q8_0 needs\n", w->n_fallbacks,
                (int)ZN_GGUF_BLOCK);
}

/* ---- Writing ---- */

static zn_status write_tensors(const struct source *s, struct work *w)
{
    struct cli_progress progress;
    zn_status status = cli_progress_begin(&progress, "zinc export");
    zn_progress_begin(progress.progress, "writing tensors", "tensors", (int64_t)w->n_specs);
    for (size_t i = 0; i < w->n_params && status == ZN_OK; i++) {
        struct zn_model_tensor from = {0};
        const zn_param *param = &s->model->module->params[i];
        status = s->merging ? zn_merging_find(s->merging, s->files, &s->style, param, &from)
                            : zn_weights_find(s->model, s->files, &s->style, param, &from);
        if (status == ZN_OK)
            status = zn_gguf_writer_copy(w->writer, i, &from, w->params[i].layout, w->params[i].n_heads);
        zn_progress_add(progress.progress, 1);
    }
    cli_progress_end(&progress);
    ZN_TRY(status);
    if (w->factors)
        ZN_TRY(zn_gguf_writer_append(w->writer, w->n_params, w->factors, w->n_factors));
    return zn_gguf_writer_finish(w->writer);
}

static zn_status print_done(const struct export_flags *f, const struct work *w)
{
    uint64_t n_bytes = zn_gguf_writer_bytes(w->writer);
    char size[ZN_SIZE_TEXT];
    if (f->json) {
        fputs("{\"output\":", stdout);
        zn_json_put_string(stdout, f->output);
        printf(",\"type\":\"%s\",\"tensors\":%zu,\"bytes\":%llu}\n", f->gguf, w->n_specs, (unsigned long long)n_bytes);
    } else {
        printf("wrote %s: %zu tensors in %s, %s\n", f->output, w->n_specs, f->gguf, zn_size_text((size_t)n_bytes, size));
    }
    return fflush(stdout) == 0 && !ferror(stdout) ? ZN_OK : zn_fail(ZN_ERR_IO, "standard output: cannot write");
}

static zn_status write_file(const struct export_flags *f, const struct source *s, const char *name, zn_gguf_type type)
{
    struct work w = {0};
    zn_gguf_metadata metadata;
    zn_gguf_metadata_init(&metadata);
    zn_status status = describe(f, s, name, type, &metadata);
    if (status == ZN_OK)
        status = list_tensors(s, type, &w);
    if (status == ZN_OK)
        status = zn_gguf_writer_create(f->output, &metadata, w.specs, w.n_specs, &w.writer);
    zn_gguf_metadata_fini(&metadata);
    if (status == ZN_OK) {
        tell_differences(s, &w);
        status = write_tensors(s, &w);
    }
    if (status == ZN_OK)
        status = print_done(f, &w);
    zn_gguf_writer_destroy(w.writer);
    free(w.params);
    free(w.specs);
    return status;
}

/* ---- The command ---- */

static zn_status check_output(const struct export_flags *f)
{
    bool found;
    if (zn_folder_exists(f->output))
        return zn_fail(ZN_ERR_USAGE, "--output %s: is a folder; give the name of a file", f->output);
    ZN_TRY(zn_path_look(f->output, &found));
    if (found && !f->overwrite)
        return zn_fail(ZN_ERR_USAGE, "--output %s: is there already; give --overwrite to replace it, or another name", f->output);
    return zn_file_check_writable("--output", f->output);
}

static zn_status export_model(const struct export_flags *f, const char *given)
{
    struct source source = {0};
    zn_gguf_type type;
    char *name = NULL;
    ZN_TRY(zn_gguf_type_parse(f->gguf, "--gguf", &type));
    ZN_TRY(check_output(f));
    zn_status status = f->name ? ZN_OK : find_name(given, &name);
    if (status == ZN_OK)
        status = open_source(f->model, f->adapter, &source);
    if (status == ZN_OK)
        status = write_file(f, &source, f->name ? f->name : name, type);
    source_fini(&source);
    free(name);
    return status;
}

int zn_cli_export(int argc, char **argv)
{
    struct export_flags f = {0};
    struct zn_options given;
    int code = zn_cli_begin(&command, argc, argv, &f, &given);
    if (code < 0) {
        char *found = NULL;
        const char *model = f.model;
        zn_status status = zn_cli_find_model(&command, &f.model, &found);
        if (status == ZN_OK)
            status = zn_hub_check_folder(f.model);
        if (status == ZN_OK)
            status = export_model(&f, model);
        code = zn_cli_end(&command, status);
        free(found);
    }
    zn_options_fini(&given, &f);
    return code;
}
