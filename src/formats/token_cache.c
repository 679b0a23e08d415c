/* Keys, and files of tokens with their masks. */
#include "formats/token_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/files.h"
#include "formats/token_format.h"

enum { CACHE_VERSION = 2, MASK_MAGIC = 0x4b4d4e5a /* "ZNMK" */, MASK_BUFFER = 16 * 1024, MARKS_A_BYTE = 4 };

struct mask_header {
    uint32_t magic, version;
    uint64_t key_low, key_high;
    uint64_t n_tokens, n_counting, n_examples;
};

static uint64_t mask_file_bytes(uint64_t n_tokens)
{
    return sizeof(struct mask_header) + (n_tokens + MARKS_A_BYTE - 1) / MARKS_A_BYTE;
}

/* ---- Keys ---- */

static void add_bytes(XXH3_state_t *state, const void *bytes, size_t n)
{
    uint64_t length = n; /* so that two texts never read as one */
    XXH3_128bits_update(state, &length, sizeof length);
    XXH3_128bits_update(state, bytes, n);
}

static zn_status add_contents(XXH3_state_t *state, const char *folder, const char *name)
{
    char *path, *data;
    size_t n;
    ZN_TRY(zn_path_join(folder, name, &path));
    bool found;
    zn_status status = zn_path_look(path, &found);
    add_bytes(state, name, strlen(name));
    if (status == ZN_OK && found) {
        status = zn_file_read(path, (size_t)1 << 30, &data, &n);
        if (status == ZN_OK) {
            add_bytes(state, data, n);
            free(data);
        }
    }
    free(path);
    return status;
}

static zn_status add_file(XXH3_state_t *state, const struct zn_data_file *file)
{
    int fd;
    uint64_t n_bytes;
    struct stat s;
    ZN_TRY(zn_file_open(file->path, &fd, &n_bytes));
    zn_status status = fstat(fd, &s) == 0 ? ZN_OK : zn_fail(ZN_ERR_IO, "%s: cannot read its time: %s", file->path, strerror(errno));
    close(fd);
    ZN_TRY(status);
    const int64_t facts[] = {file->kind, (int64_t)n_bytes, s.st_mtim.tv_sec, s.st_mtim.tv_nsec};
    add_bytes(state, file->path, strlen(file->path));
    add_bytes(state, facts, sizeof facts);
    return ZN_OK;
}

static zn_status hash_all(XXH3_state_t *state, const struct zn_cache_options *options,
                          const struct zn_data_file *files, size_t n_files)
{
    static const char *const names[] = {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja",
                                        "special_tokens_map.json"};
    const int64_t facts[] = {CACHE_VERSION, options->vocab_size, options->end_of_text, options->bytes};
    add_bytes(state, facts, sizeof facts);
    for (size_t i = 0; i < sizeof names / sizeof names[0] && !options->bytes; i++)
        ZN_TRY(add_contents(state, options->model_folder, names[i]));
    for (size_t i = 0; i < options->n_map; i++)
        add_bytes(state, options->map[i], strlen(options->map[i]));
    if (options->pairs)
        add_bytes(state, "pairs", 5);
    for (size_t i = 0; i < n_files; i++)
        ZN_TRY(add_file(state, &files[i]));
    return ZN_OK;
}

zn_status zn_cache_key_of(const struct zn_cache_options *options, const struct zn_data_file *files, size_t n_files,
                          struct zn_cache_key *key)
{
    XXH3_state_t *state = XXH3_createState();
    if (!state)
        return zn_fail(ZN_ERR_MEMORY, "out of memory for a hash");
    XXH3_128bits_reset(state);
    zn_status status = hash_all(state, options, files, n_files);
    XXH128_hash_t hash = XXH3_128bits_digest(state);
    XXH3_freeState(state);
    *key = (struct zn_cache_key){hash.low64, hash.high64};
    return status;
}

static zn_status cache_path(const char *folder, const struct zn_cache_key *key, zn_cache_part part, const char *end,
                            char **path)
{
    static const char *const parts[] = {[ZN_CACHE_DOCUMENTS] = "", [ZN_CACHE_EXAMPLES] = "-examples"};
    char name[64];
    snprintf(name, sizeof name, "%016llx%016llx%s%s", (unsigned long long)key->high, (unsigned long long)key->low,
             parts[part], end);
    return zn_path_join(folder, name, path);
}

/* ---- Reading ---- */

void zn_token_cache_close(struct zn_token_cache *cache)
{
    if (cache->ids_fd >= 0)
        close(cache->ids_fd);
    if (cache->mask_fd >= 0)
        close(cache->mask_fd);
    free(cache->path);
    *cache = (struct zn_token_cache){.ids_fd = -1, .mask_fd = -1};
}

