/* Byte-pair encoding of one word: the pair of the lowest rank is merged, the leftmost first, until
 * no pair merges. Short words by looking through them, long ones with a heap, n log n in their
 * length. Words that come again are found in the thread's cache. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "text/tokenizer_private.h"
#include "text/tokenizer_unicode.h"

enum { SHORT_WORD = 64, LONG_WORD = 256, NONE = -1 };

/* ---- Symbols ---- */

static zn_status symbols_reserve(struct tok_scratch *s, size_t n)
{
    if (n <= s->capacity)
        return ZN_OK;
    if (n > INT32_MAX / 2)
        return zn_fail(ZN_ERR_INPUT, "a word of %zu bytes is too long", n);
    size_t capacity = n + n / 2 + 64;
    int32_t **arrays[] = {&s->symbol, &s->before, &s->after};
    for (size_t i = 0; i < 3; i++) {
        int32_t *grown = realloc(*arrays[i], capacity * sizeof *grown);
        if (!grown)
            return zn_fail(ZN_ERR_MEMORY, "out of memory for a word of %zu bytes", n);
        *arrays[i] = grown;
    }
    uint32_t *rank = realloc(s->rank, capacity * sizeof *rank);
    if (!rank)
        return zn_fail(ZN_ERR_MEMORY, "out of memory for a word of %zu bytes", n);
    s->rank = rank;
    s->capacity = capacity;
    return ZN_OK;
}

static zn_status fail_unknown(const struct tok_model *model)
{
    return zn_fail(ZN_ERR_INPUT,
                   "the text has a character that is not in the vocabulary, and neither is unk_token '%s'",
                   zn_shown(model->unk).text);
}

/* What an unknown character becomes: its bytes, or the unknown token, which is held back in `unknown`
 * until the next known character, so that a row of them can be one. */
static zn_status add_unknown(const struct tok_model *model, struct tok_scratch *s, const char *c, size_t n,
                             bool *unknown)
{
    bool all = model->byte_fallback;
    for (size_t i = 0; i < n && all; i++)
        all = model->byte_token[(unsigned char)c[i]] != NONE;
    if (all) {
        for (size_t i = 0; i < n; i++)
            s->symbol[s->n_symbols++] = model->byte_token[(unsigned char)c[i]];
        return ZN_OK;
    }
    if (!model->unk)
        return ZN_OK;
    if (model->unk_id < 0)
        return fail_unknown(model);
    if (*unknown && !model->fuse_unk)
        s->symbol[s->n_symbols++] = model->unk_id;
    *unknown = true;
    return ZN_OK;
}

static zn_status find_symbols(const struct tok_model *model, struct tok_scratch *s, const char *word, size_t n)
{
    bool unknown = false;
    ZN_TRY(symbols_reserve(s, 2 * n + 1)); /* a mapped byte may fall back to two */
    s->n_symbols = 0;
    for (size_t i = 0, length; i < n; i += length) {
        const char *text = word + i;
        char mapped[4];
        int32_t id;
        if (model->bytes) {
            id = model->first[(unsigned char)*text];
            length = 1;
        } else {
            utf8_at(text, &length);
            id = vocab_find(&model->vocab, text, length);
        }
        if (id == NONE) {
            size_t n_text = length;
            if (model->bytes) {
                n_text = utf8_put(mapped, byte_to_char((unsigned char)*text));
                text = mapped;
            }
            ZN_TRY(add_unknown(model, s, text, n_text, &unknown));
            continue;
        }
        if (unknown)
            s->symbol[s->n_symbols++] = model->unk_id;
        unknown = false;
        s->symbol[s->n_symbols++] = id;
    }
    if (unknown)
        s->symbol[s->n_symbols++] = model->unk_id;
    return ZN_OK;
}

/* ---- Merging ---- */

static void merge_short(const struct tok_model *model, struct tok_scratch *s)
{
    int32_t *symbol = s->symbol;
    uint32_t *rank = s->rank; /* of the pair that begins here */
    size_t n = s->n_symbols;
    for (size_t i = 0; i + 1 < n; i++)
        rank[i] = model_rank(model, symbol[i], symbol[i + 1]);
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (rank[i] < rank[best])
                best = i;
        if (rank[best] == UINT32_MAX)
            break;
        symbol[best] = model->merged[rank[best]];
        n--;
        memmove(symbol + best + 1, symbol + best + 2, (n - best - 1) * sizeof *symbol);
        memmove(rank + best, rank + best + 1, (n - best - 1) * sizeof *rank);
        if (best > 0)
            rank[best - 1] = model_rank(model, symbol[best - 1], symbol[best]);
        if (best + 1 < n)
            rank[best] = model_rank(model, symbol[best], symbol[best + 1]);
    }
    s->n_symbols = n;
}

