/* Operations on pieces: search, split and replace. */
#include <stdlib.h>
#include <string.h>

#include "text/tokenizer_private.h"
#include "text/tokenizer_unicode.h"

void buffer_fini(struct tok_buffer *buffer)
{
    free(buffer->data);
    *buffer = (struct tok_buffer){0};
}

zn_status buffer_reserve(struct tok_buffer *buffer, size_t n_more)
{
    if (buffer->data && buffer->capacity - buffer->n >= n_more)
        return ZN_OK;
    size_t capacity = buffer->n + n_more;
    capacity += capacity / 2 + 64;
    char *data = capacity > n_more ? realloc(buffer->data, capacity) : NULL;
    if (!data)
        return zn_fail(ZN_ERR_MEMORY, "out of memory for %zu bytes of text", n_more);
    buffer->data = data;
    buffer->capacity = capacity;
    return ZN_OK;
}

zn_status buffer_add(struct tok_buffer *buffer, const char *data, size_t n)
{
    ZN_TRY(buffer_reserve(buffer, n));
    if (n > 0)
        memcpy(buffer->data + buffer->n, data, n);
    buffer->n += n;
    return ZN_OK;
}

void ops_fini(struct tok_ops *ops)
{
    for (size_t i = 0; i < ops->n; i++) {
        regex_destroy(ops->op[i].pattern.regex);
        free(ops->op[i].pattern.literal);
        free(ops->op[i].content);
    }
    ops->n = 0;
}

bool pattern_next(const struct tok_pattern *pattern, tok_matcher *matcher, const char *text, size_t n, bool recent,
                  struct pattern_search *search, size_t *start, size_t *end, zn_status *status)
{
    if (pattern->regex)
        return regex_next(pattern->regex, matcher, text, n, recent, &search->regex, start, end, status);
    if (pattern->literal) {
        const char *found = memmem(text + search->from, n - search->from, pattern->literal, pattern->n_literal);
        if (!found)
            return false;
        *start = (size_t)(found - text);
        *end = search->from = *start + pattern->n_literal;
        return true;
    }
    for (size_t i = search->from, length; i < n; i += length) {
        if (pattern->is(utf8_at(text + i, &length))) {
            *start = i;
            *end = search->from = i + length;
            return true;
        }
    }
    return false;
}

/* ---- Splitting ---- */

/* Matches and what is between them come one after the other; a piece is held until it is known
 * that nothing is added to it. */
struct splitting {
    const struct tok_op *op;
    struct tok_piece whole;
    piece_sink sink;
    void *self;
    size_t start, end; /* held */
    bool holds;
    bool was_match; /* the last one */
};

static zn_status emit(const struct splitting *s, size_t start, size_t end)
{
    if (start == end)
        return ZN_OK;
    size_t n_first = s->whole.n_first > start ? s->whole.n_first - start : 0;
    return s->sink(s->self, (struct tok_piece){.text = s->whole.text + start, .n = end - start,
                                               .n_first = n_first < end - start ? n_first : end - start});
}

/* Whether the held piece grows by the next one. */
static bool joins(const struct splitting *s, bool is_match)
{
    switch (s->op->behavior) {
    case TOK_CONTIGUOUS:
        return is_match == s->was_match;
    case TOK_MERGED_WITH_PREVIOUS:
        return is_match && !s->was_match;
    case TOK_MERGED_WITH_NEXT:
        return !is_match && s->was_match;
    default:
        return false;
    }
}

static zn_status split_event(struct splitting *s, size_t start, size_t end, bool matches)
{
    bool is_match = matches != s->op->invert;
    if (s->op->behavior == TOK_ISOLATED)
        return emit(s, start, end);
    if (s->op->behavior == TOK_REMOVED)
        return is_match ? ZN_OK : emit(s, start, end);
    if (s->holds && joins(s, is_match)) {
        s->end = end;
    } else {
        if (s->holds)
            ZN_TRY(emit(s, s->start, s->end));
        s->start = start;
        s->end = end;
        s->holds = true;
    }
    s->was_match = is_match;
    return ZN_OK;
}

