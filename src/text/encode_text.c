/* Pieces of a text to the tokens that it has as one document.
 *
 * A piece may end only where the tokens of its two sides, put together, are the tokens of the whole, and whether they are
 * depends on the tokenizer. So likely places (line ends and spaces between words) are tried: some context on both sides
 * of the place is encoded as one and as two. Tokenizers that put a space before every text give the second side one
 * token more, which is then left out. */
#include <string.h>

#include "text/encode_private.h"

enum { CONTEXT = 4096, MAX_TRIES = 64 };

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
static zn_status try_cut(const zn_encoder *e, const char *text, size_t i, bool *works, size_t *n_extra)
{
    size_t begin = char_begin(text, i - CONTEXT), end = char_begin(text, i + CONTEXT - 1);
    struct zn_ids whole = {0}, left = {0}, right = {0};
    zn_status status = encode_plain(e, text + begin, end - begin, &whole);
    if (status == ZN_OK)
        status = encode_plain(e, text + begin, i - begin, &left);
    if (status == ZN_OK)
        status = encode_plain(e, text + i, end - i, &right);
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

zn_status text_find_cut(const zn_encoder *encoder, const char *text, size_t n, size_t *cut, size_t *n_extra)
{
    *cut = 0;
    for (int kind = 0; kind < 3; kind++) {
        int n_tries = 0;
        for (size_t i = n > CONTEXT ? n - CONTEXT : 0; i > CONTEXT && n_tries < MAX_TRIES; i--) {
            bool works = false;
            if (!is_likely(text, i, kind))
                continue;
            n_tries++;
            ZN_TRY(try_cut(encoder, text, i, &works, n_extra));
            if (works) {
                *cut = i;
                return ZN_OK;
            }
        }
    }
    return ZN_OK;
}

zn_status encode_text_piece(const zn_encoder *e, struct encode_part *part)
{
    struct zn_document *d = &part->document;
    if (part->begins)
        ZN_TRY(document_add(e, d, &e->before, true, part->path));
    size_t first = d->ids.n;
    ZN_TRY(encode_plain(e, part->data, part->n, &d->ids));
    size_t n = d->ids.n - first, extra = part->n_extra < n ? part->n_extra : n;
    if (extra > 0) {
        memmove(d->ids.id + first, d->ids.id + first + extra, (n - extra) * sizeof *d->ids.id);
        d->ids.n -= extra;
    }
    ZN_TRY(document_count(e, d, true, part->path));
    if (!part->ends)
        return ZN_OK;
    ZN_TRY(document_add(e, d, &e->after, true, part->path));
    return document_end(e, d, true, part->path);
}