/* The heap holds rank << 32 | place, the smallest first. */
static zn_status heap_push(struct tok_scratch *s, uint64_t value)
{
    if (s->n_heap == s->heap_capacity) {
        size_t capacity = 2 * s->heap_capacity + 1024;
        uint64_t *heap = realloc(s->heap, capacity * sizeof *heap);
        if (!heap)
            return zn_fail(ZN_ERR_MEMORY, "out of memory for %zu pairs", capacity);
        s->heap = heap;
        s->heap_capacity = capacity;
    }
    size_t i = s->n_heap++;
    for (; i > 0 && s->heap[(i - 1) / 4] > value; i = (i - 1) / 4)
        s->heap[i] = s->heap[(i - 1) / 4];
    s->heap[i] = value;
    return ZN_OK;
}

static uint64_t heap_pop(struct tok_scratch *s)
{
    uint64_t top = s->heap[0], last = s->heap[--s->n_heap];
    size_t n = s->n_heap, i = 0;
    for (;;) {
        size_t child = 4 * i + 1, least = child;
        if (child >= n)
            break;
        for (size_t k = child + 1; k < child + 4 && k < n; k++)
            if (s->heap[k] < s->heap[least])
                least = k;
        if (s->heap[least] >= last)
            break;
        s->heap[i] = s->heap[least];
        i = least;
    }
    s->heap[i] = last;
    return top;
}

/* Ranks the pair that begins at `i` anew. */
static zn_status offer(const struct tok_model *model, struct tok_scratch *s, int32_t i)
{
    int32_t next = s->after[i];
    s->rank[i] = next == NONE ? UINT32_MAX : model_rank(model, s->symbol[i], s->symbol[next]);
    return s->rank[i] == UINT32_MAX ? ZN_OK : heap_push(s, (uint64_t)s->rank[i] << 32 | (uint32_t)i);
}

static zn_status merge_long(const struct tok_model *model, struct tok_scratch *s)
{
    int32_t n = (int32_t)s->n_symbols;
    s->n_heap = 0;
    for (int32_t i = 0; i < n; i++) {
        s->before[i] = i - 1; /* NONE for the first */
        s->after[i] = i + 1 < n ? i + 1 : NONE;
        ZN_TRY(offer(model, s, i));
    }
    while (s->n_heap > 0) {
        uint64_t top = heap_pop(s);
        int32_t i = (int32_t)(uint32_t)top, next;
        uint32_t rank = (uint32_t)(top >> 32);
        if (s->rank[i] != rank) /* the pair is no longer there */
            continue;
        next = s->after[i];
        s->symbol[i] = model->merged[rank];
        s->after[i] = s->after[next];
        if (s->after[i] != NONE)
            s->before[s->after[i]] = i;
        s->rank[next] = UINT32_MAX;
        ZN_TRY(offer(model, s, i));
        if (s->before[i] != NONE)
            ZN_TRY(offer(model, s, s->before[i]));
    }
    s->n_symbols = 0;
    for (int32_t i = 0; i != NONE && i < n; i = s->after[i])
        s->symbol[s->n_symbols++] = s->symbol[i];
    return ZN_OK;
}

/* ---- Words ---- */

zn_status ids_append(struct zn_ids *ids, const int32_t *id, size_t n)
{
    if (n > ids->capacity - ids->n) {
        size_t capacity = ids->capacity + ids->capacity / 2 + n + 256;
        int32_t *grown =
            capacity > SIZE_MAX / sizeof *grown ? NULL : realloc(ids->id, capacity * sizeof *grown);
        if (!grown)
            return zn_fail(ZN_ERR_MEMORY, "out of memory for %zu ids", capacity);
        ids->id = grown;
        ids->capacity = capacity;
    }
    if (n > 0)
        memcpy(ids->id + ids->n, id, n * sizeof *id);
    ids->n += n;
    return ZN_OK;
}

zn_status zn_ids_add(struct zn_ids *ids, int32_t id)
{
    return ids_append(ids, &id, 1);
}

void zn_ids_fini(struct zn_ids *ids)
{
    free(ids->id);
    *ids = (struct zn_ids){0};
}

static zn_status encode(const struct tok_model *model, struct tok_scratch *s, const char *part, size_t n)
{
    ZN_TRY(find_symbols(model, s, part, n));
    if (s->n_symbols > SHORT_WORD)
        return merge_long(model, s);
    merge_short(model, s);
    return ZN_OK;
}

