/* manifest.json: writing and reading the list.
 *
 *   {"format": 1, "hash": "xxh3-64", "block_bytes": 16777216, "files": [
 *     {"name": …, "bytes": …, "blocks": ["0123456789abcdef", …], "tensors": [{"name", "bytes", "hash"}, …]}, …],
 *    "self": hash of the text before this key} */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "checkpoint/contents.h"

enum { HASH_DIGITS = 16 };
#define HASH_NAME "xxh3-64"
#define SELF ",\n  \"self\": \""
#define MAX_BYTES ((size_t)1024 * 1024 * 1024)

static int compare_files(const void *a, const void *b)
{
    const struct zn_listed_file *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static void sort(zn_contents *c)
{
    if (c->n_files > 0)
        qsort(c->files, c->n_files, sizeof *c->files, compare_files);
}

/* ---- Writing ---- */

static void add_hash(zn_text *t, uint64_t hash)
{
    zn_text_add(t, "\"%016llx\"", (unsigned long long)hash);
}

static void add_file(zn_text *t, const struct zn_listed_file *f)
{
    zn_text_add(t, "    {\"name\": ");
    zn_text_add_quoted(t, f->name);
    zn_text_add(t, ", \"bytes\": %llu, \"blocks\": [", (unsigned long long)f->n_bytes);
    for (size_t i = 0; i < f->n_blocks; i++) {
        zn_text_add(t, i ? ", " : "");
        add_hash(t, f->blocks[i]);
    }
    zn_text_add(t, "]");
    for (size_t i = 0; i < f->n_segments; i++) {
        zn_text_add(t, i ? ",\n       {\"name\": " : ",\n     \"tensors\": [{\"name\": ");
        zn_text_add_quoted(t, f->segments[i].name);
        zn_text_add(t, ", \"bytes\": %llu, \"hash\": ", (unsigned long long)f->segments[i].n_bytes);
        add_hash(t, f->segments[i].hash);
        zn_text_add(t, "}");
    }
    zn_text_add(t, f->n_segments ? "]}" : "}");
}

zn_status zn_contents_write(zn_contents *c, const char *folder, const char *name)
{
    zn_text t;
    char *path = NULL;
    zn_text_init(&t);
    sort(c);
    zn_text_add(&t, "{\n  \"format\": %d,\n  \"hash\": \"" HASH_NAME "\",\n  \"block_bytes\": %llu,\n  \"files\": [\n",
                ZN_CONTENTS_FORMAT, (unsigned long long)ZN_BLOCK_BYTES);
    for (size_t i = 0; i < c->n_files; i++) {
        add_file(&t, &c->files[i]);
        zn_text_add(&t, i + 1 < c->n_files ? ",\n" : "\n");
    }
    zn_text_add(&t, "  ]");
    zn_status status = zn_text_status(&t);
    if (status == ZN_OK) {
        zn_text_add(&t, SELF "%016llx\"\n}\n", (unsigned long long)XXH3_64bits(t.data, t.n_bytes));
        status = zn_text_status(&t);
    }
    if (status == ZN_OK)
        status = zn_path_join(folder, name, &path);
    if (status == ZN_OK)
        status = zn_file_write(path, t.data, t.n_bytes);
    free(path);
    zn_text_fini(&t);
    return status;
}

/* ---- Reading ---- */

static bool parse_hash(const char *text, uint64_t *hash)
{
    if (strspn(text, "0123456789abcdef") != HASH_DIGITS || text[HASH_DIGITS] != '\0')
        return false;
    *hash = strtoull(text, NULL, 16);
    return true;
}

/* A list must not reach out of its folder. */
static bool is_plain_name(const char *name)
{
    return name[0] != '\0' && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static zn_status read_blocks(zn_json *entry, struct zn_listed_file *f)
{
    zn_json *blocks;
    ZN_TRY(zn_json_get_array(entry, "blocks", &blocks));
    uint64_t wanted = f->n_bytes / ZN_BLOCK_BYTES + (f->n_bytes % ZN_BLOCK_BYTES != 0);
    if (zn_json_n_items(blocks) != wanted)
        return zn_json_fail(blocks, "%zu hashes, a file of this size has %llu blocks", zn_json_n_items(blocks),
                            (unsigned long long)wanted);
    f->blocks = calloc((size_t)wanted + 1, sizeof *f->blocks);
    if (!f->blocks)
        return zn_fail(ZN_ERR_MEMORY, "out of memory for a list of hashes");
    for (; f->n_blocks < wanted; f->n_blocks++) {
        const char *text;
        ZN_TRY(zn_json_item_string(blocks, f->n_blocks, &text));
        if (!parse_hash(text, &f->blocks[f->n_blocks]))
            return zn_json_fail(blocks, "\"%s\" is not a hash", zn_shown(text).text);
    }
    return ZN_OK;
}

static zn_status read_segment(zn_json *entry, uint64_t left, struct zn_segment *s)
{
    const char *name, *hash;
    int64_t n_bytes;
    ZN_TRY(zn_json_get_string(entry, "name", &name));
    ZN_TRY(zn_json_get_int(entry, "bytes", 0, INT64_MAX, &n_bytes));
    ZN_TRY(zn_json_get_string(entry, "hash", &hash));
    if (!parse_hash(hash, &s->hash))
        return zn_json_fail(entry, "\"%s\" is not a hash", zn_shown(hash).text);
    if ((uint64_t)n_bytes > left)
        return zn_json_fail(entry, "tensors have more bytes than the file");
    s->n_bytes = (uint64_t)n_bytes;
    s->name = strdup(name);
    return s->name ? ZN_OK : zn_fail(ZN_ERR_MEMORY, "out of memory for a list of tensors");
}

static zn_status read_segments(zn_json *entry, struct zn_listed_file *f)
{
    zn_json *list, *item;
    uint64_t left = f->n_bytes;
    ZN_TRY(zn_json_get_array_or_null(entry, "tensors", &list));
    if (!list)
        return ZN_OK;
    size_t n = zn_json_n_items(list);
    f->segments = calloc(n + 1, sizeof *f->segments);
    if (!f->segments)
        return zn_fail(ZN_ERR_MEMORY, "out of memory for a list of tensors");
    for (size_t i = 0; i < n; i++) {
        ZN_TRY(zn_json_item_object(list, i, &item));
        ZN_TRY(read_segment(item, left, &f->segments[i]));
        f->n_segments++;
        left -= f->segments[i].n_bytes;
    }
    if (n > 0 && left > 0)
        return zn_json_fail(list, "tensors have %llu bytes less than the file", (unsigned long long)left);
    return ZN_OK;
}

static zn_status read_file(zn_json *entry, struct zn_listed_file *f)
{
    const char *name;
    int64_t n_bytes;
    ZN_TRY(zn_json_get_string(entry, "name", &name));
    if (!is_plain_name(name))
        return zn_json_fail(entry, "\"%s\" is not a file name inside the folder", zn_shown(name).text);
    ZN_TRY(zn_json_get_int(entry, "bytes", 0, INT64_MAX, &n_bytes));
    f->n_bytes = (uint64_t)n_bytes;
    if (!(f->name = strdup(name)))
        return zn_fail(ZN_ERR_MEMORY, "out of memory for a list of files");
    ZN_TRY(read_blocks(entry, f));
    return read_segments(entry, f);
}

/* What the text says of itself. */
static zn_status check_self(const char *text, size_t n_bytes, const char *path)
{
    const char *at = NULL;
    for (const char *p = text; (p = memmem(p, (size_t)(text + n_bytes - p), SELF, strlen(SELF))); p++)
        at = p;
    uint64_t hash;
    char digits[HASH_DIGITS + 1] = "";
    if (at && (size_t)(text + n_bytes - at) > strlen(SELF) + HASH_DIGITS)
        memcpy(digits, at + strlen(SELF), HASH_DIGITS);
    if (!at || !parse_hash(digits, &hash) || hash != XXH3_64bits(text, (size_t)(at - text)))
        return zn_fail(ZN_ERR_INPUT, "%s: damaged: its text does not have the hash that it ends in", path);
    return ZN_OK;
}

static zn_status read_root(zn_json *root, zn_contents *c)
{
    int64_t format, block_bytes;
    const char *hash;
    zn_json *files, *entry;
    ZN_TRY(zn_json_get_int(root, "format", 1, INT32_MAX, &format));
    if (format != ZN_CONTENTS_FORMAT) {
        zn_json_fail(root, "format %lld; this version reads format %d", (long long)format, ZN_CONTENTS_FORMAT);
        return ZN_ERR_UNSUPPORTED;
    }
    ZN_TRY(zn_json_get_string(root, "hash", &hash));
    ZN_TRY(zn_json_get_int(root, "block_bytes", 1, INT64_MAX, &block_bytes));
    if (strcmp(hash, HASH_NAME) != 0 || (uint64_t)block_bytes != ZN_BLOCK_BYTES)
        return zn_json_fail(root, "hashes are not " HASH_NAME " of 16 MiB");
    ZN_TRY(zn_json_get_array(root, "files", &files));
    c->files = calloc(zn_json_n_items(files) + 1, sizeof *c->files);
    if (!c->files)
        return zn_fail(ZN_ERR_MEMORY, "out of memory for a list of files");
    c->capacity = zn_json_n_items(files);
    for (size_t i = 0; i < c->capacity; i++) {
        ZN_TRY(zn_json_item_object(files, i, &entry));
        c->n_files++;
        ZN_TRY(read_file(entry, &c->files[i]));
        if (i > 0 && compare_files(&c->files[i - 1], &c->files[i]) >= 0)
            return zn_json_fail(files, "files are not sorted, or \"%s\" is there twice",
                                zn_shown(c->files[i].name).text);
    }
    return ZN_OK;
}

zn_status zn_contents_parse(const char *text, size_t n_bytes, const char *path, zn_contents *contents)
{
    zn_json *root;
    zn_contents c = {0};
    ZN_TRY(check_self(text, n_bytes, path));
    ZN_TRY(zn_json_load_buffer(text, n_bytes, path, &root));
    zn_status status = read_root(root, &c);
    zn_json_destroy(root);
    if (status != ZN_OK) {
        zn_contents_fini(&c);
        return status;
    }
    *contents = c;
    return ZN_OK;
}

zn_status zn_contents_read(const char *path, zn_contents *contents)
{
    char *text;
    size_t n_bytes;
    ZN_TRY(zn_file_read(path, MAX_BYTES, &text, &n_bytes));
    zn_status status = zn_contents_parse(text, n_bytes, path, contents);
    free(text);
    return status;
}
