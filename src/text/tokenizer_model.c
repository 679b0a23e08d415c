/* The BPE model of tokenizer.json: vocabulary, merges, and what is known of them in advance. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "text/tokenizer_private.h"
#include "text/tokenizer_unicode.h"

/* ---- Vocabulary ---- */

static uint64_t hash_text(const char *text, size_t n)
{
    uint64_t hash = n, eight;
    for (; n >= 8; n -= 8, text += 8) {
        memcpy(&eight, text, 8);
        hash = tok_mix(hash ^ eight);
    }
    eight = 0;
    memcpy(&eight, text, n);
    return tok_mix(hash ^ eight);
}

/* The slot of a text, or the free one where it belongs. */
static size_t find_slot(const struct tok_vocab *vocab, const char *text, size_t n)
{
    size_t i = (hash_text(text, n) >> 8) & vocab->mask;
    for (; vocab->slot[i] != 0; i = (i + 1) & vocab->mask) {
        const struct tok_token *token = &vocab->token[vocab->slot[i] - 1];
        if (token->n == n && memcmp(token->text, text, n) == 0)
            break;
    }
    return i;
}

int32_t vocab_find(const struct tok_vocab *vocab, const char *text, size_t n)
{
    if (vocab->n == 0)
        return -1;
    uint32_t found = vocab->slot[find_slot(vocab, text, n)];
    return found == 0 ? -1 : vocab->token[found - 1].id;
}

