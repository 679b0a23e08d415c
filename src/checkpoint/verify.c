/* Holding the files of a checkpoint to its list. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/files.h"
#include "base/text.h"
#include "checkpoint/contents.h"

enum { READ_BYTES = 1024 * 1024 };

/* ---- Sizes ---- */

static zn_status open_listed(const char *folder, const struct zn_listed_file *f, char **path, int *fd)
{
    uint64_t n_bytes;
    ZN_TRY(zn_path_join(folder, f->name, path));
    zn_status status = zn_file_open(*path, fd, &n_bytes);
    if (status == ZN_OK && n_bytes != f->n_bytes) {
        close(*fd);
        status = zn_fail(ZN_ERR_INPUT, "%s: has %llu bytes, " ZN_CONTENTS_NAME " says %llu", *path,
                         (unsigned long long)n_bytes, (unsigned long long)f->n_bytes);
    }
    if (status != ZN_OK)
        free(*path);
    return status;
}

zn_status zn_contents_check_sizes(const zn_contents *c, const char *folder)
{
    for (size_t i = 0; i < c->n_files; i++) {
        char *path;
        int fd;
        ZN_TRY(open_listed(folder, &c->files[i], &path, &fd));
        close(fd);
        free(path);
    }
    return ZN_OK;
}

/* ---- Blocks ---- */

static zn_status hash_range(int fd, const char *path, uint64_t from, uint64_t n_bytes, uint64_t *hash)
{
    XXH3_state_t *state = XXH3_createState();
    unsigned char *buffer = malloc(READ_BYTES);
    zn_status status = ZN_OK;
    if (!state || !buffer)
        status = zn_fail(ZN_ERR_MEMORY, "%s: out of memory to check it", path);
    else
        XXH3_64bits_reset(state);
    while (status == ZN_OK && n_bytes > 0) {
        size_t n = n_bytes < READ_BYTES ? (size_t)n_bytes : READ_BYTES;
        status = zn_pread_all(fd, path, buffer, n, from);
        if (status == ZN_OK)
            XXH3_64bits_update(state, buffer, n);
        from += n;
        n_bytes -= n;
    }
    if (status == ZN_OK)
        *hash = XXH3_64bits_digest(state);
    free(buffer);
    XXH3_freeState(state);
    return status;
}

/* Which tensor of the bytes from … to is not what it was: its name is `found`, or NULL. */
static zn_status find_segment(int fd, const char *path, const struct zn_listed_file *f, uint64_t from, uint64_t to,
                              const char **found)
{
    uint64_t at = 0;
    *found = NULL;
    for (size_t i = 0; i < f->n_segments && !*found; i++) {
        const struct zn_segment *s = &f->segments[i];
        uint64_t hash = s->hash;
        if (at < to && at + s->n_bytes > from)
            ZN_TRY(hash_range(fd, path, at, s->n_bytes, &hash));
        if (hash != s->hash)
            *found = s->name;
        at += s->n_bytes;
    }
    return ZN_OK;
}

static zn_status fail_block(int fd, const char *path, const struct zn_listed_file *f, uint64_t from, uint64_t to)
{
    const char *name;
    ZN_TRY(find_segment(fd, path, f, from, to, &name));
    if (!name)
        return zn_fail(ZN_ERR_INPUT, "%s: damaged between bytes %llu and %llu", path, (unsigned long long)from,
                       (unsigned long long)to);
    bool is_header = strcmp(name, ZN_HEADER_SEGMENT) == 0;
    return zn_fail(ZN_ERR_INPUT, "%s: damaged: %s%s%s", path, is_header ? "its header" : "tensor '",
                   is_header ? "" : zn_shown(name).text, is_header ? "" : "'");
}

/* Blocks first … end of a file. */
static zn_status check_file(const char *folder, const struct zn_listed_file *f, uint64_t first, uint64_t end)
{
    char *path;
    int fd;
    ZN_TRY(open_listed(folder, f, &path, &fd));
    zn_status status = ZN_OK;
    for (uint64_t i = first; i < end && status == ZN_OK; i++) {
        uint64_t from = i * ZN_BLOCK_BYTES, hash;
        uint64_t n = f->n_bytes - from < ZN_BLOCK_BYTES ? f->n_bytes - from : ZN_BLOCK_BYTES;
        status = hash_range(fd, path, from, n, &hash);
        if (status == ZN_OK && hash != f->blocks[i])
            status = fail_block(fd, path, f, from, from + n);
    }
    close(fd);
    free(path);
    return status;
}

