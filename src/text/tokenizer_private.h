/* The parts of a tokenizer. A tokenizer.json is taken apart into three lists of simple operations
 * (on the text, on its pieces, on tokens when decoding), the added tokens and the BPE model.
 *
 *   text -> added tokens cut out -> normalise -> added tokens again -> cut in pieces -> BPE -> ids
 *
 * A piece is never copied but by the operations that change it. */
#ifndef ZN_TEXT_TOKENIZER_PRIVATE_H
#define ZN_TEXT_TOKENIZER_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"
#include "base/status.h"
#include "text/tokenizer.h"
#include "text/tokenizer_regex.h"

/* Bytes that grow; zero-initialised, freed with buffer_fini. */
struct tok_buffer {
    char *data;
    size_t n, capacity;
};
void buffer_fini(struct tok_buffer *buffer);
zn_status buffer_reserve(struct tok_buffer *buffer, size_t n_more);
zn_status buffer_add(struct tok_buffer *buffer, const char *data, size_t n);

/* A part of the text on its way to ids. */
struct tok_piece {
    const char *text;
    size_t n;
    size_t n_first; /* how many of its bytes come from the first character of the whole text */
};

/* ---- Operations ---- */

enum tok_kind {
    TOK_NFC, /* normalisers */
    TOK_NFD,
    TOK_NFKC,
    TOK_NFKD,
    TOK_LOWERCASE,
    TOK_PREPEND,     /* content, before a text that is not empty */
    TOK_REPLACE,     /* every match of the pattern by content; also of pieces and tokens */
    TOK_PREFIX,      /* pieces: content, where the piece does not begin with it */
    TOK_SPLIT,       /* a piece becomes several */
    TOK_BYTES,       /* bytes become GPT-2's characters */
    TOK_FROM_BYTES,  /* tokens: back, all in one */
    TOK_FALLBACK,    /* <0x41> becomes A */
    TOK_FUSE,        /* all in one */
    TOK_STRIP,       /* up to `start` of content before, `stop` behind */
    TOK_FROM_SPACES, /* content becomes a space, in the first token nothing */
};

enum tok_behavior { TOK_REMOVED, TOK_ISOLATED, TOK_MERGED_WITH_PREVIOUS, TOK_MERGED_WITH_NEXT, TOK_CONTIGUOUS };

/* One of the three. */
struct tok_pattern {
    tok_regex *regex;
    bool (*is)(uint32_t character); /* each such character is a match */
    char *literal;
    size_t n_literal;
};

struct tok_op {
    enum tok_kind kind;
    struct tok_pattern pattern;
    enum tok_behavior behavior;
    bool invert;     /* of TOK_SPLIT: what matches is what is between */
    bool only_first; /* of TOK_PREFIX: where the text begins; of TOK_FROM_SPACES: always a space */
    char *content;
    size_t n_content;
    size_t start, stop;
};

enum { TOK_MAX_OPS = 32 };
struct tok_ops {
    struct tok_op op[TOK_MAX_OPS];
    size_t n;
};
void ops_fini(struct tok_ops *ops);

/* Where the search for all matches of a pattern stands; zeroed by the caller. */
struct pattern_search {
    struct regex_search regex;
    size_t from;
};
bool pattern_next(const struct tok_pattern *pattern, tok_matcher *matcher, const char *text, size_t n, bool recent,
                  struct pattern_search *search, size_t *start, size_t *end, zn_status *status);

/* Calls `sink` for each piece of a piece that is not empty, in order. */
typedef zn_status (*piece_sink)(void *self, struct tok_piece piece);
zn_status split_piece(const struct tok_op *op, tok_matcher *matcher, bool recent, struct tok_piece piece,
                      piece_sink sink, void *self);

/* TOK_REPLACE, TOK_PREPEND, TOK_PREFIX, TOK_BYTES: the changed piece is in `buffer`, or `piece` is left
 * as it is when there is nothing to change. */
zn_status change_piece(const struct tok_op *op, tok_matcher *matcher, bool recent, struct tok_piece *piece,
                       struct tok_buffer *buffer);

/* All normalisers, one after the other. The result lies in one of the two buffers or is untouched. */
zn_status normalize_piece(const struct tok_ops *ops, tok_matcher *matcher, bool recent, struct tok_piece *piece,
                          struct tok_buffer buffer[2]);
/* TOK_NFC … TOK_LOWERCASE. */
zn_status normalize_unicode(enum tok_kind kind, struct tok_piece *piece, struct tok_buffer *buffer);

/* ---- The model ---- */

struct tok_token {
    const char *text;
    uint32_t n;
    int32_t id;
};

/* Open addressing throughout: a power of two of slots, at most half full. */
struct tok_vocab {
    struct tok_buffer texts;
    struct tok_token *token; /* sorted by id when loaded */
    size_t n;
    uint32_t *slot; /* index + 1 by text; 0: free */
    size_t mask;
    size_t longest;
};
struct tok_merge {
    uint64_t pair;
    uint32_t rank, used;
};
struct tok_model {
    struct tok_vocab vocab;
    struct tok_merge *merge;
    size_t merge_mask;
    int32_t *merged;   /* the id that the merge of this rank gives */
    uint64_t *bigram;  /* neighbours inside of what merges give, + 1; see model_may_cut */
    size_t bigram_mask;
    int32_t byte_token[256]; /* <0x00> … or -1 */
    int32_t first[256];      /* with `bytes`: the id of GPT-2's character, or -1 */
    char *unk;               /* NULL: unknown characters vanish */
    int32_t unk_id;          /* -1: not in the vocabulary */
    bool bytes;              /* texts come as plain bytes: TOK_BYTES is done here */
    bool byte_fallback, fuse_unk, ignore_merges;
};
zn_status model_load(zn_json *model, bool bytes, struct tok_model *out);
void model_fini(struct tok_model *model);

