/* Lines from a file in chunks, and rows from lines. */
#include "formats/jsonl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "formats/utf8.h"

enum { CHUNK = 64 * 1024 };

struct zn_jsonl {
    int fd; /* -1: lines of memory */
    char *path;
    char *place; /* "path:line" */
    int64_t line;
    uint64_t n_read;
    char *line_data; /* the line without its end; grows up to the limit */
    size_t line_bytes, line_capacity;
    char *buffer; /* for chunks of a file */
    const char *chunk;
    size_t chunk_at, chunk_bytes;
    zn_json *json; /* holds the strings of the row */
    struct zn_row row;
    struct zn_chat_message *messages;
    size_t message_capacity;
};

static zn_status create(const char *path, zn_jsonl **rows)
{
    zn_jsonl *r = calloc(1, sizeof *r);
    if (!r)
        return zn_fail(ZN_ERR_MEMORY, "%s: out of memory", path);
    r->fd = -1;
    /* Room for ":", 19 digits and NUL. */
    if (!(r->path = strdup(path)) || !(r->place = malloc(strlen(path) + 24))) {
        zn_jsonl_close(r);
        return zn_fail(ZN_ERR_MEMORY, "%s: out of memory", path);
    }
    strcpy(r->place, path);
    *rows = r;
    return ZN_OK;
}

zn_status zn_jsonl_open(const char *path, zn_jsonl **rows)
{
    zn_jsonl *r = NULL;
    uint64_t n_bytes;
    ZN_TRY(create(path, &r));
    r->chunk = r->buffer = malloc(CHUNK);
    zn_status status = r->buffer ? zn_file_open(path, &r->fd, &n_bytes)
                                 : zn_fail(ZN_ERR_MEMORY, "%s: out of memory", path);
    if (status != ZN_OK) {
        zn_jsonl_close(r);
        return status;
    }
    *rows = r;
    return ZN_OK;
}

zn_status zn_jsonl_open_lines(const char *path, int64_t first_line, const char *data, size_t n_bytes, zn_jsonl **rows)
{
    zn_jsonl *r = NULL;
    ZN_TRY(create(path, &r));
    r->line = first_line - 1;
    r->chunk = data;
    r->chunk_bytes = r->n_read = n_bytes;
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
    free(rows->messages);
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

/* ---- Lines ---- */

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

static zn_status add_to_line(zn_jsonl *r, const char *data, size_t n)
{
    if (n > ZN_JSONL_MAX_LINE - r->line_bytes)
        return zn_fail(ZN_ERR_INPUT, "%s: the line has more than the %d bytes that a row may have", r->place,
                       ZN_JSONL_MAX_LINE);
    if (r->line_bytes + n > r->line_capacity) {
        size_t capacity = 2 * (r->line_bytes + n);
        char *larger = realloc(r->line_data, capacity);
        if (!larger)
            return zn_fail(ZN_ERR_MEMORY, "%s: out of memory for a line of %zu bytes", r->place, capacity);
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
    r->line++;
    sprintf(r->place, "%s:%lld", r->path, (long long)r->line);
    r->line_bytes = 0;
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

/* ---- Rows ---- */

static zn_status parse_line(zn_jsonl *r)
{
    const char *text = r->line_data;
    size_t n = r->line_bytes;
    if (r->line == 1 && n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) { /* the mark that some editors write */
        text += 3;
        n -= 3;
    }
    char *repaired = malloc(3 * n + 1);
    if (!repaired)
        return zn_fail(ZN_ERR_MEMORY, "%s: out of memory for a line of %zu bytes", r->place, n);
    n = utf8_repair(text, n, repaired);
    zn_json_destroy(r->json);
    r->json = NULL;
    zn_status status = zn_json_load_buffer(repaired, n, r->place, &r->json);
    free(repaired);
    return status;
}

static zn_status read_message(zn_json *array, size_t i, struct zn_chat_message *message)
{
    zn_json *object;
    ZN_TRY(zn_json_item_object(array, i, &object));
    ZN_TRY(zn_json_get_string(object, "role", &message->role));
    if (zn_json_has(object, "tool_calls"))
        return zn_json_fail(object, "has 'tool_calls', which training data cannot have yet");
    return zn_json_get_string(object, "content", &message->content);
}

static zn_status read_messages(zn_jsonl *r)
{
    zn_json *array;
    ZN_TRY(zn_json_get_array(r->json, "messages", &array));
    size_t n = zn_json_n_items(array);
    if (n == 0)
        return zn_json_fail(array, "has no message");
    if (n > r->message_capacity) {
        struct zn_chat_message *larger = realloc(r->messages, n * sizeof *larger);
        if (!larger)
            return zn_fail(ZN_ERR_MEMORY, "%s: out of memory for %zu messages", r->place, n);
        r->messages = larger;
        r->message_capacity = n;
    }
    for (size_t i = 0; i < n; i++)
        ZN_TRY(read_message(array, i, &r->messages[i]));
    r->row = (struct zn_row){.kind = ZN_ROW_MESSAGES, .messages = r->messages, .n_messages = n};
    return ZN_OK;
}

static zn_status read_row(zn_jsonl *r)
{
    if (zn_json_type_of(r->json) != ZN_JSON_OBJECT)
        return zn_json_fail(r->json, "a row is an object with 'text', 'prompt' and 'completion', or 'messages'");
    static const char *const keys[] = {"text", "completion", "messages"};
    const char *found = NULL;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (!zn_json_has(r->json, keys[i]))
            continue;
        if (found)
            return zn_json_fail(r->json, "the row has both '%s' and '%s'; one of them must go", found, keys[i]);
        found = keys[i];
    }
    if (!found)
        return zn_json_fail(r->json, "the row has none of 'text', 'prompt' with 'completion', and 'messages'");
    if (found == keys[2])
        return read_messages(r);
    struct zn_row row = {.kind = found == keys[0] ? ZN_ROW_TEXT : ZN_ROW_COMPLETION};
    if (row.kind == ZN_ROW_TEXT) {
        ZN_TRY(zn_json_get_string(r->json, "text", &row.text));
    } else {
        ZN_TRY(zn_json_get_string(r->json, "prompt", &row.prompt));
        ZN_TRY(zn_json_get_string(r->json, "completion", &row.completion));
    }
    r->row = row;
    return ZN_OK;
}

zn_status zn_jsonl_next(zn_jsonl *rows, const struct zn_row **row)
{
    bool is_end;
    do {
        ZN_TRY(read_line(rows, &is_end));
        if (is_end) {
            *row = NULL;
            return ZN_OK;
        }
    } while (is_blank(rows->line_data, rows->line_bytes));
    ZN_TRY(parse_line(rows));
    ZN_TRY(read_row(rows));
    *row = &rows->row;
    return ZN_OK;
}
