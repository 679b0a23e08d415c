/* Opening the files of a hub folder and finding tensors across them. */
#include "formats/model_files.h"

#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/json.h"
#include "base/text.h"

#define MAX_INDEX_BYTES ((size_t)100 * 1000 * 1000)

struct zn_model_files {
    char *folder;
    zn_st_file **files;
    size_t n_files;
    struct zn_model_tensor *tensors; /* by name */
    size_t n_tensors;
};

static zn_status no_memory(const char *folder)
{
    return zn_fail(ZN_ERR_MEMORY, "%s: out of memory for the list of tensors", folder);
}

/* An index must not reach out of its folder. */
static bool is_plain_name(const char *name)
{
    return name[0] != '\0' && !strchr(name, '/') && !strchr(name, '\\') && strcmp(name, ".") != 0 &&
           strcmp(name, "..") != 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The shards that the index names, once each, sorted; the names belong to the index. */
static zn_status list_shards(zn_json *weight_map, const char ***names, size_t *n_names)
{
    size_t n = zn_json_n_keys(weight_map), n_kept = 0, i = 0;
    if (n == 0)
        return zn_json_fail(weight_map, "lists no tensors");
    const char **list = malloc(n * sizeof *list);
    if (!list)
        return zn_fail(ZN_ERR_MEMORY, "out of memory for an index of %zu tensors", n);
    zn_status status = ZN_OK;
    for (const char *key = zn_json_first_key(weight_map); key && status == ZN_OK;
         key = zn_json_next_key(weight_map, key)) {
        status = zn_json_get_string(weight_map, key, &list[i]);
        if (status == ZN_OK && !is_plain_name(list[i]))
            status = zn_json_fail(weight_map, "tensor '%s' is said to be in \"%s\", which is not a file name "
                                  "inside the folder", zn_shown(key).text, zn_shown(list[i]).text);
        i++;
    }
    if (status != ZN_OK) {
        free(list);
        return status;
    }
    qsort(list, n, sizeof *list, compare_names);
    for (i = 0; i < n; i++)
        if (n_kept == 0 || strcmp(list[n_kept - 1], list[i]) != 0)
            list[n_kept++] = list[i];
    *names = list;
    *n_names = n_kept;
    return ZN_OK;
}

static zn_status open_files(zn_model_files *set, const char *const *names, size_t n_names)
{
    set->files = calloc(n_names, sizeof *set->files);
    if (!set->files)
        return no_memory(set->folder);
    for (size_t i = 0; i < n_names; i++) {
        char *path;
        ZN_TRY(zn_path_join(set->folder, names[i], &path));
        zn_status status = zn_st_open(path, &set->files[i]);
        free(path);
        ZN_TRY(status);
        set->n_files++;
    }
    return ZN_OK;
}

static int compare_tensors(const void *a, const void *b)
{
    const struct zn_model_tensor *x = a, *y = b;
    return strcmp(x->tensor->name, y->tensor->name);
}

static zn_status collect_tensors(zn_model_files *set)
{
    size_t n = 0;
    for (size_t k = 0; k < set->n_files; k++)
        n += zn_st_n_tensors(set->files[k]);
    set->tensors = malloc((n + 1) * sizeof *set->tensors);
    if (!set->tensors)
        return no_memory(set->folder);
    for (size_t k = 0; k < set->n_files; k++)
        for (size_t i = 0; i < zn_st_n_tensors(set->files[k]); i++)
            set->tensors[set->n_tensors++] =
                (struct zn_model_tensor){.tensor = zn_st_tensor_at(set->files[k], i), .file = set->files[k]};
    qsort(set->tensors, n, sizeof *set->tensors, compare_tensors);
    for (size_t i = 0; i + 1 < n; i++)
        if (compare_tensors(&set->tensors[i], &set->tensors[i + 1]) == 0)
            return zn_fail(ZN_ERR_INPUT, "%s: tensor '%s' is also in %s", zn_st_path(set->tensors[i].file),
                           zn_shown(set->tensors[i].tensor->name).text, zn_st_path(set->tensors[i + 1].file));
    return ZN_OK;
}

/* Every tensor of the index must be in the shard that it names. */
static zn_status check_index(const zn_model_files *set, zn_json *weight_map)
{
    for (const char *key = zn_json_first_key(weight_map); key; key = zn_json_next_key(weight_map, key)) {
        const char *shard;
        struct zn_model_tensor found;
        ZN_TRY(zn_json_get_string(weight_map, key, &shard));
        if (!zn_model_files_find(set, key, &found))
            return zn_json_fail(weight_map, "tensor '%s' is not in %s, nor in another shard", zn_shown(key).text,
                                zn_shown(shard).text);
        const char *path = zn_st_path(found.file), *slash = strrchr(path, '/');
        if (strcmp(slash ? slash + 1 : path, shard) != 0)
            return zn_json_fail(weight_map, "tensor '%s' is not in %s, but in %s", zn_shown(key).text,
                                zn_shown(shard).text, path);
    }
    return ZN_OK;
}

static zn_status open_sharded(zn_model_files *set, const char *index_path)
{
    zn_json *index = NULL, *weight_map;
    const char **names = NULL;
    size_t n_names = 0;
    ZN_TRY(zn_json_load_file(index_path, MAX_INDEX_BYTES, &index));
    zn_status status = zn_json_get_object(index, "weight_map", &weight_map);
    if (status == ZN_OK)
        status = list_shards(weight_map, &names, &n_names);
    if (status == ZN_OK)
        status = open_files(set, names, n_names);
    if (status == ZN_OK)
        status = collect_tensors(set);
    if (status == ZN_OK)
        status = check_index(set, weight_map);
    free(names);
    zn_json_destroy(index);
    return status;
}

static zn_status fail_nothing_there(const char *folder)
{
    if (!zn_folder_exists(folder))
        return zn_fail(ZN_ERR_INPUT, "%s: no such folder", folder);
    static const char *const pickles[] = {"pytorch_model.bin", "pytorch_model.bin.index.json"};
    for (size_t i = 0; i < sizeof pickles / sizeof pickles[0]; i++) {
        char *path;
        ZN_TRY(zn_path_join(folder, pickles[i], &path));
        bool there = zn_file_exists(path);
        free(path);
        if (there)
            return zn_fail(ZN_ERR_UNSUPPORTED, "%s: has %s but no model.safetensors: convert it to safetensors: python3 -c \""
                           "from transformers import AutoModelForCausalLM as M; M.from_pretrained('%s').save_pretrained('%s')\"",
                           folder, pickles[i], folder, folder);
    }
    return zn_fail(ZN_ERR_INPUT, "%s: no weights: expected model.safetensors, or model.safetensors.index.json "
                   "with its shards", folder);
}

static zn_status open_folder(zn_model_files *set)
{
    static const char *const single = "model.safetensors";
    char *single_path = NULL, *index_path = NULL;
    zn_status status = zn_path_join(set->folder, single, &single_path);
    if (status == ZN_OK)
        status = zn_path_join(set->folder, "model.safetensors.index.json", &index_path);
    bool has_single = false, has_index = false;
    if (status == ZN_OK)
        status = zn_path_look(single_path, &has_single);
    if (status == ZN_OK)
        status = zn_path_look(index_path, &has_index);
    if (status != ZN_OK)
        goto done;
    if (has_single) {
        status = open_files(set, &single, 1);
        if (status == ZN_OK)
            status = collect_tensors(set);
    } else if (has_index) {
        status = open_sharded(set, index_path);
    } else {
        status = fail_nothing_there(set->folder);
    }
done:
    free(single_path);
    free(index_path);
    return status;
}

zn_status zn_model_files_open(const char *folder, zn_model_files **files)
{
    zn_model_files *set = calloc(1, sizeof *set);
    if (!set || !(set->folder = strdup(folder))) {
        free(set);
        return no_memory(folder);
    }
    zn_status status = open_folder(set);
    if (status != ZN_OK) {
        zn_model_files_close(set);
        return status;
    }
    *files = set;
    return ZN_OK;
}

void zn_model_files_close(zn_model_files *files)
{
    if (!files)
        return;
    for (size_t k = 0; k < files->n_files; k++)
        zn_st_close(files->files[k]);
    free(files->files);
    free(files->tensors);
    free(files->folder);
    free(files);
}

size_t zn_model_files_n_tensors(const zn_model_files *files)
{
    return files->n_tensors;
}

struct zn_model_tensor zn_model_files_tensor_at(const zn_model_files *files, size_t i)
{
    return files->tensors[i];
}

bool zn_model_files_find(const zn_model_files *files, const char *name, struct zn_model_tensor *found)
{
    const struct zn_st_tensor key = {.name = name};
    const struct zn_model_tensor wanted = {.tensor = &key};
    const struct zn_model_tensor *at =
        bsearch(&wanted, files->tensors, files->n_tensors, sizeof *files->tensors, compare_tensors);
    if (!at)
        return false;
    *found = *at;
    return true;
}

zn_status zn_model_files_get(const zn_model_files *files, const char *name, int n_dims, const int64_t *dims,
                             struct zn_model_tensor *found)
{
    struct zn_model_tensor at;
    if (!zn_model_files_find(files, name, &at))
        return zn_fail(ZN_ERR_INPUT, "%s: tensor '%s' is missing",
                       files->n_files == 1 ? zn_st_path(files->files[0]) : files->folder, zn_shown(name).text);
    const struct zn_st_tensor *t = at.tensor;
    char is[ZN_SHAPE_TEXT], wanted[ZN_SHAPE_TEXT];
    if (t->n_dims != n_dims || (n_dims > 0 && memcmp(t->dims, dims, (size_t)n_dims * sizeof *dims) != 0))
        return zn_fail(ZN_ERR_INPUT, "%s: tensor '%s' has shape %s, but config.json asks for %s",
                       zn_st_path(at.file), zn_shown(name).text, zn_shape_text(t->n_dims, t->dims, is),
                       zn_shape_text(n_dims, dims, wanted));
    zn_dtype type;
    if (!zn_st_dtype_is_float(t->dtype, &type))
        return zn_fail(ZN_ERR_UNSUPPORTED, "%s: tensor '%s' is of type %s; F32, BF16 and F16 can be read",
                       zn_st_path(at.file), zn_shown(name).text, zn_st_dtype_name(t->dtype));
    *found = at;
    return ZN_OK;
}

zn_status zn_model_tensor_read(const struct zn_model_tensor *t, int64_t first, int64_t n_elements, float *values)
{
    ZN_TRY(zn_st_read_f32(t->file, t->tensor, first, n_elements, values));
    if (t->change)
        t->change(t->change_self, first, n_elements, values);
    return ZN_OK;
}