/* -1: none. */
int32_t vocab_find(const struct tok_vocab *vocab, const char *text, size_t n);
/* NULL: none. */
const struct tok_token *vocab_by_id(const struct tok_vocab *vocab, int32_t id);

static inline uint64_t tok_mix(uint64_t x)
{
    x *= 0x9e3779b97f4a7c15u;
    return x ^ (x >> 29);
}

/* The rank of a pair; UINT32_MAX: it does not merge. */
static inline uint32_t model_rank(const struct tok_model *model, int32_t left, int32_t right)
{
    uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    for (size_t i = tok_mix(pair) & model->merge_mask;; i = (i + 1) & model->merge_mask) {
        const struct tok_merge *merge = &model->merge[i];
        if (!merge->used)
            return UINT32_MAX;
        if (merge->pair == pair)
            return merge->rank;
    }
}

/* Whether no merge can ever cross the place between two characters: none gives a token in which
 * they are neighbours. What is left and right of it is then encoded apart. */
bool model_may_cut(const struct tok_model *model, uint32_t left, uint32_t right);

/* ---- Added tokens ---- */

struct tok_added {
    char *content; /* as written */
    char *matched; /* what is searched for: normalised when `normalized` */
    int32_t id;
    bool single_word, lstrip, rstrip, normalized, special;
};
struct tok_trie_node {
    uint32_t child, sibling; /* 0: none */
    int32_t token;           /* index in the list of added tokens, -1: none */
    unsigned char byte;
};
struct tok_trie {
    struct tok_trie_node *node; /* NULL: no tokens */
    size_t n, capacity;
    uint32_t first[256]; /* children of the root */
};
struct tok_added_list {
    struct tok_added *token; /* sorted by id when loaded */
    size_t n;
    struct tok_trie trie[2]; /* [0] searched in the text, [1] in the normalised text */
    tok_regex *word;         /* one word character */
};
void added_fini(struct tok_added_list *added);
zn_status added_load(zn_json *list, const struct tok_vocab *vocab, const struct tok_ops *normalizers,
                     struct tok_added_list *added);
const struct tok_added *added_by_id(const struct tok_added_list *added, int32_t id); /* NULL: none */
const struct tok_added *added_by_content(const struct tok_added_list *added, const char *content);
zn_status trie_add(struct tok_trie *trie, const char *text, int32_t token);
/* Calls `sink` for what is between added tokens (id -1) and for each of them. */
typedef zn_status (*added_sink)(void *self, size_t start, size_t end, int32_t id);
zn_status added_cut(const struct tok_added_list *added, bool normalized, tok_matcher *matcher, const char *text,
                    size_t n, added_sink sink, void *self);

/* ---- A thread's own ---- */

struct tok_cached {
    uint8_t n_key, n_ids;
    char key[30];
    int32_t id[8];
};
enum { TOK_CACHE = 1 << 15 };

struct tok_scratch {
    struct tok_scratch *next; /* in the pool */
    tok_matcher *matcher;
    struct tok_buffer step[TOK_MAX_OPS];
    struct tok_cached *cache;
    struct tok_buffer mapped;
    /* The symbols of one word. */
    int32_t *symbol;
    uint32_t *rank;
    int32_t *before, *after;
    uint64_t *heap;
    size_t n_symbols, capacity, n_heap, heap_capacity;
};
struct tok_pool; /* guards its list by a mutex */
struct tok_pool *pool_create(void);
void pool_destroy(struct tok_pool *pool);
struct tok_scratch *pool_take(struct tok_pool *pool); /* NULL: no memory */
void pool_give(struct tok_pool *pool, struct tok_scratch *scratch);

zn_status ids_append(struct zn_ids *ids, const int32_t *id, size_t n);

/* Appends the ids of one word. */
zn_status bpe_word(const struct tok_model *model, struct tok_scratch *scratch, const char *word, size_t n,
                   struct zn_ids *ids);
/* The same for a part of a word between places of model_may_cut. */
zn_status bpe_part(const struct tok_model *model, struct tok_scratch *scratch, const char *part, size_t n,
                   struct zn_ids *ids);
/* The length of the first part of a long word: up to a place where it may be cut, or all. */
size_t bpe_part_length(const struct tok_model *model, const char *word, size_t n);

/* ---- All of it ---- */

struct zn_tokenizer {
    char *name; /* the file, for messages */
    struct tok_ops normalizers, splitters, decoders;
    bool has_decoder;
    struct tok_added_list added;
    struct tok_model model;
    int32_t *before, *behind; /* the post-processor's tokens */
    size_t n_before, n_behind;
    struct tok_pool *pool;
    int n_threads;
    int64_t n_ids;
    int32_t bos, eos;
    char *chat_template;
};

/* The id of "bos_token" or the like of tokenizer_config.json: a text, or an object with its content. -1: none. */
zn_status tokenizer_named_id(zn_json *root, const char *key, const zn_tokenizer *tokenizer, int32_t *id);

/* tokenizer_parts.c: the components by their JSON; NULL stands for null. */
zn_status parts_normalizer(zn_json *value, struct tok_ops *ops);
zn_status parts_pre_tokenizer(zn_json *value, struct tok_ops *ops);
zn_status parts_decoder(zn_json *value, struct tok_ops *ops);
zn_status parts_post_processor(zn_json *value, zn_tokenizer *tokenizer);

#endif
