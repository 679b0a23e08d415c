/* The list "added_tokens". Ids are given as the library gives them: that of the vocabulary when the
 * token is in it, else the next one behind the vocabulary. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "text/tokenizer_private.h"
#include "text/tokenizer_unicode.h"

static int compare_ids(const void *a, const void *b)
{
    int32_t left = ((const struct tok_added *)a)->id, right = ((const struct tok_added *)b)->id;
    return (left > right) - (left < right);
}

const struct tok_added *added_by_id(const struct tok_added_list *added, int32_t id)
{
    struct tok_added wanted = {.id = id};
    return added->n ? bsearch(&wanted, added->token, added->n, sizeof wanted, compare_ids) : NULL;
}

const struct tok_added *added_by_content(const struct tok_added_list *added, const char *content)
{
    for (size_t i = 0; i < added->n; i++)
        if (strcmp(added->token[i].content, content) == 0)
            return &added->token[i];
    return NULL;
}

static zn_status read_flags(zn_json *item, struct tok_added *token)
{
    int64_t id; /* checked, though the place in the list decides */
    ZN_TRY(zn_json_get_int(item, "id", 0, INT32_MAX - 1, &id));
    ZN_TRY(zn_json_get_bool(item, "single_word", &token->single_word));
    ZN_TRY(zn_json_get_bool(item, "lstrip", &token->lstrip));
    ZN_TRY(zn_json_get_bool(item, "rstrip", &token->rstrip));
    ZN_TRY(zn_json_get_bool(item, "normalized", &token->normalized));
    return zn_json_get_bool(item, "special", &token->special);
}

/* What the token looks like in a normalised text. */
static zn_status find_matched(zn_json *item, const struct tok_ops *normalizers, tok_matcher *matcher,
                              struct tok_added *token)
{
    struct tok_buffer buffer[2] = {0};
    struct tok_piece piece = {.text = token->content, .n = strlen(token->content), .n_first = 1};
    size_t skip;
    bool recent = false;
    utf8_valid(piece.text, piece.n, &skip, &recent);
    zn_status status = ZN_OK;
    if (token->normalized)
        status = normalize_piece(normalizers, matcher, recent, &piece, buffer);
    if (status == ZN_OK && (piece.n == 0 || memchr(piece.text, 0, piece.n)))
        status = zn_json_fail(item, "nothing is left of '%s' when it is normalised",
                              zn_shown(token->content).text);
    if (status == ZN_OK && !(token->matched = strndup(piece.text, piece.n)))
        status = zn_fail(ZN_ERR_MEMORY, "out of memory for the added tokens");
    buffer_fini(&buffer[0]);
    buffer_fini(&buffer[1]);
    return status;
}

/* The place for a token: a second one of the same text takes that of the first. */
static struct tok_added *place_for(struct tok_added_list *added, int32_t id)
{
    for (size_t i = added->n; id >= 0 && i-- > 0;) {
        if (added->token[i].id == id) {
            free(added->token[i].content);
            free(added->token[i].matched);
            return &added->token[i];
        }
    }
    return &added->token[added->n++];
}

static zn_status add_one(zn_json *item, const struct tok_vocab *vocab, const struct tok_ops *normalizers,
                         tok_matcher *matcher, int32_t *next_id, struct tok_added_list *added)
{
    const char *content;
    ZN_TRY(zn_json_get_string(item, "content", &content));
    struct tok_added token = {0};
    ZN_TRY(read_flags(item, &token));
    if (!content[0])
        return ZN_OK; /* never found */
    int32_t id = vocab_find(vocab, content, strlen(content));
    const struct tok_added *same = id < 0 ? added_by_content(added, content) : NULL;
    id = same ? same->id : id;
    struct tok_added *place = place_for(added, id);
    token.id = id < 0 ? (*next_id)++ : id;
    token.content = strdup(content);
    *place = token;
    if (!token.content)
        return zn_fail(ZN_ERR_MEMORY, "out of memory for the added tokens");
    return find_matched(item, normalizers, matcher, place);
}

static zn_status build_tries(zn_json *list, struct tok_added_list *added)
{
    for (size_t i = 0; i < added->n; i++) {
        const struct tok_added *token = &added->token[i];
        zn_status status = trie_add(&added->trie[token->normalized], token->matched, (int32_t)i);
        if (status == ZN_ERR_INPUT)
            return zn_json_fail(list, "two tokens are searched for by the same text '%s'",
                                zn_shown(token->matched).text);
        ZN_TRY(status);
    }
    return ZN_OK;
}

zn_status added_load(zn_json *list, const struct tok_vocab *vocab, const struct tok_ops *normalizers,
                     struct tok_added_list *added)
{
    char error[TOK_REGEX_ERROR];
    size_t n = list ? zn_json_n_items(list) : 0;
    int32_t next_id = (int32_t)vocab->n;
    zn_json *item;
    if (n > 1000000)
        return zn_json_fail(list, "%zu added tokens are too many", n);
    added->token = calloc(n + 1, sizeof *added->token);
    added->word = regex_create("[\\w\\u200c\\u200d]", error);
    tok_matcher *matcher = matcher_create();
    zn_status status = ZN_OK;
    if (!added->token || !added->word || !matcher)
        status = zn_fail(ZN_ERR_MEMORY, "out of memory for %zu added tokens", n);
    for (size_t i = 0; status == ZN_OK && i < n; i++) {
        status = zn_json_item_object(list, i, &item);
        if (status == ZN_OK)
            status = add_one(item, vocab, normalizers, matcher, &next_id, added);
    }
    matcher_destroy(matcher);
    ZN_TRY(status);
    qsort(added->token, added->n, sizeof *added->token, compare_ids);
    return build_tries(list, added);
}
