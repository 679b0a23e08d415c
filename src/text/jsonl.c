/* Lines or elements of an array from a file in chunks, and rows from them. */
#include "text/jsonl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"
#include "base/json.h"
#include "text/row.h"
#include "text/utf8.h"

enum { CHUNK = 64 * 1024 };

struct zn_jsonl {
    struct zn_row_options options;
    int fd; /* -1: a part in memory */
    char *path;
    char *place;             /* "path:line" of the row */
    int64_t line, next_line; /* of the row's begin; of what is read next */
    uint64_t n_read;
    int64_t n_replaced;
    struct json_array array; /* where the reader is, in a file that is one */
    bool is_last;
    char *line_data; /* the row as text; grows up to the limit */
    size_t line_bytes, line_capacity;
    char *buffer; /* for chunks of a file */
    const char *chunk;
    size_t chunk_at, chunk_bytes;
    zn_json *json; /* holds the strings of the row */
    struct row_memory memory;
    struct zn_row row;
};

static zn_status create(const char *path, const struct zn_row_options *options, zn_jsonl **rows)
{
    zn_jsonl *r = calloc(1, sizeof *r);
    if (!r)
        return zn_fail(ZN_ERR_MEMORY, "%s: out of memory", path);
    r->fd = -1;
    r->next_line = 1;
    if (options)
        r->options = *options;
    /* Room for ":", 19 digits and NUL. */
    if (!(r->path = strdup(path)) || !(r->place = malloc(strlen(path) + 24))) {
        zn_jsonl_close(r);
        return zn_fail(ZN_ERR_MEMORY, "%s: out of memory", path);
    }
    strcpy(r->place, path);
    *rows = r;
    return ZN_OK;
}

static zn_status fill_chunk(zn_jsonl *r)
{
    ssize_t got = 0;
    while (r->fd >= 0 && (got = read(r->fd, r->buffer, CHUNK)) < 0 && errno == EINTR)
        ;
    if (got < 0)
        return zn_fail(ZN_ERR_IO, "%s: cannot read: %s", r->place, strerror(errno));
    r->chunk_at = 0;
    r->chunk_bytes = (size_t)got;
    r->n_read += (uint64_t)got;
    return ZN_OK;
}

static zn_status open_file(zn_jsonl *r)
{
    uint64_t n_bytes;
    r->is_last = true;
    r->chunk = r->buffer = malloc(CHUNK);
    if (!r->buffer)
        return zn_fail(ZN_ERR_MEMORY, "%s: out of memory", r->path);
    ZN_TRY(zn_file_open(r->path, &r->fd, &n_bytes));
    ZN_TRY(fill_chunk(r));
    if (json_array_begins(r->chunk, r->chunk_bytes))
        r->array.state = JSON_ARRAY_BEFORE;
    return ZN_OK;
}

zn_status zn_jsonl_open(const char *path, const struct zn_row_options *options, zn_jsonl **rows)
{
    zn_jsonl *r = NULL;
    ZN_TRY(create(path, options, &r));
    zn_status status = open_file(r);
    if (status != ZN_OK) {
        zn_jsonl_close(r);
        return status;
    }
    *rows = r;
    return ZN_OK;
}

zn_status zn_jsonl_open_part(const struct zn_jsonl_part *part, const struct zn_row_options *options, zn_jsonl **rows)
{
    zn_jsonl *r = NULL;
    ZN_TRY(create(part->path, options, &r));
    r->next_line = part->first_line;
    r->array = part->array;
    r->is_last = part->is_last;
    r->chunk = part->data;
    r->chunk_bytes = r->n_read = part->n_bytes;
    *rows = r;
    return ZN_OK;
}

void zn_jsonl_close(zn_jsonl *rows)
{
    if (!rows)
        return;
    if (rows->fd >= 0)
        close(rows->fd);
    zn_json_destroy(rows->json);
    row_memory_fini(&rows->memory);
    free(rows->buffer);
    free(rows->line_data);
    free(rows->place);
    free(rows->path);
    free(rows);
}

const char *zn_jsonl_place(const zn_jsonl *rows)
{
    return rows->place;
}

uint64_t zn_jsonl_n_bytes(const zn_jsonl *rows)
{
    return rows->n_read;
}

int64_t zn_jsonl_n_replaced(const zn_jsonl *rows)
{
    return rows->n_replaced;
}

/* ---- Lines ---- */

static void begin_row(zn_jsonl *r)
{
    r->line = r->next_line;
    sprintf(r->place, "%s:%lld", r->path, (long long)r->line);
    r->line_bytes = 0;
}

static zn_status add_to_line(zn_jsonl *r, const char *data, size_t n)
{
    if (n > ZN_JSONL_MAX_LINE - r->line_bytes)
        return zn_fail(ZN_ERR_INPUT, "%s: the row has more than the %d bytes that one may have", r->place,
                       ZN_JSONL_MAX_LINE);
    if (r->line_bytes + n > r->line_capacity) {
        size_t capacity = 2 * (r->line_bytes + n);
        char *larger = realloc(r->line_data, capacity);
        if (!larger)
            return zn_fail(ZN_ERR_MEMORY, "%s: out of memory for a row of %zu bytes", r->place, capacity);
        r->line_data = larger;
        r->line_capacity = capacity;
    }
    if (n > 0)
        memcpy(r->line_data + r->line_bytes, data, n);
    r->line_bytes += n;
    return ZN_OK;
}

