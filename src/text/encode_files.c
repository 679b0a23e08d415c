/* Files to tokens, on several threads. The calling thread reads files and cuts them in parts; a team encodes the parts; the
 * sink gets them in order. Where a file is cut depends on what is in it and nothing else. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"
#include "base/team.h"
#include "text/encode_private.h"

enum {
    PIECE = 1024 * 1024, /* of a text */
    LINES = 256 * 1024,  /* of rows */
    MAX_PIECE = 64 * 1024 * 1024,
    PARTS_EACH = 2, /* under way for each thread */
    KEPT = 4 * PIECE /* buffers of a part above that are given back */
};

struct reader {
    zn_encoder *encoder;
    const struct zn_token_sink *sink;
    zn_team *team;
    struct encode_part *parts;
    size_t n_parts;
    size_t under_way, max_under_way; /* bytes of parts that are not taken yet */
    /* The file. */
    const char *path;
    int fd;
    uint64_t n_bytes, at; /* of it; up to where the buffer has it */
    uint64_t before;      /* of the files before it */
    char *buffer;
    size_t n, capacity;
};

/* ---- Parts ---- */

static zn_status run_part(void *self, void *job)
{
    const struct reader *r = self;
    struct encode_part *part = job;
    part->document.ids.n = part->document.n_counts = 0;
    part->examples.ids.n = part->examples.n_counts = part->n_examples = 0;
    return part->is_text ? encode_text_piece(r->encoder, part) : encode_lines(r->encoder, part);
}

static void part_fini(struct encode_part *part)
{
    free(part->data);
    part->data = NULL;
    part->capacity = 0;
    zn_document_fini(&part->document);
    zn_document_fini(&part->examples);
    free(part->borders);
    part->borders = NULL;
    part->n_examples = part->borders_capacity = 0;
}

static zn_status put_examples(const struct zn_token_sink *sink, const struct encode_part *part)
{
    const struct zn_document *d = &part->examples;
    for (size_t i = 0, begin = 0; i < part->n_examples; begin = part->borders[i++])
        if (part->borders[i] > begin)
            ZN_TRY(sink->put_example(sink->self, d->ids.id + begin, d->counts + begin, part->borders[i] - begin));
    return ZN_OK;
}

static zn_status take_part(void *self, void *job)
{
    struct reader *r = self;
    struct encode_part *part = job;
    const struct zn_document *d = &part->document;
    if (d->ids.n > 0)
        ZN_TRY(r->sink->put(r->sink->self, d->ids.id, d->counts, d->ids.n));
    ZN_TRY(put_examples(r->sink, part));
    if (r->sink->progress)
        r->sink->progress(r->sink->self, part->at);
    r->under_way -= part->n;
    if (part->capacity > KEPT)
        part_fini(part);
    return ZN_OK;
}

static zn_status fill_part(struct encode_part *part, const struct encode_part *wanted, const char *data)
{
    char *room = part->data;
    size_t capacity = part->capacity;
    if (wanted->n > capacity) {
        room = realloc(part->data, wanted->n);
        if (!room)
            return zn_fail(ZN_ERR_MEMORY, "%s: out of memory for %zu bytes of it", wanted->path, wanted->n);
        capacity = wanted->n;
    }
    struct encode_part before = *part; /* its memory is used again */
    *part = *wanted;
    part->document = before.document;
    part->examples = before.examples;
    part->borders = before.borders;
    part->borders_capacity = before.borders_capacity;
    part->data = room;
    part->capacity = capacity;
    if (part->n > 0)
        memcpy(part->data, data, part->n);
    return ZN_OK;
}

/* Sends the first bytes of the buffer, as many as `part` says, on their way. */
static zn_status send_part(struct reader *r, struct encode_part part)
{
    void *job;
    while (r->under_way > 0 && r->under_way + part.n > r->max_under_way)
        ZN_TRY(zn_team_take(r->team));
    ZN_TRY(zn_team_next(r->team, &job));
    part.path = r->path;
    part.keeps_examples = r->sink->put_example != NULL;
    part.at = r->before + r->at - (r->n - part.n);
    ZN_TRY(fill_part(job, &part, r->buffer));
    r->under_way += part.n;
    zn_team_submit(r->team);
    memmove(r->buffer, r->buffer + part.n, r->n - part.n);
    r->n -= part.n;
    return ZN_OK;
}

/* ---- Files ---- */

/* Fills the buffer up to `wanted` bytes or the end of the file; it may have more already. */
static zn_status fill(struct reader *r, size_t wanted)
{
    if (wanted > r->capacity) {
        char *larger = realloc(r->buffer, wanted);
        if (!larger)
            return zn_fail(ZN_ERR_MEMORY, "%s: out of memory for %zu bytes of it", r->path, wanted);
        r->buffer = larger;
        r->capacity = wanted;
    }
    size_t n = wanted > r->n ? wanted - r->n : 0;
    if (n > r->n_bytes - r->at)
        n = (size_t)(r->n_bytes - r->at);
    ZN_TRY(zn_pread_all(r->fd, r->path, r->buffer + r->n, n, r->at));
    r->n += n;
    r->at += n;
    return ZN_OK;
}

