/* SentencePiece's BPE, which llama.cpp runs by scores alone: of all neighbours whose text is a token, those with the highest
 * score are joined first. A tokenizer.json has a list of merges instead. Both give the same tokens where the list has every
 * way to make a token, and the ways to make one token side by side; then a token's score is its place in the list. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "text/gguf_private.h"
#include "text/tokenizer_unicode.h"

#define BLANK "\xe2\x96\x81" /* U+2581, which stands for a space */

bool gguf_is_sentencepiece(const zn_tokenizer *tokenizer)
{
    return tokenizer->model.byte_fallback && !tokenizer->model.bytes;
}

static bool is_text(const char *text, size_t n, const char *wanted)
{
    return text && n == strlen(wanted) && memcmp(text, wanted, n) == 0;
}

/* ---- Spaces ---- */

struct spaces {
    bool replaced, prefixed, only_before; /* only_before: not after special tokens, not where there is one */
};

static zn_status read_op(const zn_tokenizer *t, const struct tok_op *op, struct spaces *spaces)
{
    bool is_blank = is_text(op->content, op->n_content, BLANK);
    if (op->kind == TOK_REPLACE && is_blank && is_text(op->pattern.literal, op->pattern.n_literal, " "))
        spaces->replaced = true;
    else if (op->kind == TOK_PREPEND && is_blank)
        spaces->prefixed = true;
    else if (op->kind == TOK_PREFIX && is_blank)
        spaces->prefixed = spaces->only_before = true;
    else
        return zn_fail(ZN_ERR_UNSUPPORTED, "%s: has a normalizer or pre_tokenizer that llama.cpp does not run for SentencePiece: "
                       "a prefix and the replacement of spaces by U+2581 alone can be exported", t->name);
    return ZN_OK;
}

static zn_status read_spaces(const zn_tokenizer *t, struct spaces *spaces)
{
    for (size_t i = 0; i < t->normalizers.n; i++)
        ZN_TRY(read_op(t, &t->normalizers.op[i], spaces));
    for (size_t i = 0; i < t->splitters.n; i++)
        ZN_TRY(read_op(t, &t->splitters.op[i], spaces));
    return spaces->replaced ? ZN_OK
                            : zn_fail(ZN_ERR_UNSUPPORTED, "%s: byte fallback without spaces that become U+2581 is no tokenizer of "
                                      "llama.cpp", t->name);
}

/* ---- Merges ---- */

/* Tokens that no merge of characters gives. */
static bool is_unmerged(const zn_tokenizer *t, int32_t id)
{
    if (added_by_id(&t->added, id))
        return true;
    for (int b = 0; b < 256; b++)
        if (t->model.byte_token[b] == id)
            return true;
    return false;
}

static zn_status fail_merge(const zn_tokenizer *t, const struct tok_token *token, const char *why)
{
    char *text = strndup(token->text, token->n);
    zn_status status = zn_fail(ZN_ERR_UNSUPPORTED, "%s: the merges are not SentencePiece's: %s '%s', so that llama.cpp, which "
                               "merges by the score of what comes out, would give other ids", t->name, why,
                               zn_shown(text ? text : "").text);
    free(text);
    return status;
}

/* Every cut of a token into two must be a merge. */
static zn_status check_cuts(const zn_tokenizer *t, const struct tok_token *token)
{
    const struct tok_model *model = &t->model;
    size_t length;
    for (size_t i = 0; i < token->n; i += length) {
        utf8_at(token->text + i, &length);
        int32_t left = i > 0 ? vocab_find(&model->vocab, token->text, i) : -1;
        int32_t right = i > 0 ? vocab_find(&model->vocab, token->text + i, token->n - i) : -1;
        if (left >= 0 && right >= 0 && model_rank(model, left, right) == UINT32_MAX && !is_unmerged(t, left) &&
            !is_unmerged(t, right))
            return fail_merge(t, token, "not all pairs merge to");
    }
    return ZN_OK;
}

static uint32_t count_ranks(const struct tok_model *model)
{
    uint32_t n = 0;
    for (size_t i = 0; i <= model->merge_mask; i++)
        if (model->merge[i].used && model->merge[i].rank >= n)
            n = model->merge[i].rank + 1;
    return n;
}

/* Merges that give one token follow each other. */
static zn_status check_order(const zn_tokenizer *t)
{
    const struct tok_model *model = &t->model;
    uint32_t n = count_ranks(model);
    zn_status status = ZN_OK;
    bool *seen = calloc((size_t)t->n_ids, sizeof *seen);
    if (!seen)
        return zn_fail(ZN_ERR_MEMORY, "%s: out of memory", t->name);
    for (uint32_t i = 0; i < n && status == ZN_OK; i++) {
        int32_t id = model->merged[i];
        if ((i == 0 || id != model->merged[i - 1]) && seen[id])
            status = fail_merge(t, vocab_by_id(&model->vocab, id), "others stand between those of");
        seen[id] = true;
    }
    free(seen);
    return status;
}

zn_status gguf_check_sentencepiece(const zn_tokenizer *t, const struct zn_gguf_vocabulary *how, bool *prefix)
{
    struct spaces spaces = {0};
    ZN_TRY(read_spaces(t, &spaces));
    if (t->model.ignore_merges)
        return zn_fail(ZN_ERR_UNSUPPORTED, "%s: ignore_merges with byte fallback is no tokenizer of llama.cpp", t->name);
    for (int b = 0; b < 256; b++)
        if (t->model.byte_token[b] < 0)
            return zn_fail(ZN_ERR_UNSUPPORTED, "%s: the token <0x%02X> is missing, which llama.cpp needs for bytes", t->name,
                           (unsigned)b);
    for (size_t i = 0; i < t->model.vocab.n; i++)
        if (!is_unmerged(t, t->model.vocab.token[i].id))
            ZN_TRY(check_cuts(t, &t->model.vocab.token[i]));
    ZN_TRY(check_order(t));
    if (spaces.only_before)
        how->note(how->self, "llama.cpp puts a space before every text and after every special token; this tokenizer.json has "
                  "Metaspace, which puts it only where there is none, and may leave it out after special tokens");
    *prefix = spaces.prefixed;
    return ZN_OK;
}

/* Special tokens and bytes have 0, as in SentencePiece's files; characters come behind all that is merged. */
zn_status gguf_find_scores(const zn_tokenizer *t, int64_t n_tokens, float **scores)
{
    const struct tok_model *model = &t->model;
    uint32_t n_ranks = count_ranks(model);
    float *score = calloc((size_t)n_tokens, sizeof *score);
    if (!score)
        return zn_fail(ZN_ERR_MEMORY, "%s: out of memory for %lld scores", t->name, (long long)n_tokens);
    for (size_t i = 0; i < model->vocab.n; i++)
        if (!is_unmerged(t, model->vocab.token[i].id))
            score[model->vocab.token[i].id] = -(float)n_ranks;
    for (uint32_t i = n_ranks; i-- > 0;)
        score[model->merged[i]] = (float)(0 - (int64_t)i);
    *scores = score;
    return ZN_OK;
}
