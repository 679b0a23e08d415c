/* The list of data files, and reading ids across it. */
#include "formats/tokens.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"
#include "base/size.h"
#include "base/text.h"
#include "formats/token_format.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "token files are little-endian");

struct data_file {
    char *path;                  /* as the person knows it */
    struct zn_token_cache cache; /* no path: it is none */
    size_t id_bytes;    /* 1: text */
    uint64_t data;      /* where the ids begin */
    int64_t n_ids;      /* in the file */
    int64_t first;      /* position of its first token among all */
    int64_t n_tokens;   /* n_ids, and the end of text where one follows */
};

struct zn_token_source {
    struct zn_token_source_options options;
    struct data_file *files;
    size_t n_files, capacity;
    int64_t n_tokens;
};

/* ---- The list of files ---- */

/* Checks the header against the size of the file: a count that lies is found here. */
static zn_status check_bin(int fd, uint64_t n_bytes, struct data_file *file)
{
    uint32_t header[ZN_TOKENS_HEADER];
    if (n_bytes < TOKEN_HEADER_BYTES)
        return zn_fail(ZN_ERR_INPUT, "%s: %llu bytes are too few for the %d bytes of a token file's header",
                       file->path, (unsigned long long)n_bytes, TOKEN_HEADER_BYTES);
    ZN_TRY(zn_pread_all(fd, file->path, header, sizeof header, 0));
    uint32_t version;
    if (header[0] == TOKEN_MAGIC_16) {
        file->id_bytes = 2;
        version = TOKEN_VERSION_16;
    } else if (header[0] == TOKEN_MAGIC_32) {
        file->id_bytes = 4;
        version = TOKEN_VERSION_32;
    } else {
        return zn_fail(ZN_ERR_INPUT, "%s: not a token file: it begins with %u, not %d or %d", file->path,
                       header[0], TOKEN_MAGIC_16, TOKEN_MAGIC_32);
    }
    if (header[1] != version)
        return zn_fail(ZN_ERR_INPUT, "%s: token file of version %u, expected %u", file->path, header[1], version);
    uint64_t expected = TOKEN_HEADER_BYTES + (uint64_t)header[2] * file->id_bytes;
    if (n_bytes != expected)
        return zn_fail(ZN_ERR_INPUT, "%s: the header counts %u tokens of %zu bytes, %llu bytes in all, but the "
                       "file has %llu", file->path, header[2], file->id_bytes, (unsigned long long)expected,
                       (unsigned long long)n_bytes);
    file->data = TOKEN_HEADER_BYTES;
    file->n_ids = file->n_tokens = header[2];
    return ZN_OK;
}

static zn_status check_text(const zn_token_source *source, uint64_t n_bytes, struct data_file *file)
{
    const struct zn_token_source_options *o = &source->options;
    if (!o->bytes)
        return zn_fail(ZN_ERR_UNSUPPORTED, "%s: text for a model with a tokenizer has to be encoded", file->path);
    if (o->vocab_size != 0 && o->vocab_size < 256)
        return zn_fail(ZN_ERR_INPUT, "%s: text as bytes needs a vocabulary of 256, the model has %lld", file->path,
                       (long long)o->vocab_size);
    file->id_bytes = 1;
    file->n_ids = (int64_t)n_bytes;
    file->n_tokens = file->n_ids + (o->end_of_text >= 0);
    return ZN_OK;
}

static zn_status check_file(const zn_token_source *source, zn_data_kind kind, struct data_file *file)
{
    if (kind == ZN_DATA_JSONL)
        return zn_fail(ZN_ERR_UNSUPPORTED, "%s: rows have to be encoded; give .bin, or text as bytes", file->path);
    int fd;
    uint64_t n_bytes;
    ZN_TRY(zn_file_open(file->path, &fd, &n_bytes));
    zn_status status = kind == ZN_DATA_BIN ? check_bin(fd, n_bytes, file) : check_text(source, n_bytes, file);
    close(fd);
    return status;
}