/* The next line, whatever is in it; *is_end when there is none. */
static zn_status read_line(zn_jsonl *r, bool *is_end)
{
    begin_row(r);
    r->next_line++;
    *is_end = false;
    for (;;) {
        if (r->chunk_at == r->chunk_bytes) {
            ZN_TRY(fill_chunk(r));
            if (r->chunk_bytes == 0) {
                *is_end = r->line_bytes == 0;
                return ZN_OK;
            }
        }
        const char *from = r->chunk + r->chunk_at;
        size_t left = r->chunk_bytes - r->chunk_at;
        const char *end = memchr(from, '\n', left);
        size_t n = end ? (size_t)(end - from) : left;
        ZN_TRY(add_to_line(r, from, n));
        r->chunk_at += n + (end != NULL);
        if (end)
            return ZN_OK;
    }
}

static bool is_blank(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (text[i] != ' ' && text[i] != '\t' && text[i] != '\r')
            return false;
    return true;
}

/* ---- Elements ---- */

static int64_t count_lines(const char *text, size_t n)
{
    int64_t count = 0;
    for (const char *end = text + n; (text = memchr(text, '\n', (size_t)(end - text))) != NULL; text++)
        count++;
    return count;
}

/* The bytes of an array are at their end, between rows or in one. */
static zn_status check_array_end(const zn_jsonl *r)
{
    if (r->line_bytes > 0)
        return zn_fail(ZN_ERR_INPUT, "%s: the file ends inside of this row", r->place);
    if (r->is_last && r->array.state != JSON_ARRAY_END)
        return zn_fail(ZN_ERR_INPUT, "%s: the array of rows has no end", r->place);
    return ZN_OK;
}

/* The next object of the array; *is_end when there is none. */
static zn_status read_element(zn_jsonl *r, bool *is_end)
{
    bool is_whole = false;
    begin_row(r);
    *is_end = false;
    while (!is_whole) {
        size_t n_skipped, n_taken;
        if (r->chunk_at == r->chunk_bytes) {
            ZN_TRY(fill_chunk(r));
            if (r->chunk_bytes == 0) {
                *is_end = true;
                return check_array_end(r);
            }
        }
        const char *from = r->chunk + r->chunk_at;
        bool fits = json_array_next(&r->array, from, r->chunk_bytes - r->chunk_at, &n_skipped, &n_taken, &is_whole);
        r->next_line += count_lines(from, n_skipped);
        if (r->line_bytes == 0)
            begin_row(r);
        if (!fits)
            return zn_fail(ZN_ERR_INPUT, "%s: '%c' cannot stand here: the file is an array of rows, and each is an object",
                           r->place, from[n_skipped] > 0x20 && from[n_skipped] < 0x7f ? from[n_skipped] : '?');
        ZN_TRY(add_to_line(r, from + n_skipped, n_taken));
        r->next_line += count_lines(from + n_skipped, n_taken);
        r->chunk_at += n_skipped + n_taken;
    }
    return ZN_OK;
}

/* ---- Rows ---- */

/* A file named .json is meant to be an array. */
static bool is_named_json(const char *path)
{
    size_t n = strlen(path);
    return n > 5 && strcmp(path + n - 5, ".json") == 0;
}

static zn_status parse_text(zn_jsonl *r, const char *text, size_t n)
{
    int64_t n_replaced = 0;
    zn_status status = zn_json_load_row(text, n, r->path, r->line, &r->json, &n_replaced);
    r->n_replaced += n_replaced;
    if (status == ZN_ERR_INPUT && r->line == 1 && r->array.state == JSON_ARRAY_NONE && is_named_json(r->path))
        return zn_fail(status, "%s: its first line is no row: a .json file is an array of rows, or has a row a line "
                       "(rows inside of an object are not found)", r->place);
    return status;
}

static zn_status parse_row(zn_jsonl *r)
{
    const char *text = r->line_data;
    size_t n = r->line_bytes;
    if (r->line == 1 && n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) { /* the mark that some editors write */
        text += 3;
        n -= 3;
    }
    zn_json_destroy(r->json);
    r->json = NULL;
    size_t n_bad = utf8_count_bad(text, n);
    if (n_bad == 0)
        return parse_text(r, text, n);
    char *repaired = malloc(3 * n + 1);
    if (!repaired)
        return zn_fail(ZN_ERR_MEMORY, "%s: out of memory for a row of %zu bytes", r->place, n);
    r->n_replaced += (int64_t)n_bad;
    zn_status status = parse_text(r, repaired, utf8_repair(text, n, repaired));
    free(repaired);
    return status;
}

zn_status zn_jsonl_next(zn_jsonl *rows, const struct zn_row **row)
{
    bool is_end;
    do {
        bool is_array = rows->array.state != JSON_ARRAY_NONE;
        ZN_TRY(is_array ? read_element(rows, &is_end) : read_line(rows, &is_end));
        if (is_end) {
            *row = NULL;
            return ZN_OK;
        }
    } while (is_blank(rows->line_data, rows->line_bytes));
    ZN_TRY(parse_row(rows));
    ZN_TRY(row_read(rows->json, &rows->options, &rows->memory, &rows->row));
    *row = &rows->row;
    return ZN_OK;
}
