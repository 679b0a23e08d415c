/* Hashing files into a list. */
#include "checkpoint/contents.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/files.h"
#include "formats/safetensors.h"

enum { READ_BYTES = 1024 * 1024 };

void zn_contents_init(zn_contents *c)
{
    *c = (zn_contents){0};
}

void contents_file_fini(struct zn_listed_file *file)
{
    for (size_t i = 0; i < file->n_segments; i++)
        free(file->segments[i].name);
    free(file->segments);
    free(file->blocks);
    free(file->name);
    *file = (struct zn_listed_file){0};
}

void zn_contents_fini(zn_contents *c)
{
    for (size_t i = 0; i < c->n_files; i++)
        contents_file_fini(&c->files[i]);
    free(c->files);
    zn_contents_init(c);
}

static zn_status no_memory(const char *name)
{
    return zn_fail(ZN_ERR_MEMORY, "%s: out of memory for its hashes", name);
}

/* ---- Hashes ---- */

/* The end of a hash that covers what was read since the last one. */
static uint64_t take_hash(XXH3_state_t *state)
{
    uint64_t hash = XXH3_64bits_digest(state);
    XXH3_64bits_reset(state);
    return hash;
}

static uint64_t lesser(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* One pass: pieces end where a block or a segment ends. */
static zn_status hash_pieces(int fd, const char *path, struct zn_listed_file *f, XXH3_state_t *block,
                             XXH3_state_t *segment, unsigned char *buffer)
{
    uint64_t at = 0, segment_end = 0;
    size_t next = 0; /* segment; the one being read is next - 1 */
    XXH3_64bits_reset(block);
    XXH3_64bits_reset(segment);
    while (at < f->n_bytes || next < f->n_segments) {
        if (at == segment_end && next < f->n_segments) {
            segment_end = at + f->segments[next++].n_bytes;
            if (at == segment_end)
                f->segments[next - 1].hash = take_hash(segment);
            continue;
        }
        uint64_t stop = lesser(f->n_bytes, (at / ZN_BLOCK_BYTES + 1) * ZN_BLOCK_BYTES);
        if (f->n_segments > 0)
            stop = lesser(stop, segment_end);
        size_t n = (size_t)lesser(stop - at, READ_BYTES);
        ZN_TRY(zn_pread_all(fd, path, buffer, n, at));
        XXH3_64bits_update(block, buffer, n);
        XXH3_64bits_update(segment, buffer, n);
        at += n;
        if (at % ZN_BLOCK_BYTES == 0 || at == f->n_bytes)
            f->blocks[(at - 1) / ZN_BLOCK_BYTES] = take_hash(block);
        if (f->n_segments > 0 && at == segment_end)
            f->segments[next - 1].hash = take_hash(segment);
    }
    return ZN_OK;
}

zn_status contents_hash(int fd, const char *path, struct zn_listed_file *file)
{
    XXH3_state_t *block = XXH3_createState(), *segment = XXH3_createState();
    unsigned char *buffer = malloc(READ_BYTES);
    zn_status status = block && segment && buffer ? hash_pieces(fd, path, file, block, segment, buffer)
                                                  : no_memory(path);
    free(buffer);
    XXH3_freeState(segment);
    XXH3_freeState(block);
    return status;
}

/* ---- Adding ---- */

static bool is_safetensors(const char *name)
{
    static const char end[] = ".safetensors";
    size_t n = strlen(name), m = sizeof end - 1;
    return n > m && strcmp(name + n - m, end) == 0;
}

/* The header ends where the first tensor begins; an opened file has no holes. */
static zn_status list_segments(const char *path, struct zn_listed_file *f)
{
    zn_st_file *file;
    ZN_TRY(zn_st_open(path, &file));
    size_t n = zn_st_n_tensors(file);
    zn_status status = ZN_OK;
    f->segments = calloc(n + 1, sizeof *f->segments);
    if (!f->segments)
        status = no_memory(path);
    for (size_t i = 0; i <= n && status == ZN_OK; i++) {
        const struct zn_st_tensor *t = i > 0 ? zn_st_tensor_at(file, i - 1) : NULL;
        uint64_t header = n > 0 ? zn_st_tensor_at(file, 0)->offset : f->n_bytes;
        struct zn_segment *s = &f->segments[f->n_segments];
        s->n_bytes = t ? t->n_bytes : header;
        s->name = strdup(t ? t->name : ZN_HEADER_SEGMENT);
        if (!s->name)
            status = no_memory(path);
        else
            f->n_segments++;
    }
    zn_st_close(file);
    return status;
}

static zn_status list_file(const char *path, const char *name, struct zn_listed_file *f)
{
    int fd;
    ZN_TRY(zn_file_open(path, &fd, &f->n_bytes));
    f->n_blocks = (size_t)((f->n_bytes + ZN_BLOCK_BYTES - 1) / ZN_BLOCK_BYTES);
    f->blocks = calloc(f->n_blocks + 1, sizeof *f->blocks);
    f->name = strdup(name);
    zn_status status = f->blocks && f->name ? ZN_OK : no_memory(path);
    if (status == ZN_OK && is_safetensors(name))
        status = list_segments(path, f);
    if (status == ZN_OK)
        status = contents_hash(fd, path, f);
    close(fd);
    return status;
}

static zn_status grow(zn_contents *c, size_t n_more)
{
    if (c->n_files + n_more <= c->capacity)
        return ZN_OK;
    size_t capacity = 2 * c->capacity + n_more;
    struct zn_listed_file *larger = realloc(c->files, capacity * sizeof *larger);
    if (!larger)
        return no_memory(ZN_CONTENTS_NAME);
    c->files = larger;
    c->capacity = capacity;
    return ZN_OK;
}

zn_status zn_contents_add(zn_contents *c, const char *folder, const char *name)
{
    struct zn_listed_file file = {0};
    char *path;
    ZN_TRY(grow(c, 1));
    ZN_TRY(zn_path_join(folder, name, &path));
    zn_status status = list_file(path, name, &file);
    free(path);
    if (status != ZN_OK) {
        contents_file_fini(&file);
        return status;
    }
    c->files[c->n_files++] = file;
    return ZN_OK;
}

zn_status zn_contents_move(zn_contents *c, zn_contents *from)
{
    if (from->n_files == 0)
        return ZN_OK;
    ZN_TRY(grow(c, from->n_files));
    memcpy(c->files + c->n_files, from->files, from->n_files * sizeof *from->files);
    c->n_files += from->n_files;
    from->n_files = 0;
    return ZN_OK;
}

const struct zn_listed_file *zn_contents_find(const zn_contents *c, const char *name)
{
    for (size_t i = 0; i < c->n_files; i++)
        if (strcmp(c->files[i].name, name) == 0)
            return &c->files[i];
    return NULL;
}

uint64_t zn_contents_n_bytes(const zn_contents *c)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < c->n_files; i++)
        sum += c->files[i].n_bytes;
    return sum;
}
