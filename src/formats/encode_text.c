/* A text file of any size to the tokens that it has as one document.
 *
 * The text is read in pieces. A piece may end only where the tokens of its two sides, put together, are the tokens of
 * the whole, and whether they are depends on the tokenizer. So likely places (line ends and spaces between words) are
 * tried: some context on both sides of the place is encoded as one and as two. Tokenizers that put a space before
 * every text give the second side one token more, which is then left out. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"
#include "formats/encode_private.h"

enum { PIECE = 1024 * 1024, MAX_PIECE = 64 * 1024 * 1024, CONTEXT = 4096, MAX_TRIES = 64 };

struct text_reader {
    const zn_encoder *encoder;
    const struct zn_token_sink *sink;
    const char *path;
    int fd;
    uint64_t n_bytes, at; /* of the file; up to where the buffer has it */
    char *buffer;
    size_t n, capacity;
    size_t n_extra; /* tokens at the begin of the buffer's text that are not in the whole */
    struct zn_document document;
};

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_letter(char c)
{
    return ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || (unsigned char)c >= 0x80;
}

/* Whether the text may be cut before byte i: after a single line end, before one, before a single space. */
static bool is_likely(const char *s, size_t i, int kind)
{
    switch (kind) {
    case 0:
        return s[i - 1] == '\n' && !is_space(s[i - 2]) && is_letter(s[i]);
    case 1:
        return s[i] == '\n' && !is_space(s[i - 1]) && is_letter(s[i + 1]);
    default:
        return s[i] == ' ' && is_letter(s[i - 1]) && is_letter(s[i + 1]);
    }
}

/* The byte where the character at or before i begins. */
static size_t char_begin(const char *s, size_t i)
{
    while (i > 0 && ((unsigned char)s[i] & 0xc0) == 0x80)
        i--;
    return i;
}

/* Whether a cut before byte i changes nothing but for n_extra tokens at the begin of the second side. */
static zn_status try_cut(const struct text_reader *r, size_t i, bool *works, size_t *n_extra)
{
    size_t begin = char_begin(r->buffer, i - CONTEXT), end = char_begin(r->buffer, i + CONTEXT - 1);
    struct zn_ids whole = {0}, left = {0}, right = {0};
    zn_status status = encode_plain(r->encoder, r->buffer + begin, end - begin, &whole);
    if (status == ZN_OK)
        status = encode_plain(r->encoder, r->buffer + begin, i - begin, &left);
    if (status == ZN_OK)
        status = encode_plain(r->encoder, r->buffer + i, end - i, &right);
    *works = false;
    if (status == ZN_OK && left.n + right.n >= whole.n && left.n + right.n <= whole.n + 1 && left.n <= whole.n) {
        size_t extra = left.n + right.n - whole.n;
        *works = memcmp(whole.id, left.id, left.n * sizeof *left.id) == 0 && right.n > extra &&
                 memcmp(whole.id + left.n, right.id + extra, (right.n - extra) * sizeof *right.id) == 0;
        *n_extra = extra;
    }
    zn_ids_fini(&whole);
    zn_ids_fini(&left);
    zn_ids_fini(&right);
    return status;
}

/* The last place in the buffer where the text may be cut; 0: none was found. */
static zn_status find_cut(const struct text_reader *r, size_t *cut, size_t *n_extra)
{
    *cut = 0;
    for (int kind = 0; kind < 3; kind++) {
        int n_tries = 0;
        for (size_t i = r->n - CONTEXT; i > CONTEXT && n_tries < MAX_TRIES; i--) {
            bool works = false;
            if (!is_likely(r->buffer, i, kind))
                continue;
            n_tries++;
            ZN_TRY(try_cut(r, i, &works, n_extra));
            if (works) {
                *cut = i;
                return ZN_OK;
            }
        }
    }
    return ZN_OK;
}

/* Fills the buffer up to `wanted` bytes or the end of the file. */
static zn_status fill(struct text_reader *r, size_t wanted)
{
    if (wanted > r->capacity) {
        char *larger = realloc(r->buffer, wanted);
        if (!larger)
            return zn_fail(ZN_ERR_MEMORY, "%s: out of memory for %zu bytes of it", r->path, wanted);
        r->buffer = larger;
        r->capacity = wanted;
    }
    size_t n = wanted - r->n;
    if (n > r->n_bytes - r->at)
        n = (size_t)(r->n_bytes - r->at);
    ZN_TRY(zn_pread_all(r->fd, r->path, r->buffer + r->n, n, r->at));
    r->n += n;
    r->at += n;
    return ZN_OK;
}

static zn_status flush(struct text_reader *r)
{
    struct zn_document *d = &r->document;
    if (d->ids.n > 0)
        ZN_TRY(r->sink->put(r->sink->self, d->ids.id, d->counts, d->ids.n));
    d->ids.n = d->n_counts = 0;
    if (r->sink->progress)
        r->sink->progress(r->sink->self, r->at);
    return ZN_OK;
}

/* The tokens of the first n bytes of the buffer, which go. */
static zn_status put_piece(struct text_reader *r, size_t n, size_t next_extra)
{
    struct zn_document *d = &r->document;
    ZN_TRY(encode_plain(r->encoder, r->buffer, n, &d->ids));
    size_t extra = r->n_extra < d->ids.n ? r->n_extra : d->ids.n;
    memmove(d->ids.id, d->ids.id + extra, (d->ids.n - extra) * sizeof *d->ids.id);
    d->ids.n -= extra;
    ZN_TRY(document_count(r->encoder, d, true, r->path));
    ZN_TRY(flush(r));
    memmove(r->buffer, r->buffer + n, r->n - n);
    r->n -= n;
    r->n_extra = next_extra;
    return ZN_OK;
}

static zn_status put_pieces(struct text_reader *r)
{
    size_t wanted = PIECE;
    for (;;) {
        ZN_TRY(fill(r, wanted));
        if (r->at == r->n_bytes)
            return r->n > 0 ? put_piece(r, r->n, 0) : ZN_OK;
        size_t cut, n_extra = 0;
        ZN_TRY(find_cut(r, &cut, &n_extra));
        if (cut > 0) {
            ZN_TRY(put_piece(r, cut, n_extra));
            wanted = PIECE;
        } else if (wanted == MAX_PIECE) {
            return zn_fail(ZN_ERR_INPUT, "%s: no place to cut in the %d bytes from byte %llu on", r->path, MAX_PIECE,
                           (unsigned long long)(r->at - r->n));
        } else {
            wanted *= 2;
        }
    }
}

static zn_status put_document(struct text_reader *r)
{
    const zn_encoder *e = r->encoder;
    ZN_TRY(document_add(e, &r->document, &e->before, true, r->path));
    ZN_TRY(flush(r));
    ZN_TRY(put_pieces(r));
    ZN_TRY(document_add(e, &r->document, &e->after, true, r->path));
    ZN_TRY(document_end(e, &r->document, true, r->path));
    return flush(r);
}

zn_status encode_text_file(zn_encoder *encoder, const char *path, const struct zn_token_sink *sink)
{
    struct text_reader r = {.encoder = encoder, .sink = sink, .path = path};
    ZN_TRY(zn_file_open(path, &r.fd, &r.n_bytes));
    zn_status status = put_document(&r);
    zn_document_fini(&r.document);
    free(r.buffer);
    close(r.fd);
    return status;
}