/* A new entry after the last; the caller fills in what the file has and calls add_tokens. */
static zn_status add_entry(zn_token_source *source, const char *path, struct data_file **entry)
{
    if (source->n_files == source->capacity) {
        size_t capacity = 2 * source->capacity + 16;
        struct data_file *files = realloc(source->files, capacity * sizeof *files);
        if (!files)
            return zn_fail(ZN_ERR_MEMORY, "out of memory for a list of %zu data files", capacity);
        source->files = files;
        source->capacity = capacity;
    }
    struct data_file *file = &source->files[source->n_files];
    *file = (struct data_file){.path = strdup(path), .first = source->n_tokens};
    if (!file->path)
        return zn_fail(ZN_ERR_MEMORY, "%s: out of memory", path);
    source->n_files++;
    *entry = file;
    return ZN_OK;
}

static zn_status add_tokens(zn_token_source *source, const struct data_file *file)
{
    if (__builtin_add_overflow(source->n_tokens, file->n_tokens, &source->n_tokens))
        return zn_fail(ZN_ERR_INPUT, "%s: too many tokens in all", file->path);
    return ZN_OK;
}

zn_status zn_tokens_add_file(zn_token_source *source, const struct zn_data_file *file)
{
    struct data_file *entry = NULL;
    ZN_TRY(add_entry(source, file->path, &entry));
    ZN_TRY(check_file(source, file->kind, entry));
    return add_tokens(source, entry);
}

zn_status zn_tokens_add_cache(zn_token_source *source, const char *name, const struct zn_token_cache *cache)
{
    struct data_file *entry = NULL;
    ZN_TRY(add_entry(source, name, &entry));
    entry->id_bytes = cache->id_bytes;
    entry->data = TOKEN_HEADER_BYTES;
    entry->n_ids = entry->n_tokens = cache->n_tokens;
    ZN_TRY(add_tokens(source, entry));
    entry->cache = *cache;
    return ZN_OK;
}

/* "a.bin, b.bin and 7 more". */
static void add_names(zn_text *text, const char *const *names, size_t n_names)
{
    enum { SHOWN = 3 };
    for (size_t i = 0; i < n_names && i < SHOWN; i++)
        zn_text_add(text, "%s%s", i ? ", " : "", names[i]);
    if (n_names > SHOWN)
        zn_text_add(text, " and %zu more", n_names - SHOWN);
}

zn_status zn_tokens_check(const zn_token_source *source, const char *const *paths, size_t n_paths)
{
    bool is_empty = true;
    for (size_t i = 0; i < source->n_files; i++)
        is_empty = is_empty && source->files[i].n_ids == 0;
    if (!is_empty)
        return ZN_OK;
    zn_text text;
    zn_text_init(&text);
    add_names(&text, paths, n_paths);
    zn_status status = zn_text_status(&text);
    if (status == ZN_OK)
        status = zn_fail(ZN_ERR_INPUT, "%s: the data is empty: %zu files (.txt, .jsonl, .json, .bin) with 0 tokens", text.data,
                         source->n_files);
    zn_text_fini(&text);
    return status;
}

zn_status zn_tokens_create(const struct zn_token_source_options *options, zn_token_source **source)
{
    zn_token_source *s = calloc(1, sizeof *s);
    if (!s)
        return zn_fail(ZN_ERR_MEMORY, "out of memory for the list of data files");
    s->options = *options;
    *source = s;
    return ZN_OK;
}

static zn_status add_all(zn_token_source *source, const char *const *paths, size_t n_paths,
                         struct zn_data_files *files)
{
    ZN_TRY(zn_data_files_list(paths, n_paths, files));
    for (size_t i = 0; i < files->n; i++)
        ZN_TRY(zn_tokens_add_file(source, &files->file[i]));
    return zn_tokens_check(source, paths, n_paths);
}

