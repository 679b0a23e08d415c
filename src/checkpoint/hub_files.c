/* Copying the small files of a hub folder. */
#include "checkpoint/hub_files.h"

#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/json.h"

enum { COPY_BYTES = 256 * 1024 * 1024, CONFIG_BYTES = 16 * 1024 * 1024 };

static zn_status write_named(const char *folder, const char *name, const void *data, size_t n_bytes)
{
    char *path;
    ZN_TRY(zn_path_join(folder, name, &path));
    zn_status status = zn_file_write(path, data, n_bytes);
    free(path);
    return status;
}

/* Copies a file of the folder, if it is there. */
static zn_status copy_named(const char *from, const char *to, const char *name)
{
    char *path, *data = NULL;
    size_t n_bytes;
    ZN_TRY(zn_path_join(from, name, &path));
    zn_status status = ZN_OK;
    if (zn_file_exists(path)) {
        status = zn_file_read(path, COPY_BYTES, &data, &n_bytes);
        if (status == ZN_OK)
            status = write_named(to, name, data, n_bytes);
    }
    free(data);
    free(path);
    return status;
}

/* Gives config.json's root the dtype where it has one that differs. */
static zn_status set_dtype(zn_json *config, zn_dtype dtype, bool *changed)
{
    static const char *const torch_names[] = {
        [ZN_F32] = "float32", [ZN_BF16] = "bfloat16", [ZN_F16] = "float16"};
    static const char *const keys[] = {"dtype", "torch_dtype"};
    *changed = false;
    for (size_t i = 0; i < 2; i++) {
        const char *is;
        ZN_TRY(zn_json_get_string_or(config, keys[i], NULL, &is));
        if (!is || strcmp(is, torch_names[dtype]) == 0)
            continue;
        ZN_TRY(zn_json_set_string(config, keys[i], torch_names[dtype]));
        *changed = true;
    }
    return ZN_OK;
}

/* config.json as it was, or with the dtype the weights now have. */
static zn_status write_config(const char *from, const char *to, zn_dtype dtype)
{
    char *path, *text = NULL;
    zn_json *config = NULL;
    bool changed = false;
    ZN_TRY(zn_path_join(from, "config.json", &path));
    zn_status status = zn_json_load_file(path, CONFIG_BYTES, &config);
    if (status == ZN_OK)
        status = set_dtype(config, dtype, &changed);
    if (status == ZN_OK && changed) {
        status = zn_json_print(config, &text);
        if (status == ZN_OK)
            status = write_named(to, "config.json", text, strlen(text));
    } else if (status == ZN_OK) {
        status = copy_named(from, to, "config.json");
    }
    free(text);
    zn_json_destroy(config);
    free(path);
    return status;
}

zn_status zn_hub_files_copy(const char *from, const char *to, zn_dtype dtype)
{
    static const char *const names[] = {
        "generation_config.json",  "tokenizer.json",    "tokenizer_config.json", "tokenizer.model",
        "special_tokens_map.json", "added_tokens.json", "vocab.json",            "merges.txt",
        "chat_template.jinja"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        ZN_TRY(copy_named(from, to, names[i]));
    return write_config(from, to, dtype);
}
