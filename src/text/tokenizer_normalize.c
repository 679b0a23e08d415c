/* Unicode's normal forms and lower case. The mappings are utf8proc's; here are the parts that make
 * them fit for any text: what cannot change is copied, and marks are sorted in a time that does not
 * explode with their number. */
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "text/tokenizer_private.h"
#include "text/tokenizer_unicode.h"

/* Characters of one stretch, decomposed. */
struct stretch {
    utf8proc_int32_t *c;
    size_t n, capacity;
};

static utf8proc_option_t options_of(enum tok_kind kind)
{
    int options = UTF8PROC_STABLE;
    options |= kind == TOK_NFC || kind == TOK_NFKC ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
    options |= kind == TOK_NFKC || kind == TOK_NFKD ? UTF8PROC_COMPAT : 0;
    return (utf8proc_option_t)options;
}

static zn_status stretch_reserve(struct stretch *s, size_t n_more)
{
    if (s->capacity - s->n >= n_more)
        return ZN_OK;
    size_t capacity = 2 * (s->n + n_more);
    utf8proc_int32_t *c =
        capacity > SIZE_MAX / sizeof *c ? NULL : realloc(s->c, capacity * sizeof *c);
    if (!c)
        return zn_fail(ZN_ERR_MEMORY, "out of memory for %zu characters", capacity);
    s->c = c;
    s->capacity = capacity;
    return ZN_OK;
}

static bool is_unnormalized(uint32_t c)
{
    size_t low = 0, high = unicode_n_unnormalized;
    if (c < unicode_unnormalized[0][0])
        return false;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (c > unicode_unnormalized[middle][1])
            low = middle + 1;
        else
            high = middle;
    }
    return low < unicode_n_unnormalized && c >= unicode_unnormalized[low][0];
}

static zn_status decompose(struct stretch *s, const char *text, size_t n, utf8proc_option_t options)
{
    s->n = 0;
    for (size_t i = 0, length; i < n; i += length) {
        utf8proc_int32_t c = (utf8proc_int32_t)utf8_at(text + i, &length);
        ZN_TRY(stretch_reserve(s, 32)); /* no character becomes more than 18 */
        int boundclass = 0;
        utf8proc_ssize_t more = utf8proc_decompose_char(c, s->c + s->n, 32, options, &boundclass);
        if (more < 0 || more > 32)
            return zn_fail(ZN_ERR_INTERNAL, "U+%04X cannot be decomposed: %s", (unsigned)c,
                           utf8proc_errmsg(more));
        s->n += (size_t)more;
    }
    return ZN_OK;
}

static unsigned combining_class(utf8proc_int32_t c)
{
    return (unsigned)utf8proc_get_property(c)->combining_class;
}

/* Marks by their class, those of one class in their order: a sort by counting. */
static zn_status sort_marks(utf8proc_int32_t *marks, size_t n)
{
    size_t first[257] = {0};
    utf8proc_int32_t *sorted = malloc(n * sizeof *sorted);
    if (!sorted)
        return zn_fail(ZN_ERR_MEMORY, "out of memory for %zu characters", n);
    for (size_t i = 0; i < n; i++)
        first[(combining_class(marks[i]) & 0xff) + 1]++;
    for (size_t k = 1; k < 257; k++)
        first[k] += first[k - 1];
    for (size_t i = 0; i < n; i++)
        sorted[first[combining_class(marks[i]) & 0xff]++] = marks[i];
    memcpy(marks, sorted, n * sizeof *marks);
    free(sorted);
    return ZN_OK;
}

static zn_status order_marks(struct stretch *s)
{
    for (size_t i = 0; i < s->n; i++) {
        unsigned last = 0;
        bool sorted = true;
        size_t start = i;
        for (unsigned class; i < s->n && (class = combining_class(s->c[i])) != 0; i++) {
            sorted = sorted && class >= last;
            last = class;
        }
        if (!sorted)
            ZN_TRY(sort_marks(s->c + start, i - start));
    }
    return ZN_OK;
}

static zn_status normalize_known(struct stretch *s, const char *text, size_t n, utf8proc_option_t options,
                                 struct tok_buffer *out)
{
    ZN_TRY(decompose(s, text, n, options));
    ZN_TRY(order_marks(s));
    if (options & UTF8PROC_COMPOSE) {
        utf8proc_ssize_t left = utf8proc_normalize_utf32(s->c, (utf8proc_ssize_t)s->n, options);
        if (left < 0)
            return zn_fail(ZN_ERR_INTERNAL, "the text cannot be composed: %s", utf8proc_errmsg(left));
        s->n = (size_t)left;
    }
    ZN_TRY(buffer_reserve(out, 4 * s->n));
    for (size_t i = 0; i < s->n; i++)
        out->n += utf8_put(out->data + out->n, (uint32_t)s->c[i]);
    return ZN_OK;
}

