/* CACHE/models--ORG--NAME/snapshots/REVISION, where refs/main holds the revision. */
#include "formats/hub_cache.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"

enum { MAX_NAME = 96, MAX_REVISION = 256 };

static zn_status no_memory(void)
{
    return zn_fail(ZN_ERR_MEMORY, "no memory for a path in the hub's cache");
}

static bool is_name_part(const char *text, size_t n)
{
    static const char others[] = "._-";
    if (n == 0 || n > MAX_NAME || strchr(others, text[0]) || strchr(others, text[n - 1]))
        return false;
    for (size_t i = 0; i < n; i++) {
        char c = text[i];
        bool is_alnum = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!is_alnum && (!strchr(others, c) || (c != '_' && text[i - 1] == c))) /* neither ".." nor "--" */
            return false;
    }
    return true;
}

bool zn_hub_is_name(const char *text)
{
    const char *slash = strchr(text, '/');
    return slash ? is_name_part(text, (size_t)(slash - text)) && is_name_part(slash + 1, strlen(slash + 1))
                 : is_name_part(text, strlen(text));
}

static zn_status cache_folder(char **folder)
{
    static const struct {
        const char *variable, *below;
    } places[] = {{"HF_HUB_CACHE", ""}, {"HUGGINGFACE_HUB_CACHE", ""}, {"HF_HOME", "/hub"},
                  {"XDG_CACHE_HOME", "/huggingface/hub"}, {"HOME", "/.cache/huggingface/hub"}};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        const char *value = getenv(places[i].variable);
        if (value && *value)
            return asprintf(folder, "%s%s", value, places[i].below) < 0 ? no_memory() : ZN_OK;
    }
    *folder = NULL;
    return ZN_OK;
}

/* CACHE/models--ORG--NAME */
static zn_status model_folder(const char *cache, const char *name, char **folder)
{
    const char *slash = strchr(name, '/');
    int n_bytes = slash ? asprintf(folder, "%s/models--%.*s--%s", cache, (int)(slash - name), name, slash + 1)
                        : asprintf(folder, "%s/models--%s", cache, name);
    return n_bytes < 0 ? no_memory() : ZN_OK;
}

/* What refs/main says; without it, the only snapshot. *revision NULL: neither. */
static zn_status find_revision(const char *folder, const char *snapshots, char **revision)
{
    char *path, *text = NULL, **names;
    size_t n_bytes, n_names;
    *revision = NULL;
    ZN_TRY(zn_path_join(folder, "refs/main", &path));
    zn_status status = zn_file_exists(path) ? zn_file_read(path, MAX_REVISION, &text, &n_bytes) : ZN_OK;
    if (status == ZN_OK && text) {
        text[strcspn(text, " \r\n")] = '\0';
        if (*text && text[0] != '.' && !strchr(text, '/'))
            *revision = text;
        else
            status = zn_fail(ZN_ERR_INPUT, "%s: is no revision", path);
    }
    free(path);
    if (*revision || status != ZN_OK) {
        if (status != ZN_OK)
            free(text);
        return status;
    }
    if (!zn_folder_exists(snapshots))
        return ZN_OK;
    ZN_TRY(zn_folder_list(snapshots, &names, &n_names));
    if (n_names == 1)
        *revision = strdup(names[0]);
    zn_names_free(names, n_names);
    return ZN_OK;
}

/* The snapshot with a config.json; *found NULL: there is none. */
static zn_status find_snapshot(const char *folder, char **found)
{
    char *snapshots, *revision = NULL, *snapshot = NULL, *config = NULL;
    *found = NULL;
    ZN_TRY(zn_path_join(folder, "snapshots", &snapshots));
    zn_status status = find_revision(folder, snapshots, &revision);
    if (status == ZN_OK && revision)
        status = zn_path_join(snapshots, revision, &snapshot);
    if (status == ZN_OK && snapshot)
        status = zn_path_join(snapshot, "config.json", &config);
    if (status == ZN_OK && config && zn_file_exists(config)) {
        *found = snapshot;
        snapshot = NULL;
    }
    free(config);
    free(snapshot);
    free(revision);
    free(snapshots);
    return status;
}

static bool ends_in(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static zn_status fail_file(const char *model)
{
    const char *slash = strrchr(model, '/');
    if (ends_in(model, ".gguf"))
        return zn_fail(ZN_ERR_UNSUPPORTED, "%s: is a GGUF file, which zinc writes but does not read: take the hub folder with safetensors "
                       "that it was made from", model);
    return zn_fail(ZN_ERR_INPUT, "%s: is a file; give the folder that holds it: --model %.*s", model,
                   slash ? (int)(slash - model) : 1, slash ? model : ".");
}

/* Why the folder has no config.json, by what it has instead. */
static zn_status fail_no_config(const char *folder, char *const *names, size_t n_names)
{
    for (size_t i = 0; i < n_names; i++) {
        if (ends_in(names[i], ".gguf"))
            return zn_fail(ZN_ERR_UNSUPPORTED, "%s: holds %s and no config.json: GGUF files are written but not read; take the hub folder "
                           "with safetensors that it was made from", folder, names[i]);
        if (strcmp(names[i], "adapter_config.json") == 0)
            return zn_fail(ZN_ERR_INPUT, "%s: is an adapter (%s), not a model: --model takes the folder of its base", folder, names[i]);
        if (strcmp(names[i], "consolidated.safetensors") == 0 || strcmp(names[i], "params.json") == 0)
            return zn_fail(ZN_ERR_UNSUPPORTED, "%s: holds %s and no config.json: that is the maker's own format; take the model's folder "
                           "in the hub's (transformers') format", folder, names[i]);
    }
    return zn_fail(ZN_ERR_INPUT, "%s: holds no config.json, so it is no hub folder; `hf download ORG/NAME --local-dir DIR` makes one",
                   folder);
}

zn_status zn_hub_check_folder(const char *folder)
{
    char **names;
    size_t n_names;
    bool found;
    if (!zn_folder_exists(folder))
        return zn_fail(ZN_ERR_INPUT, "%s: no such folder", folder);
    ZN_TRY(zn_folder_holds(folder, "config.json", &found));
    if (found)
        return ZN_OK;
    ZN_TRY(zn_folder_list(folder, &names, &n_names));
    zn_status status = fail_no_config(folder, names, n_names);
    zn_names_free(names, n_names);
    return status;
}

zn_status zn_hub_cache_find(const char *model, char **folder)
{
    char *cache, *models = NULL;
    *folder = NULL;
    if (zn_file_exists(model))
        return fail_file(model);
    if (zn_folder_exists(model) || !zn_hub_is_name(model))
        return ZN_OK;
    ZN_TRY(cache_folder(&cache));
    zn_status status = cache ? model_folder(cache, model, &models) : ZN_OK;
    if (status == ZN_OK && models)
        status = find_snapshot(models, folder);
    const char *slash = strchr(model, '/'), *name = slash ? slash + 1 : model;
    if (status == ZN_OK && !*folder)
        status = zn_fail(ZN_ERR_INPUT, "%s: no such folder, nor a model in the hub's cache %s; to fetch it from the hub: hf download "
                         "%s --local-dir %s (huggingface-cli in older versions), then --model %s", model,
                         cache ? cache : "(neither HF_HOME nor HOME is set)", model, name, name);
    free(models);
    free(cache);
    return status;
}