static zn_status send_text(struct reader *r)
{
    struct encode_part part = {.is_text = true, .begins = true};
    for (size_t wanted = PIECE;;) {
        size_t cut, n_extra = 0;
        ZN_TRY(fill(r, wanted));
        if (r->at == r->n_bytes) {
            part.n = r->n;
            part.ends = true;
            return send_part(r, part);
        }
        ZN_TRY(text_find_cut(r->encoder, r->buffer, r->n, &cut, &n_extra));
        if (cut > 0) {
            part.n = cut;
            ZN_TRY(send_part(r, part));
            part.begins = false;
            part.n_extra = n_extra;
            wanted = PIECE;
        } else if (wanted == MAX_PIECE) {
            return zn_fail(ZN_ERR_INPUT, "%s: no place to cut in the %d bytes from byte %llu on", r->path, MAX_PIECE,
                           (unsigned long long)(r->at - r->n));
        } else {
            wanted *= 2;
        }
    }
}

static int64_t count_lines(const char *text, size_t n)
{
    int64_t count = 0;
    for (const char *end = text + n; (text = memchr(text, '\n', (size_t)(end - text))) != NULL; text++)
        count++;
    return count;
}

/* The end of the last whole row of an array in the buffer, 0: none; *scan is at byte *scanned, *cut_at at the end. What
 * cannot stand in an array goes with the rest of the buffer: who reads it says so. */
static size_t find_array_cut(const struct reader *r, struct json_array *scan, size_t *scanned, struct json_array *cut_at)
{
    size_t cut = 0, n_skipped, n_taken;
    bool is_whole;
    while (*scanned < r->n) {
        if (!json_array_next(scan, r->buffer + *scanned, r->n - *scanned, &n_skipped, &n_taken, &is_whole)) {
            *cut_at = *scan;
            return r->n;
        }
        *scanned += n_skipped + n_taken;
        if (is_whole) {
            cut = *scanned;
            *cut_at = *scan;
        }
    }
    return cut;
}

static size_t find_line_cut(const struct reader *r)
{
    const char *last = memrchr(r->buffer, '\n', r->n);
    return last ? (size_t)(last - r->buffer) + 1 : 0;
}

/* A row that is longer than one may be goes as it is: who reads it says so. */
static zn_status send_rows(struct reader *r)
{
    struct encode_part part = {.first_line = 1};
    struct json_array scan = {0}, cut_at = {0};
    size_t scanned = 0;
    ZN_TRY(fill(r, LINES));
    if (json_array_begins(r->buffer, r->n))
        part.array.state = scan.state = JSON_ARRAY_BEFORE;
    for (size_t wanted = LINES; r->n > 0 || r->at < r->n_bytes;) {
        ZN_TRY(fill(r, wanted));
        size_t cut = scan.state ? find_array_cut(r, &scan, &scanned, &cut_at) : find_line_cut(r);
        part.ends = r->at == r->n_bytes;
        if (part.ends)
            part.n = r->n;
        else if (cut > 0)
            part.n = cut;
        else if (r->n > ZN_JSONL_MAX_LINE)
            part.n = r->n;
        else {
            wanted = wanted < ZN_JSONL_MAX_LINE ? 2 * wanted : ZN_JSONL_MAX_LINE + 1;
            continue;
        }
        int64_t n_lines = count_lines(r->buffer, part.n);
        ZN_TRY(send_part(r, part));
        part.first_line += n_lines;
        part.array = cut_at;
        scanned -= scanned < part.n ? scanned : part.n;
        wanted = LINES;
    }
    return ZN_OK;
}

static zn_status send_file(struct reader *r, const struct zn_data_file *file)
{
    if (file->kind == ZN_DATA_BIN)
        return zn_fail(ZN_ERR_INTERNAL, "%s: is encoded already", file->path);
    r->path = file->path;
    r->at = r->n = 0;
    ZN_TRY(zn_file_open(file->path, &r->fd, &r->n_bytes));
    zn_status status = file->kind == ZN_DATA_TEXT ? send_text(r) : send_rows(r);
    close(r->fd);
    r->before += r->n_bytes;
    return status;
}

/* What is under way comes before the file that failed, and so does a failure of it. */
static zn_status finish(struct reader *r, zn_status status)
{
    char *error = status == ZN_OK ? NULL : strdup(zn_error_message());
    zn_status earlier = zn_team_finish(r->team);
    if (earlier == ZN_OK && status != ZN_OK)
        zn_fail_text(status, error ? error : "out of memory");
    free(error);
    return earlier != ZN_OK ? earlier : status;
}

zn_status zn_encode_files(zn_encoder *encoder, const struct zn_data_file *files, size_t n_files,
                          const struct zn_token_sink *sink)
{
    int n_threads = encoder->options.n_threads > 1 ? encoder->options.n_threads : 1;
    struct reader r = {.encoder = encoder, .sink = sink};
    r.n_parts = n_threads == 1 ? 1 : (size_t)n_threads * PARTS_EACH;
    r.max_under_way = r.n_parts * PIECE + MAX_PIECE;
    r.parts = calloc(r.n_parts, sizeof *r.parts);
    if (!r.parts)
        return zn_fail(ZN_ERR_MEMORY, "out of memory for %d threads", n_threads);
    const struct zn_team_work work = {.self = &r, .run = run_part, .take = take_part};
    zn_status status = zn_team_create(n_threads, &work, r.parts, sizeof *r.parts, r.n_parts, &r.team);
    if (status == ZN_OK) {
        for (size_t i = 0; i < n_files && status == ZN_OK; i++)
            status = send_file(&r, &files[i]);
        status = finish(&r, status);
    }
    zn_team_destroy(r.team);
    for (size_t i = 0; i < r.n_parts; i++)
        part_fini(&r.parts[i]);
    free(r.parts);
    free(r.buffer);
    return status;
}