uint64_t zn_contents_n_blocks(const zn_contents *c)
{
    uint64_t n = 0;
    for (size_t i = 0; i < c->n_files; i++)
        n += c->files[i].n_blocks;
    return n;
}

zn_status zn_contents_check_blocks(const zn_contents *c, const char *folder, uint64_t first, uint64_t n)
{
    uint64_t before = 0, end = first + n;
    for (size_t i = 0; i < c->n_files && before < end; i++) {
        const struct zn_listed_file *f = &c->files[i];
        uint64_t from = first > before ? first - before : 0;
        uint64_t to = end - before < f->n_blocks ? end - before : f->n_blocks;
        if (from < to)
            ZN_TRY(check_file(folder, f, from, to));
        before += f->n_blocks;
    }
    return ZN_OK;
}

zn_status zn_contents_check_file(const zn_contents *c, const char *folder, const char *name)
{
    const struct zn_listed_file *f = zn_contents_find(c, name);
    if (!f)
        return zn_fail(ZN_ERR_INPUT, "%s: " ZN_CONTENTS_NAME " does not list %s", folder, name);
    return check_file(folder, f, 0, f->n_blocks);
}

/* ---- Everything, without stopping at the first ---- */

/* A copy of the list's entry to hash the file into. */
static zn_status copy_shape(const struct zn_listed_file *f, struct zn_listed_file *copy)
{
    *copy = (struct zn_listed_file){.n_bytes = f->n_bytes, .n_blocks = f->n_blocks};
    copy->blocks = calloc(f->n_blocks + 1, sizeof *copy->blocks);
    copy->segments = calloc(f->n_segments + 1, sizeof *copy->segments);
    if (!copy->blocks || !copy->segments) {
        contents_file_fini(copy);
        return zn_fail(ZN_ERR_MEMORY, "%s: out of memory to check it", f->name);
    }
    copy->n_segments = f->n_segments;
    for (size_t i = 0; i < f->n_segments; i++)
        copy->segments[i].n_bytes = f->segments[i].n_bytes;
    return ZN_OK;
}

static void tell_differences(const struct zn_listed_file *f, const struct zn_listed_file *is, zn_tell_damage tell,
                             void *self)
{
    char what[96];
    bool told = false;
    for (size_t i = 0; i < f->n_segments; i++) {
        if (f->segments[i].hash == is->segments[i].hash)
            continue;
        bool is_header = strcmp(f->segments[i].name, ZN_HEADER_SEGMENT) == 0;
        tell(self, f->name, is_header ? "" : f->segments[i].name, is_header ? "header damaged" : "damaged");
        told = true;
    }
    for (size_t i = 0; i < f->n_blocks && !told; i++) {
        if (f->blocks[i] == is->blocks[i])
            continue;
        snprintf(what, sizeof what, "damaged in block %zu of 16 MiB", i);
        tell(self, f->name, "", what);
    }
}

static zn_status verify_file(const char *folder, const struct zn_listed_file *f, zn_tell_damage tell, void *self)
{
    char *path;
    int fd;
    struct zn_listed_file is;
    zn_status status = open_listed(folder, f, &path, &fd);
    if (status == ZN_ERR_MEMORY)
        return status;
    if (status != ZN_OK) {
        const char *text = zn_error_message(), *name = strstr(text, f->name);
        tell(self, f->name, "", name ? name + strlen(f->name) + strspn(name + strlen(f->name), ": ") : text);
        return ZN_OK;
    }
    status = copy_shape(f, &is);
    if (status == ZN_OK) {
        status = contents_hash(fd, path, &is);
        if (status == ZN_OK)
            tell_differences(f, &is, tell, self);
        else if (status == ZN_ERR_IO) /* a disk that cannot read it any more */
            tell(self, f->name, "", zn_error_message());
        contents_file_fini(&is);
    }
    close(fd);
    free(path);
    return status == ZN_ERR_IO ? ZN_OK : status;
}

zn_status zn_contents_verify(const zn_contents *c, const char *folder, zn_tell_damage tell, void *self)
{
    for (size_t i = 0; i < c->n_files; i++)
        ZN_TRY(verify_file(folder, &c->files[i], tell, self));
    return ZN_OK;
}