/* With ignore_merges, a word that is a token is that token. */
static int32_t whole_word(const struct tok_model *model, struct tok_scratch *s, const char *word, size_t n)
{
    if (!model->ignore_merges || n > model->vocab.longest)
        return NONE;
    if (!model->bytes)
        return vocab_find(&model->vocab, word, n);
    s->mapped.n = 0;
    if (buffer_reserve(&s->mapped, 2 * n) != ZN_OK)
        return NONE;
    for (size_t i = 0; i < n; i++)
        s->mapped.n += utf8_put(s->mapped.data + s->mapped.n, byte_to_char((unsigned char)word[i]));
    return vocab_find(&model->vocab, s->mapped.data, s->mapped.n);
}

static zn_status encode_new(const struct tok_model *model, struct tok_scratch *s, const char *part, size_t n,
                            bool is_word)
{
    int32_t id = is_word ? whole_word(model, s, part, n) : NONE;
    if (id == NONE)
        return encode(model, s, part, n);
    ZN_TRY(symbols_reserve(s, 1));
    s->symbol[0] = id;
    s->n_symbols = 1;
    return ZN_OK;
}

static zn_status encode_cached(const struct tok_model *model, struct tok_scratch *s, const char *part, size_t n,
                               bool is_word, struct zn_ids *ids)
{
    struct tok_cached wanted = {.n_key = (uint8_t)(n << 1 | is_word)};
    if (n > sizeof wanted.key) {
        ZN_TRY(encode_new(model, s, part, n, is_word));
        return ids_append(ids, s->symbol, s->n_symbols);
    }
    uint64_t words[4] = {0};
    memcpy(wanted.key, part, n);
    memcpy(words, wanted.key, sizeof wanted.key);
    uint64_t hash = tok_mix(words[0] ^ wanted.n_key);
    for (size_t i = 1; i < 4; i++)
        hash = tok_mix(hash ^ words[i]);
    struct tok_cached *cached = &s->cache[(hash >> 32) % TOK_CACHE];
    if (cached->n_key == wanted.n_key && memcmp(cached->key, wanted.key, sizeof wanted.key) == 0)
        return ids_append(ids, cached->id, cached->n_ids);
    ZN_TRY(encode_new(model, s, part, n, is_word));
    if (s->n_symbols <= sizeof cached->id / sizeof cached->id[0]) {
        memcpy(cached->key, wanted.key, sizeof wanted.key);
        cached->n_key = wanted.n_key;
        cached->n_ids = (uint8_t)s->n_symbols;
        memcpy(cached->id, s->symbol, s->n_symbols * sizeof cached->id[0]);
    }
    return ids_append(ids, s->symbol, s->n_symbols);
}

zn_status bpe_part(const struct tok_model *model, struct tok_scratch *scratch, const char *part, size_t n,
                   struct zn_ids *ids)
{
    return encode_cached(model, scratch, part, n, false, ids);
}

static uint32_t character(const struct tok_model *model, const char *at, size_t *length)
{
    if (!model->bytes)
        return utf8_at(at, length);
    *length = 1;
    return byte_to_char((unsigned char)*at);
}

static bool is_known(const struct tok_model *model, const char *at, size_t length)
{
    return (model->bytes ? model->first[(unsigned char)*at] : vocab_find(&model->vocab, at, length)) != NONE;
}

size_t bpe_part_length(const struct tok_model *model, const char *word, size_t n)
{
    size_t i, length = 0;
    uint32_t left = character(model, word, &i), right;
    for (size_t before = i; i < n; left = right, before = length, i += length) {
        right = character(model, word + i, &length);
        /* Unknown characters may become one with their neighbours. */
        if (model_may_cut(model, left, right) && is_known(model, word + i - before, before) &&
            is_known(model, word + i, length))
            return i;
    }
    return n;
}

zn_status bpe_word(const struct tok_model *model, struct tok_scratch *scratch, const char *word, size_t n,
                   struct zn_ids *ids)
{
    if (n <= LONG_WORD)
        return encode_cached(model, scratch, word, n, true, ids);
    int32_t id = whole_word(model, scratch, word, n);
    if (id != NONE)
        return ids_append(ids, &id, 1);
    for (size_t length; n > 0; word += length, n -= length) {
        length = bpe_part_length(model, word, n);
        ZN_TRY(bpe_part(model, scratch, word, length, ids));
    }
    return ZN_OK;
}