zn_status zn_tokens_open(const char *const *paths, size_t n_paths, const struct zn_token_source_options *options,
                         zn_token_source **source)
{
    zn_token_source *s = NULL;
    struct zn_data_files files = {0};
    ZN_TRY(zn_tokens_create(options, &s));
    zn_status status = add_all(s, paths, n_paths, &files);
    zn_data_files_fini(&files);
    if (status != ZN_OK) {
        zn_tokens_close(s);
        return status;
    }
    *source = s;
    return ZN_OK;
}

void zn_tokens_close(zn_token_source *source)
{
    if (!source)
        return;
    for (size_t i = 0; i < source->n_files; i++) {
        if (source->files[i].cache.path)
            zn_token_cache_close(&source->files[i].cache);
        free(source->files[i].path);
    }
    free(source->files);
    free(source);
}

int64_t zn_tokens_total(const zn_token_source *source)
{
    return source->n_tokens;
}

size_t zn_tokens_n_files(const zn_token_source *source)
{
    return source->n_files;
}

int32_t zn_tokens_end_of_text(const zn_token_source *source)
{
    return source->options.end_of_text;
}

/* ---- Reading ---- */

/* The file that holds the token; files without tokens are never it. */
static const struct data_file *find_file(const zn_token_source *source, int64_t at)
{
    size_t low = 0, high = source->n_files;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (source->files[middle].first <= at)
            low = middle;
        else
            high = middle;
    }
    return &source->files[low];
}

/* Ids first … first+n of the open file. */
static zn_status read_ids(const zn_token_source *source, const struct data_file *file, int fd, int64_t first,
                          int64_t n_ids, int32_t *out)
{
    const struct token_ids ids = {.path = file->cache.path ? file->cache.path : file->path,
                                  .fd = fd,
                                  .data = file->data,
                                  .id_bytes = file->id_bytes,
                                  .vocab_size = source->options.vocab_size};
    return token_ids_read(&ids, first, n_ids, out);
}

/* As many of the n tokens from `first` (of all) as this file has. */
static zn_status read_file(const zn_token_source *source, const struct data_file *file, int64_t first,
                           int64_t n_tokens, int32_t *out, int64_t *n_read)
{
    int64_t from = first - file->first, n = file->n_tokens - from;
    if (n > n_tokens)
        n = n_tokens;
    int64_t n_ids = file->n_ids - from < n ? file->n_ids - from : n;
    if (n_ids > 0 && file->cache.path) {
        ZN_TRY(read_ids(source, file, file->cache.ids_fd, from, n_ids, out));
    } else if (n_ids > 0) {
        int fd;
        uint64_t n_bytes;
        ZN_TRY(zn_file_open(file->path, &fd, &n_bytes));
        zn_status status = read_ids(source, file, fd, from, n_ids, out);
        close(fd);
        ZN_TRY(status);
    }
    if (n_ids < n) {
        ZN_TRY(token_id_check(source->options.vocab_size, file->path, file->n_ids, (uint32_t)source->options.end_of_text));
        out[n - 1] = source->options.end_of_text;
    }
    *n_read = n;
    return ZN_OK;
}

static zn_status check_range(const zn_token_source *source, int64_t first, int64_t n_tokens)
{
    if (first < 0 || n_tokens < 0 || first > source->n_tokens || n_tokens > source->n_tokens - first)
        return zn_fail(ZN_ERR_INTERNAL, "read of %lld tokens at %lld is outside the %lld of the data",
                       (long long)n_tokens, (long long)first, (long long)source->n_tokens);
    return ZN_OK;
}

zn_status zn_tokens_read_counts(const zn_token_source *source, int64_t first, int64_t n_tokens, uint8_t *counts)
{
    ZN_TRY(check_range(source, first, n_tokens));
    while (n_tokens > 0) {
        const struct data_file *file = find_file(source, first);
        int64_t from = first - file->first, n = file->n_tokens - from;
        if (n > n_tokens)
            n = n_tokens;
        if (file->cache.path)
            ZN_TRY(zn_token_cache_counts(&file->cache, from, n, counts));
        else
            memset(counts, 1, (size_t)n);
        first += n;
        counts += n;
        n_tokens -= n;
    }
    return ZN_OK;
}