/* Whether the two open files fit the key and each other. */
static zn_status check_cache(struct zn_token_cache *cache, uint64_t ids_bytes, uint64_t mask_bytes,
                             const struct zn_cache_key *key, bool *fits)
{
    uint32_t ids[3];
    struct mask_header mask;
    *fits = false;
    if (ids_bytes < TOKEN_HEADER_BYTES || mask_bytes < sizeof mask)
        return ZN_OK;
    ZN_TRY(zn_pread_all(cache->ids_fd, cache->path, ids, sizeof ids, 0));
    ZN_TRY(zn_pread_all(cache->mask_fd, cache->path, &mask, sizeof mask, 0));
    cache->id_bytes = ids[0] == TOKEN_MAGIC_16 ? 2 : 4;
    cache->n_tokens = ids[2];
    cache->n_counting = (int64_t)mask.n_counting;
    cache->n_examples = (int64_t)mask.n_examples;
    *fits = mask.magic == MASK_MAGIC && mask.version == CACHE_VERSION && mask.key_low == key->low &&
            mask.key_high == key->high && mask.n_tokens == ids[2] && mask.n_counting <= mask.n_tokens && mask.n_examples <= mask.n_tokens &&
            (ids[0] == TOKEN_MAGIC_16 || ids[0] == TOKEN_MAGIC_32) &&
            ids_bytes == TOKEN_HEADER_BYTES + (uint64_t)ids[2] * cache->id_bytes &&
            mask_bytes == mask_file_bytes(ids[2]);
    return ZN_OK;
}

zn_status zn_token_cache_open(const char *folder, const struct zn_cache_key *key, zn_cache_part part,
                              struct zn_token_cache *cache, bool *found)
{
    struct zn_token_cache c = {.ids_fd = -1, .mask_fd = -1};
    char *mask_path;
    uint64_t ids_bytes, mask_bytes;
    *found = false;
    ZN_TRY(cache_path(folder, key, part, ".mask", &mask_path));
    zn_status status = cache_path(folder, key, part, ".bin", &c.path);
    bool has_mask = false, has_tokens = false;
    if (status == ZN_OK)
        status = zn_path_look(mask_path, &has_mask);
    if (status == ZN_OK)
        status = zn_path_look(c.path, &has_tokens);
    if (status == ZN_OK && has_mask && has_tokens) {
        status = zn_file_open(c.path, &c.ids_fd, &ids_bytes);
        if (status == ZN_OK)
            status = zn_file_open(mask_path, &c.mask_fd, &mask_bytes);
        if (status == ZN_OK)
            status = check_cache(&c, ids_bytes, mask_bytes, key, found);
    }
    free(mask_path);
    if (status != ZN_OK || !*found) {
        *found = false;
        zn_token_cache_close(&c);
        return status;
    }
    *cache = c;
    return ZN_OK;
}

zn_status zn_token_cache_marks(const struct zn_token_cache *cache, int64_t first, int64_t n, uint8_t *marks)
{
    uint8_t bits[4096];
    for (int64_t done = 0; done < n;) {
        int64_t at = first + done, chunk = (int64_t)sizeof bits * MARKS_A_BYTE - at % MARKS_A_BYTE;
        chunk = chunk < n - done ? chunk : n - done;
        ZN_TRY(zn_pread_all(cache->mask_fd, cache->path, bits,
                            (size_t)((at % MARKS_A_BYTE + chunk + MARKS_A_BYTE - 1) / MARKS_A_BYTE),
                            sizeof(struct mask_header) + (uint64_t)at / MARKS_A_BYTE));
        for (int64_t i = 0; i < chunk; i++)
            marks[done + i] = bits[(at % MARKS_A_BYTE + i) / MARKS_A_BYTE] >> 2 * ((at + i) % MARKS_A_BYTE) & 3;
        done += chunk;
    }
    return ZN_OK;
}

zn_status zn_token_cache_counts(const struct zn_token_cache *cache, int64_t first, int64_t n, uint8_t *counts)
{
    ZN_TRY(zn_token_cache_marks(cache, first, n, counts));
    for (int64_t i = 0; i < n; i++)
        counts[i] &= ZN_MARK_COUNTS;
    return ZN_OK;
}

/* ---- Writing ---- */

struct zn_cache_writer {
    zn_token_writer *ids;
    zn_new_file *mask;
    struct zn_cache_key key;
    char *path;
    zn_cache_part part;
    int64_t n_tokens, n_counting, n_examples;
    uint8_t begins;   /* the mark of the next token */
    uint64_t mask_at; /* where the buffer goes */
    uint8_t bits[MASK_BUFFER];
    size_t n_marks; /* in the buffer */
};