const struct tok_token *vocab_by_id(const struct tok_vocab *vocab, int32_t id)
{
    size_t low = 0, high = vocab->n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (vocab->token[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < vocab->n && vocab->token[low].id == id ? &vocab->token[low] : NULL;
}

/* Slots for n things, at most half of them used. */
static size_t n_slots(size_t n)
{
    size_t slots = 16;
    while (slots < 2 * n)
        slots *= 2;
    return slots;
}

static int by_id(const void *a, const void *b)
{
    int32_t left = ((const struct tok_token *)a)->id, right = ((const struct tok_token *)b)->id;
    return (left > right) - (left < right);
}

static zn_status read_tokens(zn_json *object, struct tok_vocab *vocab)
{
    size_t n_bytes = 0, i = 0;
    for (const char *key = zn_json_first_key(object); key; key = zn_json_next_key(object, key))
        n_bytes += strlen(key);
    ZN_TRY(buffer_reserve(&vocab->texts, n_bytes));
    for (const char *key = zn_json_first_key(object); key; key = zn_json_next_key(object, key)) {
        int64_t id;
        size_t n = strlen(key);
        ZN_TRY(zn_json_get_int(object, key, 0, INT32_MAX - 1, &id));
        char *text = vocab->texts.data + vocab->texts.n;
        ZN_TRY(buffer_add(&vocab->texts, key, n));
        vocab->token[i++] = (struct tok_token){.text = text, .n = (uint32_t)n, .id = (int32_t)id};
        vocab->longest = n > vocab->longest ? n : vocab->longest;
    }
    vocab->n = i;
    return ZN_OK;
}

static zn_status load_vocab(zn_json *object, struct tok_vocab *vocab)
{
    size_t n = zn_json_n_keys(object);
    vocab->token = calloc(n + 1, sizeof *vocab->token);
    vocab->slot = calloc(n_slots(n), sizeof *vocab->slot);
    vocab->mask = n_slots(n) - 1;
    if (!vocab->token || !vocab->slot)
        return zn_fail(ZN_ERR_MEMORY, "out of memory for a vocabulary of %zu tokens", n);
    ZN_TRY(read_tokens(object, vocab));
    qsort(vocab->token, n, sizeof *vocab->token, by_id);
    for (size_t i = 0; i < n; i++) {
        const struct tok_token *token = &vocab->token[i];
        if (i > 0 && token[-1].id == token->id)
            return zn_json_fail(object, "two tokens have the id %" PRId32, token->id);
        vocab->slot[find_slot(vocab, token->text, token->n)] = (uint32_t)(i + 1);
    }
    return ZN_OK;
}

/* ---- Merges ---- */

/* A merge of this many bytes is no token of any language. */
enum { MAX_TOKEN = 4096 };

static zn_status fail_merge(const zn_json *merges, size_t i, const char *token, size_t n)
{
    char text[64];
    snprintf(text, sizeof text, "%.*s", (int)(n < sizeof text ? n : sizeof text), token);
    return zn_json_fail(merges, "merge %zu needs the token '%s', which is not in the vocabulary", i,
                        zn_shown(text).text);
}

static zn_status add_merge(const zn_json *merges, size_t i, struct tok_model *model, const char *left,
                           size_t n_left, const char *right, size_t n_right, uint32_t rank)
{
    char joined[MAX_TOKEN];
    if (n_left > MAX_TOKEN / 2 || n_right > MAX_TOKEN / 2)
        return zn_json_fail(merges, "merge %zu has a token of more than %d bytes", i, MAX_TOKEN / 2);
    memcpy(joined, left, n_left);
    memcpy(joined + n_left, right, n_right);
    int32_t a = vocab_find(&model->vocab, left, n_left), b = vocab_find(&model->vocab, right, n_right);
    int32_t c = vocab_find(&model->vocab, joined, n_left + n_right);
    if (a < 0)
        return fail_merge(merges, i, left, n_left);
    if (b < 0)
        return fail_merge(merges, i, right, n_right);
    if (c < 0)
        return fail_merge(merges, i, joined, n_left + n_right);
    uint64_t pair = (uint64_t)(uint32_t)a << 32 | (uint32_t)b;
    size_t at = tok_mix(pair) & model->merge_mask;
    while (model->merge[at].used && model->merge[at].pair != pair)
        at = (at + 1) & model->merge_mask;
    model->merge[at] = (struct tok_merge){.pair = pair, .rank = rank, .used = 1};
    model->merged[rank] = c;
    return ZN_OK;
}

/* "a b", the older form, or ["a", "b"]. Ranks go by the order; a line "#version…" has none. */
static zn_status load_merge(zn_json *merges, size_t i, struct tok_model *model, uint32_t *rank)
{
    const char *left, *right;
    size_t n_left;
    if (zn_json_item_type(merges, i) == ZN_JSON_ARRAY) {
        zn_json *pair;
        ZN_TRY(zn_json_item_array(merges, i, &pair));
        if (zn_json_n_items(pair) != 2)
            return zn_json_fail(pair, "expected two tokens, found %zu", zn_json_n_items(pair));
        ZN_TRY(zn_json_item_string(pair, 0, &left));
        ZN_TRY(zn_json_item_string(pair, 1, &right));
        n_left = strlen(left);
    } else {
        ZN_TRY(zn_json_item_string(merges, i, &left));
        if (strncmp(left, "#version", 8) == 0)
            return ZN_OK;
        const char *space = strchr(left, ' ');
        if (!space || strchr(space + 1, ' '))
            return zn_json_fail(merges, "merge %zu is not two tokens with a space between: '%s'", i,
                                zn_shown(left).text);
        n_left = (size_t)(space - left);
        right = space + 1;
    }
    ZN_TRY(add_merge(merges, i, model, left, n_left, right, strlen(right), *rank));
    ++*rank;
    return ZN_OK;
}

static zn_status load_merges(zn_json *merges, struct tok_model *model)
{
    size_t n = zn_json_n_items(merges);
    uint32_t rank = 0;
    if (n > INT32_MAX / 2)
        return zn_json_fail(merges, "%zu merges are too many", n);
    model->merge = calloc(n_slots(n), sizeof *model->merge);
    model->merge_mask = n_slots(n) - 1;
    model->merged = calloc(n + 1, sizeof *model->merged);
    if (!model->merge || !model->merged)
        return zn_fail(ZN_ERR_MEMORY, "out of memory for %zu merges", n);
    for (size_t i = 0; i < n; i++)
        ZN_TRY(load_merge(merges, i, model, &rank));
    return ZN_OK;
}

/* ---- Places to cut ---- */

static uint64_t bigram_key(uint32_t left, uint32_t right)
{
    return ((uint64_t)left << 32 | right) + 1;
}

bool model_may_cut(const struct tok_model *model, uint32_t left, uint32_t right)
{
    uint64_t key = bigram_key(left, right);
    size_t i = tok_mix(key) & model->bigram_mask;
    for (; model->bigram[i] != 0; i = (i + 1) & model->bigram_mask)
        if (model->bigram[i] == key)
            return false;
    return true;
}

/* Whether it was new. */
static bool put_bigram(struct tok_model *model, uint64_t key)
{
    size_t i = tok_mix(key) & model->bigram_mask;
    while (model->bigram[i] != 0 && model->bigram[i] != key)
        i = (i + 1) & model->bigram_mask;
    bool is_new = model->bigram[i] == 0;
    model->bigram[i] = key;
    return is_new;
}

static zn_status grow_bigrams(struct tok_model *model, size_t slots)
{
    uint64_t *old = model->bigram;
    size_t n_old = old ? model->bigram_mask + 1 : 0;
    uint64_t *grown = calloc(slots, sizeof *grown);
    if (!grown)
        return zn_fail(ZN_ERR_MEMORY, "out of memory for %zu pairs of characters", slots);
    model->bigram = grown;
    model->bigram_mask = slots - 1;
    for (size_t i = 0; i < n_old; i++)
        if (old[i] != 0)
            put_bigram(model, old[i]);
    free(old);
    return ZN_OK;
}

static zn_status add_bigram(struct tok_model *model, uint64_t key, size_t *n)
{
    if (2 * *n > model->bigram_mask)
        ZN_TRY(grow_bigrams(model, 2 * (model->bigram_mask + 1)));
    *n += put_bigram(model, key);
    return ZN_OK;
}

/* All neighbours in all tokens; that some of the tokens come from no merge does no harm. */
static zn_status load_bigrams(struct tok_model *model)
{
    size_t n = 0;
    ZN_TRY(grow_bigrams(model, 4096));
    for (size_t k = 0; k < model->vocab.n; k++) {
        const struct tok_token *token = &model->vocab.token[k];
        uint32_t left = 0;
        for (size_t i = 0, length; i < token->n; i += length) {
            uint32_t right = utf8_at(token->text + i, &length);
            if (i > 0)
                ZN_TRY(add_bigram(model, bigram_key(left, right), &n));
            left = right;
        }
    }
    return ZN_OK;
}

/* ---- The whole ---- */

static zn_status refuse_unsupported(zn_json *json)
{
    static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    const char *type, *text;
    double dropout;
    ZN_TRY(zn_json_get_string_or(json, "type", "BPE", &type));
    if (strcmp(type, "BPE") != 0)
        return zn_json_fail(json, "the model type %s is not supported, only BPE is", zn_shown(type).text);
    ZN_TRY(zn_json_get_number_or(json, "dropout", 0, &dropout));
    if (dropout != 0)
        return zn_json_fail(json, "dropout is not supported");
    for (size_t i = 0; i < 2; i++) {
        ZN_TRY(zn_json_get_string_or(json, affixes[i], "", &text));
        if (text[0])
            return zn_json_fail(json, "%s '%s' is not supported", affixes[i], zn_shown(text).text);
    }
    return ZN_OK;
}

static zn_status load_unknown(zn_json *json, struct tok_model *model)
{
    const char *unk;
    ZN_TRY(zn_json_get_string_or(json, "unk_token", NULL, &unk));
    if (unk && !(model->unk = strdup(unk)))
        return zn_fail(ZN_ERR_MEMORY, "out of memory for unk_token");
    model->unk_id = unk ? vocab_find(&model->vocab, unk, strlen(unk)) : -1;
    return ZN_OK;
}

zn_status model_load(zn_json *json, bool bytes, struct tok_model *model)
{
    zn_json *vocab, *merges;
    ZN_TRY(refuse_unsupported(json));
    ZN_TRY(zn_json_get_bool_or(json, "fuse_unk", false, &model->fuse_unk));
    ZN_TRY(zn_json_get_bool_or(json, "byte_fallback", false, &model->byte_fallback));
    ZN_TRY(zn_json_get_bool_or(json, "ignore_merges", false, &model->ignore_merges));
    ZN_TRY(zn_json_get_object(json, "vocab", &vocab));
    ZN_TRY(zn_json_get_array(json, "merges", &merges));
    ZN_TRY(load_vocab(vocab, &model->vocab));
    ZN_TRY(load_merges(merges, model));
    ZN_TRY(load_bigrams(model));
    ZN_TRY(load_unknown(json, model));
    model->bytes = bytes;
    for (unsigned b = 0; b < 256; b++) {
        char name[8], mapped[4];
        snprintf(name, sizeof name, "<0x%02X>", b);
        model->byte_token[b] = vocab_find(&model->vocab, name, 6);
        model->first[b] = vocab_find(&model->vocab, mapped, utf8_put(mapped, byte_to_char((unsigned char)b)));
    }
    return ZN_OK;
}

void model_fini(struct tok_model *model)
{
    buffer_fini(&model->vocab.texts);
    free(model->vocab.token);
    free(model->vocab.slot);
    free(model->merge);
    free(model->merged);
    free(model->bigram);
    free(model->unk);
}