/* A character that is left as it is ends what can be composed or sorted. */
static zn_status normalize_stretch(struct stretch *s, const char *text, size_t n, utf8proc_option_t options,
                                   struct tok_buffer *out)
{
    size_t done = 0;
    for (size_t i = 0, length; i < n; i += length) {
        if (!is_unnormalized(utf8_at(text + i, &length)))
            continue;
        ZN_TRY(normalize_known(s, text + done, i - done, options, out));
        ZN_TRY(buffer_add(out, text + i, length));
        done = i + length;
    }
    return normalize_known(s, text + done, n - done, options, out);
}

/* The end of what a normal form leaves as it is, from `i` on: NFC changes nothing below U+0300, whose
 * first byte in UTF-8 is 0xcc; the others nothing in ASCII. */
static size_t skip_stable(const char *text, size_t i, size_t n, unsigned char limit)
{
    while (i < n && (unsigned char)text[i] < limit)
        i++;
    return i;
}

static bool is_ascii(char c)
{
    return (unsigned char)c < 0x80;
}

static zn_status normal_form(enum tok_kind kind, struct tok_piece *piece, struct tok_buffer *out)
{
    const char *text = piece->text;
    unsigned char limit = kind == TOK_NFC ? 0xcc : 0x80;
    size_t changes = skip_stable(text, 0, piece->n, limit), done = 0;
    if (changes == piece->n)
        return ZN_OK;
    struct stretch stretch = {0};
    zn_status status = ZN_OK;
    out->n = 0;
    while (status == ZN_OK && changes < piece->n) {
        /* The stretch is from the ASCII character before to the one behind: nothing composes
         * with the character before an ASCII one. */
        size_t start = changes, end = changes;
        while (start > done && !is_ascii(text[start]))
            start--;
        while (end < piece->n && !is_ascii(text[end]))
            end++;
        status = buffer_add(out, text + done, start - done);
        if (status == ZN_OK)
            status = normalize_stretch(&stretch, text + start, end - start, options_of(kind), out);
        done = end;
        changes = skip_stable(text, end, piece->n, limit);
    }
    if (status == ZN_OK)
        status = buffer_add(out, text + done, piece->n - done);
    free(stretch.c);
    return status;
}

/* The pairs of Unicode 16 and 17 that utf8proc does not know yet. */
static uint32_t lower_case(uint32_t c)
{
    static const uint32_t later[][3] = {
        {0x1c89, 0x1c89, 0x1c8a}, {0xa7cb, 0xa7cb, 0x264},      {0xa7cc, 0xa7cc, 0xa7cd},
        {0xa7ce, 0xa7ce, 0xa7cf}, {0xa7d2, 0xa7d2, 0xa7d3},     {0xa7d4, 0xa7d4, 0xa7d5},
        {0xa7da, 0xa7da, 0xa7db}, {0xa7dc, 0xa7dc, 0x19b},      {0x10d50, 0x10d65, 0x10d70},
        {0x16ea0, 0x16eb8, 0x16ebb},
    };
    if (c < 0x80)
        return c >= 'A' && c <= 'Z' ? c + 32 : c;
    for (size_t i = 0; c >= 0x1c89 && i < sizeof later / sizeof later[0]; i++)
        if (c >= later[i][0] && c <= later[i][1])
            return later[i][2] + (c - later[i][0]);
    return (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
}

static zn_status lowercase(struct tok_piece *piece, struct tok_buffer *out)
{
    out->n = 0;
    for (size_t i = 0, length; i < piece->n; i += length) {
        uint32_t c = utf8_at(piece->text + i, &length);
        ZN_TRY(buffer_reserve(out, 8));
        if (c == 0x130) { /* the one character whose lower case is two */
            out->n += utf8_put(out->data + out->n, 'i');
            out->n += utf8_put(out->data + out->n, 0x307);
        } else {
            out->n += utf8_put(out->data + out->n, lower_case(c));
        }
    }
    return ZN_OK;
}

zn_status normalize_unicode(enum tok_kind kind, struct tok_piece *piece, struct tok_buffer *buffer)
{
    buffer->n = 0;
    ZN_TRY(kind == TOK_LOWERCASE ? lowercase(piece, buffer) : normal_form(kind, piece, buffer));
    if (buffer->n == 0)
        return ZN_OK; /* nothing to change */
    size_t n_first = 0;
    if (piece->n_first > 0)
        utf8_at(buffer->data, &n_first);
    *piece = (struct tok_piece){.text = buffer->data, .n = buffer->n, .n_first = n_first};
    return ZN_OK;
}

zn_status normalize_piece(const struct tok_ops *ops, tok_matcher *matcher, bool recent, struct tok_piece *piece,
                          struct tok_buffer buffer[2])
{
    for (size_t i = 0; i < ops->n; i++) {
        /* Into the one that does not hold the text. */
        struct tok_buffer *out = piece->text == buffer[0].data ? &buffer[1] : &buffer[0];
        ZN_TRY(change_piece(&ops->op[i], matcher, recent, piece, out));
    }
    return ZN_OK;
}