zn_status zn_tokens_read_begins(const zn_token_source *source, int64_t first, int64_t n_tokens, uint8_t *begins)
{
    ZN_TRY(check_range(source, first, n_tokens));
    while (n_tokens > 0) {
        const struct data_file *file = find_file(source, first);
        int64_t from = first - file->first, n = file->n_tokens - from;
        if (n > n_tokens)
            n = n_tokens;
        memset(begins, 0, (size_t)n);
        if (file->cache.path)
            ZN_TRY(zn_token_cache_marks(&file->cache, from, n, begins));
        for (int64_t i = 0; i < n; i++)
            begins[i] = (begins[i] & ZN_MARK_BEGINS) != 0 || from + i == 0;
        first += n;
        begins += n;
        n_tokens -= n;
    }
    return ZN_OK;
}

zn_status zn_tokens_read(const zn_token_source *source, int64_t first, int64_t n_tokens, int32_t *out)
{
    ZN_TRY(check_range(source, first, n_tokens));
    while (n_tokens > 0) {
        int64_t n;
        ZN_TRY(read_file(source, find_file(source, first), first, n_tokens, out, &n));
        first += n;
        out += n;
        n_tokens -= n;
    }
    return ZN_OK;
}

zn_status zn_tokens_hash(const zn_token_source *source, uint64_t *hash)
{
    enum { CHUNK = 32 * 1024 };
    int32_t ids[CHUNK];
    uint8_t counts[CHUNK];
    struct token_hash h;
    ZN_TRY(token_hash_init(&h));
    zn_status status = ZN_OK;
    for (int64_t at = 0; at < source->n_tokens && status == ZN_OK; at += CHUNK) {
        int64_t n = source->n_tokens - at < CHUNK ? source->n_tokens - at : CHUNK;
        status = zn_tokens_read(source, at, n, ids);
        if (status == ZN_OK)
            status = zn_tokens_read_counts(source, at, n, counts);
        if (status == ZN_OK)
            token_hash_add(&h, ids, counts, n);
    }
    *hash = token_hash_fini(&h);
    return status;
}

/* ---- Windows ---- */

static zn_status fail_too_short(const zn_token_source *source, int64_t length)
{
    const char *names[4];
    size_t n = source->n_files;
    for (size_t i = 0; i < n && i < sizeof names / sizeof names[0]; i++)
        names[i] = source->files[i].path;
    zn_text text;
    zn_text_init(&text);
    add_names(&text, names, n);
    zn_status status = zn_text_status(&text);
    if (status == ZN_OK)
        status = zn_fail(ZN_ERR_INPUT, "%s: %lld tokens are too few for one window of length %lld, which takes %lld%s",
                         text.data, (long long)source->n_tokens, (long long)length, (long long)length + 1,
                         source->n_tokens > 2 ? ": give more data or a smaller --seq-len" : ": there is nothing to learn from in it");
    zn_text_fini(&text);
    return status;
}

zn_status zn_tokens_n_windows(const zn_token_source *source, int64_t length, int64_t *n_windows)
{
    if (length < 1 || length >= INT64_MAX)
        return zn_fail(ZN_ERR_USAGE, "a window of %lld tokens is impossible", (long long)length);
    if (source->n_tokens <= length)
        return fail_too_short(source, length);
    *n_windows = (source->n_tokens - 1) / length;
    return ZN_OK;
}

zn_status zn_tokens_window(const zn_token_source *source, int64_t i, int64_t length, int32_t *out,
                           uint8_t *counts)
{
    int64_t n_windows = 0;
    ZN_TRY(zn_tokens_n_windows(source, length, &n_windows));
    if (i < 0 || i >= n_windows)
        return zn_fail(ZN_ERR_INTERNAL, "window %lld is outside the %lld of the data", (long long)i,
                       (long long)n_windows);
    if (counts)
        ZN_TRY(zn_tokens_read_counts(source, i * length, length + 1, counts));
    return zn_tokens_read(source, i * length, length + 1, out);
}
