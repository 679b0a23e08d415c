/* From ids back to text: the tokens' texts go through the decoders as a list. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "text/tokenizer_private.h"
#include "text/tokenizer_unicode.h"

/* Texts in one buffer, one behind the other. */
struct list {
    struct tok_buffer texts;
    size_t *end; /* of each */
    size_t n, capacity;
};

static void list_fini(struct list *list)
{
    buffer_fini(&list->texts);
    free(list->end);
}

/* Ends the text that was added to the buffer since the last one. */
static zn_status list_end(struct list *list)
{
    if (list->n == list->capacity) {
        size_t capacity = 2 * list->capacity + 64;
        size_t *end = capacity > SIZE_MAX / sizeof *end ? NULL : realloc(list->end, capacity * sizeof *end);
        if (!end)
            return zn_fail(ZN_ERR_MEMORY, "out of memory for %zu tokens", capacity);
        list->end = end;
        list->capacity = capacity;
    }
    list->end[list->n++] = list->texts.n;
    return ZN_OK;
}

static zn_status list_add(struct list *list, const char *text, size_t n)
{
    ZN_TRY(buffer_add(&list->texts, text, n));
    return list_end(list);
}

static size_t list_start(const struct list *list, size_t i)
{
    return i == 0 ? 0 : list->end[i - 1];
}

/* Adds the bytes as UTF-8, with U+FFFD for what is none. */
static zn_status add_lossy(struct tok_buffer *out, const char *bytes, size_t n)
{
    while (n > 0) {
        size_t skip;
        bool recent;
        size_t valid = utf8_valid(bytes, n, &skip, &recent);
        ZN_TRY(buffer_add(out, bytes, valid));
        if (skip > 0)
            ZN_TRY(buffer_add(out, "\xef\xbf\xbd", 3));
        bytes += valid + skip;
        n -= valid + skip;
    }
    return ZN_OK;
}

/* GPT-2's characters to bytes, all tokens in one; a token with any other character stands for itself. */
static zn_status from_bytes(const struct list *in, struct list *out)
{
    struct tok_buffer bytes = {0};
    zn_status status = buffer_reserve(&bytes, in->texts.n);
    for (size_t i = 0; status == ZN_OK && i < in->n; i++) {
        size_t start = list_start(in, i), mark = bytes.n, length;
        for (size_t k = start; k < in->end[i]; k += length) {
            int byte = char_to_byte(utf8_at(in->texts.data + k, &length));
            if (byte < 0) {
                bytes.n = mark;
                status = buffer_add(&bytes, in->texts.data + start, in->end[i] - start);
                break;
            }
            bytes.data[bytes.n++] = (char)byte; /* never more than were in the token */
        }
    }
    if (status == ZN_OK)
        status = add_lossy(&out->texts, bytes.data, bytes.n);
    buffer_fini(&bytes);
    return status == ZN_OK ? list_end(out) : status;
}

