/* Holding the small files of a hub folder, and writing them elsewhere. */
#include "checkpoint/hub_files.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "formats/card.h"

/* The largest tokenizers have files of some tens of megabytes. */
enum { MAX_FILE_BYTES = 256 * 1024 * 1024, MAX_CONFIG_BYTES = 16 * 1024 * 1024 };

static const char *const NAMES[] = {
    "config.json",     "generation_config.json",  "tokenizer.json",    "tokenizer_config.json",
    "tokenizer.model", "special_tokens_map.json", "added_tokens.json", "vocab.json",
    "merges.txt",      "chat_template.jinja"};
enum { N_NAMES = sizeof NAMES / sizeof NAMES[0], CONFIG = 0, FIRST_OF_TOKENIZER = 2 };

static const char *const DTYPE_KEYS[] = {"dtype", "torch_dtype"};

struct zn_hub_files {
    char *config_path;
    char *name, *license; /* of its card; name NULL: none */
    char *data[N_NAMES]; /* NULL: not there, or not held */
    size_t n_bytes[N_NAMES];
    bool for_writing;
};

static zn_status read_file(zn_hub_files *f, const char *folder, int i)
{
    char *path;
    ZN_TRY(zn_path_join(folder, NAMES[i], &path));
    bool found = true;
    zn_status status = i == CONFIG ? ZN_OK : zn_path_look(path, &found);
    if (status == ZN_OK && found)
        status = zn_file_read(path, i == CONFIG ? MAX_CONFIG_BYTES : MAX_FILE_BYTES, &f->data[i], &f->n_bytes[i]);
    free(path);
    if (!f->for_writing && i != CONFIG) {
        free(f->data[i]);
        f->data[i] = NULL;
    } else if (f->data[i]) { /* gives back the room that reading left at its end */
        char *fitted = realloc(f->data[i], f->n_bytes[i] + 1);
        f->data[i] = fitted ? fitted : f->data[i];
    }
    return status;
}

/* Gives config.json's root the dtype where it has one that differs. */
static zn_status set_dtype(zn_json *config, zn_dtype dtype, bool *changed)
{
    static const char *const torch_names[] = {
        [ZN_F32] = "float32", [ZN_BF16] = "bfloat16", [ZN_F16] = "float16"};
    *changed = false;
    for (size_t i = 0; i < sizeof DTYPE_KEYS / sizeof DTYPE_KEYS[0]; i++) {
        const char *is;
        ZN_TRY(zn_json_get_string_or(config, DTYPE_KEYS[i], NULL, &is));
        if (!is || strcmp(is, torch_names[dtype]) == 0)
            continue;
        ZN_TRY(zn_json_set_string(config, DTYPE_KEYS[i], torch_names[dtype]));
        *changed = true;
    }
    return ZN_OK;
}

/* What would keep config.json from being written is found now. */
static zn_status check_config(const zn_hub_files *f)
{
    zn_json *config;
    bool changed;
    ZN_TRY(zn_hub_files_config(f, &config));
    zn_status status = set_dtype(config, ZN_F32, &changed);
    zn_json_destroy(config);
    return status;
}

zn_status zn_hub_files_open(const char *folder, bool for_writing, zn_hub_files **files)
{
    zn_hub_files *f = calloc(1, sizeof *f);
    if (!f)
        return zn_fail(ZN_ERR_MEMORY, "%s: no memory for its files", folder);
    f->for_writing = for_writing;
    zn_status status = zn_path_join(folder, NAMES[CONFIG], &f->config_path);
    for (int i = 0; i < N_NAMES && status == ZN_OK; i++)
        status = read_file(f, folder, i);
    if (status == ZN_OK)
        status = zn_card_name(folder, &f->name);
    if (status == ZN_OK)
        status = zn_card_license(folder, &f->license);
    if (status == ZN_OK)
        status = check_config(f);
    if (status != ZN_OK) {
        zn_hub_files_close(f);
        return status;
    }
    *files = f;
    return ZN_OK;
}

void zn_hub_files_close(zn_hub_files *f)
{
    if (!f)
        return;
    for (int i = 0; i < N_NAMES; i++)
        free(f->data[i]);
    free(f->name);
    free(f->license);
    free(f->config_path);
    free(f);
}

size_t zn_hub_files_bytes(const zn_hub_files *f)
{
    size_t sum = 0;
    for (int i = 0; i < N_NAMES; i++)
        sum += f->n_bytes[i];
    return sum;
}

zn_status zn_hub_files_config(const zn_hub_files *f, zn_json **config)
{
    return zn_json_load_buffer(f->data[CONFIG], f->n_bytes[CONFIG], f->config_path, config);
}

const char *zn_hub_files_name(const zn_hub_files *f)
{
    return f->name;
}

const char *zn_hub_files_license(const zn_hub_files *f)
{
    return f->license;
}

static zn_status write_file(const char *folder, const char *name, const void *data, size_t n_bytes)
{
    char *path;
    ZN_TRY(zn_path_join(folder, name, &path));
    zn_status status = zn_file_write(path, data, n_bytes);
    free(path);
    return status;
}

/* config.json to the byte as it was, or printed anew with another dtype. */
static zn_status write_config(const zn_hub_files *f, const char *folder, zn_dtype dtype)
{
    char *text = NULL;
    zn_json *config;
    bool changed = false;
    ZN_TRY(zn_hub_files_config(f, &config));
    zn_status status = set_dtype(config, dtype, &changed);
    if (status == ZN_OK && changed)
        status = zn_json_print(config, &text);
    if (status == ZN_OK)
        status = write_file(folder, NAMES[CONFIG], text ? text : f->data[CONFIG],
                            text ? strlen(text) : f->n_bytes[CONFIG]);
    free(text);
    zn_json_destroy(config);
    return status;
}

static zn_status write_from(const zn_hub_files *f, int first, const char *folder)
{
    assert(f->for_writing);
    for (int i = first; i < N_NAMES; i++)
        if (f->data[i])
            ZN_TRY(write_file(folder, NAMES[i], f->data[i], f->n_bytes[i]));
    return ZN_OK;
}

zn_status zn_hub_files_write_tokenizer(const zn_hub_files *f, const char *folder)
{
    return write_from(f, FIRST_OF_TOKENIZER, folder);
}

zn_status zn_hub_files_write(const zn_hub_files *f, const char *folder, zn_dtype dtype)
{
    ZN_TRY(write_from(f, CONFIG + 1, folder));
    return write_config(f, folder, dtype);
}