zn_status split_piece(const struct tok_op *op, tok_matcher *matcher, bool recent, struct tok_piece piece,
                      piece_sink sink, void *self)
{
    struct splitting s = {.op = op, .whole = piece, .sink = sink, .self = self};
    struct pattern_search search = {0};
    zn_status status = ZN_OK;
    size_t start, end, done = 0;
    while (pattern_next(&op->pattern, matcher, piece.text, piece.n, recent, &search, &start, &end, &status)) {
        if (start > done)
            ZN_TRY(split_event(&s, done, start, false));
        ZN_TRY(split_event(&s, start, end, true));
        done = end;
    }
    ZN_TRY(status);
    if (done < piece.n)
        ZN_TRY(split_event(&s, done, piece.n, false));
    return s.holds ? emit(&s, s.start, s.end) : ZN_OK;
}

/* ---- Changing ---- */

/* How many of the bytes from `start` to `end` come from the first character. */
static size_t first_within(const struct tok_piece *piece, size_t start, size_t end)
{
    if (piece->n_first <= start)
        return 0;
    return (piece->n_first < end ? piece->n_first : end) - start;
}

static zn_status replace(const struct tok_op *op, tok_matcher *matcher, bool recent, struct tok_piece *piece,
                         struct tok_buffer *buffer)
{
    struct pattern_search search = {0};
    zn_status status = ZN_OK;
    size_t start, end, done = 0, n_first = 0;
    bool changed = false;
    buffer->n = 0;
    while (pattern_next(&op->pattern, matcher, piece->text, piece->n, recent, &search, &start, &end, &status)) {
        changed = true;
        ZN_TRY(buffer_add(buffer, piece->text + done, start - done));
        ZN_TRY(buffer_add(buffer, op->content, op->n_content));
        /* What takes a character's place comes from where that came from. */
        n_first += first_within(piece, done, start);
        n_first += end == 0 || end <= piece->n_first ? op->n_content : 0;
        done = end;
    }
    ZN_TRY(status);
    if (!changed)
        return ZN_OK;
    ZN_TRY(buffer_add(buffer, piece->text + done, piece->n - done));
    n_first += first_within(piece, done, piece->n);
    *piece = (struct tok_piece){.text = buffer->data, .n = buffer->n, .n_first = n_first};
    return ZN_OK;
}

static zn_status prepend(const struct tok_op *op, struct tok_piece *piece, struct tok_buffer *buffer)
{
    buffer->n = 0;
    ZN_TRY(buffer_add(buffer, op->content, op->n_content));
    ZN_TRY(buffer_add(buffer, piece->text, piece->n));
    size_t n_first = piece->n_first > 0 ? piece->n_first + op->n_content : 0;
    *piece = (struct tok_piece){.text = buffer->data, .n = buffer->n, .n_first = n_first};
    return ZN_OK;
}

static zn_status map_bytes(struct tok_piece *piece, struct tok_buffer *buffer)
{
    size_t n_first = 0;
    buffer->n = 0;
    ZN_TRY(buffer_reserve(buffer, 2 * piece->n));
    for (size_t i = 0; i < piece->n; i++) {
        if (i == piece->n_first)
            n_first = buffer->n;
        buffer->n += utf8_put(buffer->data + buffer->n, byte_to_char((unsigned char)piece->text[i]));
    }
    if (piece->n_first == piece->n)
        n_first = buffer->n;
    *piece = (struct tok_piece){.text = buffer->data, .n = buffer->n, .n_first = n_first};
    return ZN_OK;
}

zn_status change_piece(const struct tok_op *op, tok_matcher *matcher, bool recent, struct tok_piece *piece,
                       struct tok_buffer *buffer)
{
    bool there = piece->n >= op->n_content && op->n_content > 0 &&
                 memcmp(piece->text, op->content, op->n_content) == 0;
    switch (op->kind) {
    case TOK_REPLACE:
        return replace(op, matcher, recent, piece, buffer);
    case TOK_PREPEND:
        return piece->n > 0 ? prepend(op, piece, buffer) : ZN_OK;
    case TOK_PREFIX:
        if (there || piece->n == 0 || (op->only_first && piece->n_first == 0))
            return ZN_OK;
        return prepend(op, piece, buffer);
    case TOK_BYTES:
        return map_bytes(piece, buffer);
    default:
        return normalize_unicode(op->kind, piece, buffer);
    }
}