static zn_status open_files(zn_cache_writer *w, const char *folder, int64_t vocab_size)
{
    if (!folder) {
        ZN_TRY(zn_new_file_create_nameless(&w->mask));
        ZN_TRY(zn_token_writer_create(NULL, vocab_size, &w->ids));
        w->path = strdup("(temporary tokens)");
        return w->path ? ZN_OK : zn_fail(ZN_ERR_MEMORY, "out of memory for the tokens");
    }
    char *mask_path;
    ZN_TRY(zn_folder_create(folder));
    ZN_TRY(cache_path(folder, &w->key, w->part, ".bin", &w->path));
    ZN_TRY(zn_token_writer_create(w->path, vocab_size, &w->ids));
    ZN_TRY(cache_path(folder, &w->key, w->part, ".mask", &mask_path));
    zn_status status = zn_new_file_create(mask_path, &w->mask);
    free(mask_path);
    return status;
}

zn_status zn_cache_writer_create(const char *folder, const struct zn_cache_key *key, zn_cache_part part,
                                 int64_t vocab_size, zn_cache_writer **writer)
{
    zn_cache_writer *w = calloc(1, sizeof *w);
    if (!w)
        return zn_fail(ZN_ERR_MEMORY, "out of memory for the tokens");
    w->key = *key;
    w->part = part;
    w->mask_at = sizeof(struct mask_header);
    zn_status status = open_files(w, folder, vocab_size);
    if (status != ZN_OK) {
        zn_cache_writer_destroy(w);
        return status;
    }
    *writer = w;
    return ZN_OK;
}

void zn_cache_writer_destroy(zn_cache_writer *writer)
{
    if (!writer)
        return;
    zn_token_writer_destroy(writer->ids);
    zn_new_file_destroy(writer->mask);
    free(writer->path);
    free(writer);
}

static zn_status flush_bits(zn_cache_writer *w)
{
    size_t n_bytes = (w->n_marks + MARKS_A_BYTE - 1) / MARKS_A_BYTE;
    ZN_TRY(zn_new_file_write(w->mask, w->bits, n_bytes, w->mask_at));
    w->mask_at += n_bytes;
    w->n_marks = 0;
    memset(w->bits, 0, sizeof w->bits);
    return ZN_OK;
}

void zn_cache_writer_begin_example(zn_cache_writer *writer)
{
    writer->begins = ZN_MARK_BEGINS;
}

zn_status zn_cache_writer_append(zn_cache_writer *writer, const int32_t *ids, const uint8_t *counts, size_t n)
{
    ZN_TRY(zn_token_writer_append(writer->ids, ids, (int64_t)n));
    for (size_t i = 0; i < n; i++) {
        if (writer->n_marks == MARKS_A_BYTE * sizeof writer->bits)
            ZN_TRY(flush_bits(writer));
        uint8_t mark = (uint8_t)((counts[i] ? ZN_MARK_COUNTS : 0) | writer->begins);
        writer->bits[writer->n_marks / MARKS_A_BYTE] |= (uint8_t)(mark << 2 * (writer->n_marks % MARKS_A_BYTE));
        writer->n_marks++;
        writer->n_counting += counts[i];
        writer->n_examples += writer->begins != 0;
        writer->begins = 0;
    }
    writer->n_tokens += (int64_t)n;
    return ZN_OK;
}

zn_status zn_cache_writer_finish(zn_cache_writer *writer, struct zn_token_cache *cache)
{
    const struct mask_header header = {.magic = MASK_MAGIC, .version = CACHE_VERSION, .key_low = writer->key.low,
                                       .key_high = writer->key.high, .n_tokens = (uint64_t)writer->n_tokens,
                                       .n_counting = (uint64_t)writer->n_counting,
                                       .n_examples = (uint64_t)writer->n_examples};
    struct zn_token_cache c = {.ids_fd = -1, .mask_fd = -1, .n_tokens = writer->n_tokens,
                               .n_counting = writer->n_counting, .n_examples = writer->n_examples,
                               .id_bytes = zn_token_writer_id_bytes(writer->ids)};
    zn_status status = flush_bits(writer);
    if (status == ZN_OK)
        status = zn_new_file_write(writer->mask, &header, sizeof header, 0);
    if (status == ZN_OK)
        status = zn_token_writer_reader(writer->ids, &c.ids_fd);
    if (status == ZN_OK)
        status = zn_new_file_reader(writer->mask, &c.mask_fd);
    if (status == ZN_OK)
        status = zn_token_writer_finish(writer->ids);
    if (status == ZN_OK)
        status = zn_new_file_sync(writer->mask);
    if (status == ZN_OK)
        status = zn_new_file_publish(writer->mask);
    if (status != ZN_OK) {
        zn_token_cache_close(&c);
        return status;
    }
    c.path = writer->path;
    writer->path = NULL;
    *cache = c;
    return ZN_OK;
}
