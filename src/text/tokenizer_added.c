/* Added tokens are found before anything else is done to a text: leftmost first, of those the
 * longest, without overlap. A trie by bytes; a search begins anew at each byte, but most bytes begin
 * no token and cost one look. */
#include <stdlib.h>
#include <string.h>

#include "text/tokenizer_private.h"
#include "text/tokenizer_unicode.h"

void added_fini(struct tok_added_list *added)
{
    for (size_t i = 0; i < added->n; i++) {
        free(added->token[i].content);
        free(added->token[i].matched);
    }
    free(added->token);
    free(added->trie[0].node);
    free(added->trie[1].node);
    regex_destroy(added->word);
}

static uint32_t *find_child(struct tok_trie *trie, uint32_t parent, unsigned char byte)
{
    uint32_t *at = parent == 0 ? &trie->first[byte] : &trie->node[parent].child;
    while (*at != 0 && trie->node[*at].byte != byte)
        at = &trie->node[*at].sibling;
    return at;
}

/* Index 0 is the root, which is no one's child. */
static zn_status new_node(struct tok_trie *trie, unsigned char byte)
{
    if (trie->n + 2 > trie->capacity) {
        size_t capacity = 2 * trie->capacity + 64;
        struct tok_trie_node *node = realloc(trie->node, capacity * sizeof *node);
        if (!node || capacity > UINT32_MAX)
            return zn_fail(ZN_ERR_MEMORY, "out of memory for the added tokens");
        trie->node = node;
        trie->capacity = capacity;
    }
    if (trie->n == 0)
        trie->node[trie->n++] = (struct tok_trie_node){.token = -1};
    trie->node[trie->n++] = (struct tok_trie_node){.token = -1, .byte = byte};
    return ZN_OK;
}

zn_status trie_add(struct tok_trie *trie, const char *text, int32_t token)
{
    uint32_t node = 0;
    for (const char *c = text; *c; c++) {
        unsigned char byte = (unsigned char)*c;
        uint32_t child = *find_child(trie, node, byte);
        if (child == 0) {
            ZN_TRY(new_node(trie, byte)); /* moves the nodes */
            child = (uint32_t)(trie->n - 1);
            *find_child(trie, node, byte) = child;
        }
        node = child;
    }
    if (trie->node[node].token >= 0)
        return zn_fail(ZN_ERR_INPUT, "another added token is searched for by the same text");
    trie->node[node].token = token;
    return ZN_OK;
}

/* The longest token that begins at `text`; -1: none. */
static int32_t longest_at(const struct tok_trie *trie, const char *text, size_t n, size_t *length)
{
    int32_t token = -1;
    uint32_t node = trie->first[(unsigned char)text[0]];
    for (size_t i = 0; node != 0;) {
        i++;
        if (trie->node[node].token >= 0) {
            token = trie->node[node].token;
            *length = i;
        }
        if (i == n)
            break;
        node = trie->node[node].child;
        while (node != 0 && trie->node[node].byte != (unsigned char)text[i])
            node = trie->node[node].sibling;
    }
    return token;
}

static bool is_word(const struct tok_added_list *added, tok_matcher *matcher, const char *text, size_t n,
                    zn_status *status)
{
    struct regex_search search = {0};
    size_t start, end, skip;
    bool recent = false;
    utf8_valid(text, n, &skip, &recent);
    return regex_next(added->word, matcher, text, n, recent, &search, &start, &end, status);
}

/* Whether there is a word character right before or behind. */
static zn_status in_word(const struct tok_added_list *added, tok_matcher *matcher, const char *text, size_t n,
                         size_t start, size_t end, bool *inside)
{
    zn_status status = ZN_OK;
    size_t length;
    *inside = false;
    if (start > 0) {
        length = utf8_before(text, start);
        *inside = is_word(added, matcher, text + start - length, length, &status);
    }
    if (status == ZN_OK && !*inside && end < n) {
        utf8_at(text + end, &length);
        *inside = is_word(added, matcher, text + end, length, &status);
    }
    return status;
}

static size_t spaces_before(const char *text, size_t at)
{
    size_t length;
    while (at > 0) {
        size_t back = utf8_before(text, at);
        if (!char_is_space(utf8_at(text + at - back, &length)))
            break;
        at -= back;
    }
    return at;
}

static size_t spaces_behind(const char *text, size_t n, size_t at)
{
    size_t length;
    while (at < n && char_is_space(utf8_at(text + at, &length)))
        at += length;
    return at;
}

zn_status added_cut(const struct tok_added_list *added, bool normalized, tok_matcher *matcher, const char *text,
                    size_t n, added_sink sink, void *self)
{
    const struct tok_trie *trie = &added->trie[normalized];
    size_t done = 0, length = 0;
    for (size_t i = 0; trie->node && i < n;) {
        int32_t index = longest_at(trie, text + i, n - i, &length);
        if (index < 0) {
            i++;
            continue;
        }
        const struct tok_added *token = &added->token[index];
        size_t start = i, end = i + length;
        i = end;
        if (token->single_word) {
            bool inside;
            ZN_TRY(in_word(added, matcher, text, n, start, end, &inside));
            if (inside)
                continue;
        }
        if (token->lstrip)
            start = spaces_before(text, start);
        if (token->rstrip)
            end = spaces_behind(text, n, end);
        if (start > done)
            ZN_TRY(sink(self, done, start, -1));
        ZN_TRY(sink(self, start, end, token->id));
        done = end;
    }
    return done < n ? sink(self, done, n, -1) : ZN_OK;
}