/* <0x41>, or -1. */
static int byte_of_token(const char *text, size_t n)
{
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";
    if (n != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>')
        return -1;
    const char *high = memchr(digits, text[3], 32), *low = memchr(digits, text[4], 32);
    return high && low ? (int)((high - digits) % 16 * 16 + (low - digits) % 16) : -1;
}

/* A row of bytes is their text if they are UTF-8, else U+FFFD for each. */
static zn_status end_bytes(struct list *out, struct tok_buffer *bytes)
{
    size_t skip, n = bytes->n;
    bool recent;
    bytes->n = 0;
    if (n == 0)
        return ZN_OK;
    if (utf8_valid(bytes->data, n, &skip, &recent) == n)
        return list_add(out, bytes->data, n);
    for (size_t i = 0; i < n; i++)
        ZN_TRY(list_add(out, "\xef\xbf\xbd", 3));
    return ZN_OK;
}

static zn_status fall_back(const struct list *in, struct list *out)
{
    struct tok_buffer bytes = {0};
    zn_status status = ZN_OK;
    for (size_t i = 0; status == ZN_OK && i < in->n; i++) {
        const char *text = in->texts.data + list_start(in, i);
        size_t n = in->end[i] - list_start(in, i);
        int byte = byte_of_token(text, n);
        if (byte >= 0) {
            status = buffer_add(&bytes, &(char){(char)byte}, 1);
            continue;
        }
        status = end_bytes(out, &bytes);
        if (status == ZN_OK)
            status = list_add(out, text, n);
    }
    if (status == ZN_OK)
        status = end_bytes(out, &bytes);
    buffer_fini(&bytes);
    return status;
}

static zn_status strip_one(const struct tok_op *op, const char *text, size_t n, struct list *out)
{
    size_t length = op->n_content;
    for (size_t i = 0; i < op->start && n >= length && memcmp(text, op->content, length) == 0; i++) {
        text += length;
        n -= length;
    }
    for (size_t i = 0; i < op->stop && n >= length && memcmp(text + n - length, op->content, length) == 0; i++)
        n -= length;
    return list_add(out, text, n);
}

static zn_status from_spaces(const struct tok_op *op, bool is_first, const char *text, size_t n,
                             struct list *out)
{
    bool vanishes = is_first && !op->only_first;
    for (size_t i = 0, length; i < n; i += length) {
        utf8_at(text + i, &length);
        bool is_space = length == op->n_content && memcmp(text + i, op->content, length) == 0;
        if (!is_space)
            ZN_TRY(buffer_add(&out->texts, text + i, length));
        else if (!vanishes)
            ZN_TRY(buffer_add(&out->texts, " ", 1));
    }
    return list_end(out);
}

static zn_status replace_one(const struct tok_op *op, tok_matcher *matcher, struct tok_piece piece,
                             struct list *out)
{
    struct tok_buffer buffer = {0};
    size_t skip;
    bool recent = false;
    utf8_valid(piece.text, piece.n, &skip, &recent);
    zn_status status = change_piece(op, matcher, recent, &piece, &buffer);
    if (status == ZN_OK)
        status = list_add(out, piece.text, piece.n);
    buffer_fini(&buffer);
    return status;
}

static zn_status run_decoder(const struct tok_op *op, tok_matcher *matcher, const struct list *in,
                             struct list *out)
{
    if (op->kind == TOK_FROM_BYTES)
        return from_bytes(in, out);
    if (op->kind == TOK_FALLBACK)
        return fall_back(in, out);
    if (op->kind == TOK_FUSE)
        return list_add(out, in->texts.data, in->texts.n);
    for (size_t i = 0; i < in->n; i++) {
        const char *text = in->texts.data + list_start(in, i);
        size_t n = in->end[i] - list_start(in, i);
        if (op->kind == TOK_STRIP)
            ZN_TRY(strip_one(op, text, n, out));
        else if (op->kind == TOK_FROM_SPACES)
            ZN_TRY(from_spaces(op, i == 0, text, n, out));
        else
            ZN_TRY(replace_one(op, matcher, (struct tok_piece){.text = text, .n = n}, out));
    }
    return ZN_OK;
}

/* The text of an id before decoding. An added token is shown as it is searched for. */
static zn_status add_token(const zn_tokenizer *t, int32_t id, bool skip_special, struct list *list)
{
    const struct tok_added *added = added_by_id(&t->added, id);
    if (added && skip_special && added->special && strcmp(added->content, added->matched) == 0)
        return ZN_OK;
    if (added)
        return list_add(list, added->matched, strlen(added->matched));
    const struct tok_token *token = vocab_by_id(&t->model.vocab, id);
    if (!token)
        return zn_fail(ZN_ERR_INPUT, "%s has no token with the id %" PRId32, t->name, id);
    return list_add(list, token->text, token->n);
}

/* Without decoders the tokens are joined by spaces. */
static zn_status joined(const zn_tokenizer *t, const struct list *list, struct tok_buffer *out)
{
    for (size_t i = 0; i < list->n; i++) {
        if (i > 0 && !t->has_decoder)
            ZN_TRY(buffer_add(out, " ", 1));
        ZN_TRY(buffer_add(out, list->texts.data + list_start(list, i), list->end[i] - list_start(list, i)));
    }
    return buffer_add(out, "", 1);
}

zn_status zn_tokenizer_decode(const zn_tokenizer *t, const int32_t *ids, size_t n_ids, bool skip_special,
                              char **text, size_t *n_bytes)
{
    struct list list[2] = {0};
    struct tok_buffer out = {0};
    size_t now = 0;
    zn_status status = ZN_OK;
    struct tok_scratch *scratch = pool_take(t->pool);
    if (!scratch)
        return zn_fail(ZN_ERR_MEMORY, "out of memory to decode");
    status = buffer_reserve(&list[0].texts, 8 * n_ids);
    for (size_t i = 0; status == ZN_OK && i < n_ids; i++)
        status = add_token(t, ids[i], skip_special, &list[0]);
    for (size_t i = 0; status == ZN_OK && i < t->decoders.n; i++) {
        list[1 - now].n = list[1 - now].texts.n = 0;
        status = buffer_reserve(&list[1 - now].texts, list[now].texts.n);
        if (status == ZN_OK)
            status = run_decoder(&t->decoders.op[i], scratch->matcher, &list[now], &list[1 - now]);
        now = 1 - now;
    }
    if (status == ZN_OK)
        status = joined(t, &list[now], &out);
    if (status == ZN_OK) {
        *text = out.data;
        *n_bytes = out.n - 1;
    } else {
        buffer_fini(&out);
    }
    list_fini(&list[0]);
    list_fini(&list[1]);
    pool_give(t->pool, scratch);
    return status;
}
