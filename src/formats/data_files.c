/* Walking folders of data. */
#include "formats/data_files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"
#include "base/signature.h"

void zn_data_files_fini(struct zn_data_files *files)
{
    for (size_t i = 0; i < files->n; i++)
        free(files->file[i].path);
    free(files->file);
    *files = (struct zn_data_files){0};
}

/* Kinds of files that people have and that are not read, with the way to one that is. */
static zn_status refuse_file(const char *path, const char *end)
{
    static const struct {
        const char *end, *reader;
    } tables[] = {
        {".parquet", "from_parquet"}, {".arrow", "from_file"}, {".csv", "from_csv"}, {".tsv", "from_csv"},
    };
    int n_stem = (int)(strlen(path) - strlen(end));
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        if (strcmp(end, tables[i].end) == 0)
            return zn_fail(ZN_ERR_INPUT, "%s: %s files are not read; this makes rows of it: python3 -c \"import datasets; "
                           "datasets.Dataset.%s('%s'%s).to_json('%.*s.jsonl')\"", path, end, tables[i].reader, path,
                           strcmp(end, ".tsv") == 0 ? ", sep='\\t'" : "", n_stem, path);
    if (strcmp(end, ".gz") == 0 || strcmp(end, ".zst") == 0)
        return zn_fail(ZN_ERR_INPUT, "%s: compressed files are not read; unpack it first: %s -d '%s'", path,
                       strcmp(end, ".gz") == 0 ? "gzip" : "zstd", path);
    ZN_TRY(zn_signature_check(path));
    return zn_fail(ZN_ERR_INPUT, "%s: not a kind of data: expected .txt, .jsonl, .json or .bin", path);
}

/* Names of what is not on this machine. */
static zn_status fail_missing(const char *path)
{
    const char *slash = strchr(path, '/');
    if (strstr(path, "://"))
        return zn_fail(ZN_ERR_INPUT, "%s: is an address, and nothing is fetched: download it and give the file", path);
    if (slash && slash != path && !strchr(slash + 1, '/') && !strchr(slash, '.') && path[0] != '.')
        return zn_fail(ZN_ERR_INPUT, "%s: no such file or folder; of a dataset on the hub this makes rows: python3 -c \"import datasets; "
                       "datasets.load_dataset('%s', split='train').to_json('%s.jsonl')\"", path, path, slash + 1);
    return zn_fail(ZN_ERR_INPUT, "%s: no such file or folder", path);
}

static zn_status find_kind(const char *path, zn_data_kind *kind)
{
    static const struct {
        const char *end;
        zn_data_kind kind;
    } ends[] = {{".bin", ZN_DATA_BIN}, {".txt", ZN_DATA_TEXT}, {".jsonl", ZN_DATA_JSONL}, {".json", ZN_DATA_JSONL}};
    const char *dot = strrchr(path, '.'), *slash = strrchr(path, '/');
    const char *end = dot && (!slash || dot > slash) ? dot : "";
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        if (strcmp(end, ends[i].end) == 0) {
            *kind = ends[i].kind;
            return ZN_OK;
        }
    }
    return refuse_file(path, end);
}

static zn_status add_file(struct zn_data_files *files, const char *path)
{
    zn_data_kind kind = ZN_DATA_BIN;
    if (access(path, F_OK) != 0 && errno == ENOENT)
        return fail_missing(path);
    ZN_TRY(find_kind(path, &kind));
    ZN_TRY(zn_signature_check(path));
    if (files->n == files->capacity) {
        size_t capacity = 2 * files->capacity + 16;
        struct zn_data_file *larger = realloc(files->file, capacity * sizeof *larger);
        if (!larger)
            return zn_fail(ZN_ERR_MEMORY, "out of memory for a list of %zu data files", capacity);
        files->file = larger;
        files->capacity = capacity;
    }
    files->file[files->n] = (struct zn_data_file){strdup(path), kind};
    if (!files->file[files->n].path)
        return zn_fail(ZN_ERR_MEMORY, "%s: out of memory", path);
    files->n++;
    return ZN_OK;
}

static zn_status add_path(struct zn_data_files *files, const char *path, int depth)
{
    enum { MAX_DEPTH = 32 }; /* a link that leads up would not end */
    if (!zn_folder_exists(path))
        return add_file(files, path);
    if (depth == MAX_DEPTH)
        return zn_fail(ZN_ERR_INPUT, "%s: folders more than %d deep", path, MAX_DEPTH);
    char **names;
    size_t n_names;
    ZN_TRY(zn_folder_list(path, &names, &n_names));
    zn_status status = ZN_OK;
    for (size_t i = 0; i < n_names && status == ZN_OK; i++) {
        char *inner;
        status = zn_path_join(path, names[i], &inner);
        if (status != ZN_OK)
            break;
        status = add_path(files, inner, depth + 1);
        free(inner);
    }
    zn_names_free(names, n_names);
    return status;
}

zn_status zn_data_files_list(const char *const *paths, size_t n_paths, struct zn_data_files *files)
{
    if (n_paths == 0)
        return zn_fail(ZN_ERR_USAGE, "no data files given");
    for (size_t i = 0; i < n_paths; i++)
        ZN_TRY(add_path(files, paths[i], 0));
    return ZN_OK;
}
