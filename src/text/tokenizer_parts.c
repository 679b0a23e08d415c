/* The components of tokenizer.json, from their JSON to simple operations. What is not known is
 * refused by its name and place. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "text/tokenizer_private.h"
#include "text/tokenizer_unicode.h"

/* Sequences in sequences, deeper than any file has them. */
enum { MAX_DEPTH = 8 };

#define GPT2_PATTERN "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
/* The library runs this one with Rust's regex, whose \w has the two joiners as well. */
#define WORD "\\w\\u200c\\u200d"
#define WHITESPACE_PATTERN "[" WORD "]+|[^" WORD "\\s]+"

static zn_status new_op(const zn_json *at, struct tok_ops *ops, enum tok_kind kind, struct tok_op **op)
{
    if (ops->n == TOK_MAX_OPS)
        return zn_json_fail(at, "more than %d components", (int)TOK_MAX_OPS);
    *op = &ops->op[ops->n++];
    **op = (struct tok_op){.kind = kind};
    return ZN_OK;
}

static zn_status set_text(const char *text, char **copy, size_t *n)
{
    *n = strlen(text);
    *copy = strdup(text);
    return *copy ? ZN_OK : zn_fail(ZN_ERR_MEMORY, "out of memory for a tokenizer's text");
}

static zn_status set_regex(const zn_json *at, const char *pattern, struct tok_op *op)
{
    char error[TOK_REGEX_ERROR];
    op->pattern.regex = regex_create(pattern, error);
    return op->pattern.regex ? ZN_OK : zn_json_fail(at, "%s", error);
}

/* {"String": text} or {"Regex": text}. */
static zn_status set_pattern(zn_json *component, struct tok_op *op)
{
    zn_json *pattern;
    const char *text;
    ZN_TRY(zn_json_get_object(component, "pattern", &pattern));
    if (zn_json_has(pattern, "Regex")) {
        ZN_TRY(zn_json_get_string(pattern, "Regex", &text));
        return set_regex(pattern, text, op);
    }
    ZN_TRY(zn_json_get_string(pattern, "String", &text));
    if (!text[0])
        return zn_json_fail(pattern, "an empty pattern is not supported");
    return set_text(text, &op->pattern.literal, &op->pattern.n_literal);
}

static zn_status set_content(zn_json *component, const char *key, struct tok_op *op)
{
    const char *text;
    ZN_TRY(zn_json_get_string(component, key, &text));
    return set_text(text, &op->content, &op->n_content);
}

/* The string of one character. */
static zn_status set_character(zn_json *component, const char *key, struct tok_op *op)
{
    ZN_TRY(set_content(component, key, op));
    size_t length = 0;
    if (op->n_content > 0)
        utf8_at(op->content, &length);
    if (length != op->n_content || length == 0)
        return zn_json_fail(component, "%s is '%s', expected one character", key, zn_shown(op->content).text);
    return ZN_OK;
}

static zn_status set_behavior(zn_json *component, const char *fallback, struct tok_op *op)
{
    static const char *const names[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext",
                                        "Contiguous"};
    const char *name;
    if (fallback)
        ZN_TRY(zn_json_get_string_or(component, "behavior", fallback, &name));
    else
        ZN_TRY(zn_json_get_string(component, "behavior", &name));
    for (int i = 0; i < 5; i++) {
        if (strcmp(name, names[i]) == 0) {
            op->behavior = (enum tok_behavior)i;
            return ZN_OK;
        }
    }
    return zn_json_fail(component, "the behavior %s is not known", zn_shown(name).text);
}

/* Each item of the list of a Sequence. */
static zn_status each(zn_json *sequence, const char *key, struct tok_ops *ops, int depth,
                      zn_status (*part)(zn_json *, struct tok_ops *, int))
{
    zn_json *list, *item;
    if (depth == MAX_DEPTH)
        return zn_json_fail(sequence, "more than %d sequences in each other", (int)MAX_DEPTH);
    ZN_TRY(zn_json_get_array(sequence, key, &list));
    for (size_t i = 0; i < zn_json_n_items(list); i++) {
        ZN_TRY(zn_json_item_object(list, i, &item));
        ZN_TRY(part(item, ops, depth + 1));
    }
    return ZN_OK;
}

/* ---- Normalisers ---- */

static zn_status normalizer(zn_json *value, struct tok_ops *ops, int depth)
{
    static const struct {
        const char *name;
        enum tok_kind kind;
    } plain[] = {{"NFC", TOK_NFC}, {"NFD", TOK_NFD}, {"NFKC", TOK_NFKC}, {"NFKD", TOK_NFKD},
                 {"Lowercase", TOK_LOWERCASE}};
    const char *type;
    struct tok_op *op = NULL;
    ZN_TRY(zn_json_get_string(value, "type", &type));
    if (strcmp(type, "Sequence") == 0)
        return each(value, "normalizers", ops, depth, normalizer);
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
        if (strcmp(type, plain[i].name) == 0)
            return new_op(value, ops, plain[i].kind, &op);
    if (strcmp(type, "Prepend") == 0) {
        ZN_TRY(new_op(value, ops, TOK_PREPEND, &op));
        return set_content(value, "prepend", op);
    }
    if (strcmp(type, "Replace") == 0) {
        ZN_TRY(new_op(value, ops, TOK_REPLACE, &op));
        ZN_TRY(set_pattern(value, op));
        return set_content(value, "content", op);
    }
    return zn_json_fail(value, "the normalizer %s is not supported", zn_shown(type).text);
}

zn_status parts_normalizer(zn_json *value, struct tok_ops *ops)
{
    return value ? normalizer(value, ops, 0) : ZN_OK;
}

/* ---- Pre-tokenizers ---- */

static zn_status byte_level(zn_json *value, struct tok_ops *ops)
{
    bool prefix, use_regex;
    struct tok_op *op = NULL;
    ZN_TRY(zn_json_get_bool(value, "add_prefix_space", &prefix));
    ZN_TRY(zn_json_get_bool_or(value, "use_regex", true, &use_regex));
    if (prefix) {
        ZN_TRY(new_op(value, ops, TOK_PREFIX, &op));
        ZN_TRY(set_text(" ", &op->content, &op->n_content));
    }
    if (use_regex) {
        ZN_TRY(new_op(value, ops, TOK_SPLIT, &op));
        op->behavior = TOK_ISOLATED;
        ZN_TRY(set_regex(value, GPT2_PATTERN, op));
    }
    return new_op(value, ops, TOK_BYTES, &op);
}

/* Whether a piece gets the replacement before it: never, only where the text begins, or always.
 * Older files say add_prefix_space instead. */
static zn_status prepend_scheme(zn_json *value, const char **scheme)
{
    bool prefix;
    ZN_TRY(zn_json_get_string_or(value, "prepend_scheme", "always", scheme));
    ZN_TRY(zn_json_get_bool_or(value, "add_prefix_space", true, &prefix));
    if (strcmp(*scheme, "always") != 0 && strcmp(*scheme, "first") != 0 && strcmp(*scheme, "never") != 0)
        return zn_json_fail(value, "the prepend_scheme %s is not known", zn_shown(*scheme).text);
    if (!prefix && strcmp(*scheme, "never") != 0)
        return zn_json_fail(value, "add_prefix_space false does not go with the prepend_scheme %s", *scheme);
    return ZN_OK;
}

static zn_status metaspace(zn_json *value, struct tok_ops *ops)
{
    const char *scheme;
    bool split;
    struct tok_op *op = NULL;
    ZN_TRY(prepend_scheme(value, &scheme));
    ZN_TRY(zn_json_get_bool_or(value, "split", true, &split));
    ZN_TRY(new_op(value, ops, TOK_REPLACE, &op));
    ZN_TRY(set_text(" ", &op->pattern.literal, &op->pattern.n_literal));
    ZN_TRY(set_character(value, "replacement", op));
    if (strcmp(scheme, "never") != 0) {
        ZN_TRY(new_op(value, ops, TOK_PREFIX, &op));
        op->only_first = strcmp(scheme, "first") == 0;
        ZN_TRY(set_character(value, "replacement", op));
    }
    if (split) {
        const char *replacement;
        ZN_TRY(new_op(value, ops, TOK_SPLIT, &op));
        op->behavior = TOK_MERGED_WITH_NEXT;
        ZN_TRY(zn_json_get_string(value, "replacement", &replacement));
        ZN_TRY(set_text(replacement, &op->pattern.literal, &op->pattern.n_literal));
    }
    return ZN_OK;
}

static zn_status split(zn_json *value, struct tok_ops *ops)
{
    struct tok_op *op = NULL;
    ZN_TRY(new_op(value, ops, TOK_SPLIT, &op));
    ZN_TRY(set_pattern(value, op));
    ZN_TRY(set_behavior(value, NULL, op));
    return zn_json_get_bool(value, "invert", &op->invert);
}

/* Those that look at characters one by one, and Whitespace. */
static zn_status by_character(zn_json *value, const char *type, struct tok_ops *ops)
{
    bool individual;
    struct tok_op *op = NULL;
    ZN_TRY(new_op(value, ops, TOK_SPLIT, &op));
    if (strcmp(type, "Digits") == 0) {
        ZN_TRY(zn_json_get_bool(value, "individual_digits", &individual));
        op->pattern.is = char_is_numeric;
        op->behavior = individual ? TOK_ISOLATED : TOK_CONTIGUOUS;
    } else if (strcmp(type, "Punctuation") == 0) {
        op->pattern.is = char_is_punctuation;
        return set_behavior(value, "Isolated", op);
    } else if (strcmp(type, "WhitespaceSplit") == 0) {
        op->pattern.is = char_is_space;
        op->behavior = TOK_REMOVED;
    } else {
        op->behavior = TOK_REMOVED;
        op->invert = true;
        return set_regex(value, WHITESPACE_PATTERN, op);
    }
    return ZN_OK;
}

static zn_status pre_tokenizer(zn_json *value, struct tok_ops *ops, int depth)
{
    static const char *const by_characters[] = {"Digits", "Punctuation", "WhitespaceSplit", "Whitespace"};
    const char *type;
    ZN_TRY(zn_json_get_string(value, "type", &type));
    if (strcmp(type, "Sequence") == 0)
        return each(value, "pretokenizers", ops, depth, pre_tokenizer);
    if (strcmp(type, "ByteLevel") == 0)
        return byte_level(value, ops);
    if (strcmp(type, "Metaspace") == 0)
        return metaspace(value, ops);
    if (strcmp(type, "Split") == 0)
        return split(value, ops);
    for (size_t i = 0; i < sizeof by_characters / sizeof by_characters[0]; i++)
        if (strcmp(type, by_characters[i]) == 0)
            return by_character(value, type, ops);
    return zn_json_fail(value, "the pre_tokenizer %s is not supported", zn_shown(type).text);
}

zn_status parts_pre_tokenizer(zn_json *value, struct tok_ops *ops)
{
    return value ? pre_tokenizer(value, ops, 0) : ZN_OK;
}

/* ---- Decoders ---- */

static zn_status strip(zn_json *value, struct tok_op *op)
{
    int64_t start, stop;
    ZN_TRY(set_character(value, "content", op));
    ZN_TRY(zn_json_get_int(value, "start", 0, INT32_MAX, &start));
    ZN_TRY(zn_json_get_int(value, "stop", 0, INT32_MAX, &stop));
    op->start = (size_t)start;
    op->stop = (size_t)stop;
    return ZN_OK;
}

static zn_status decoder(zn_json *value, struct tok_ops *ops, int depth)
{
    const char *type, *scheme;
    struct tok_op *op = NULL;
    ZN_TRY(zn_json_get_string(value, "type", &type));
    if (strcmp(type, "Sequence") == 0)
        return each(value, "decoders", ops, depth, decoder);
    if (strcmp(type, "ByteLevel") == 0)
        return new_op(value, ops, TOK_FROM_BYTES, &op);
    if (strcmp(type, "ByteFallback") == 0)
        return new_op(value, ops, TOK_FALLBACK, &op);
    if (strcmp(type, "Fuse") == 0)
        return new_op(value, ops, TOK_FUSE, &op);
    if (strcmp(type, "Strip") == 0) {
        ZN_TRY(new_op(value, ops, TOK_STRIP, &op));
        return strip(value, op);
    }
    if (strcmp(type, "Replace") == 0) {
        ZN_TRY(new_op(value, ops, TOK_REPLACE, &op));
        ZN_TRY(set_pattern(value, op));
        return set_content(value, "content", op);
    }
    if (strcmp(type, "Metaspace") == 0) {
        ZN_TRY(new_op(value, ops, TOK_FROM_SPACES, &op));
        ZN_TRY(prepend_scheme(value, &scheme));
        op->only_first = strcmp(scheme, "never") == 0;
        return set_character(value, "replacement", op);
    }
    return zn_json_fail(value, "the decoder %s is not supported", zn_shown(type).text);
}

zn_status parts_decoder(zn_json *value, struct tok_ops *ops)
{
    return value ? decoder(value, ops, 0) : ZN_OK;
}

/* ---- Post-processors ---- */

static zn_status add_special(zn_json *special_tokens, const char *name, int32_t **ids, size_t *n)
{
    zn_json *token, *list;
    int64_t id;
    ZN_TRY(zn_json_get_object(special_tokens, name, &token));
    ZN_TRY(zn_json_get_array(token, "ids", &list));
    size_t more = zn_json_n_items(list);
    int32_t *grown = realloc(*ids, (*n + more + 1) * sizeof *grown);
    if (!grown)
        return zn_fail(ZN_ERR_MEMORY, "out of memory for the post-processor");
    *ids = grown;
    for (size_t i = 0; i < more; i++) {
        ZN_TRY(zn_json_item_int(list, i, 0, INT32_MAX - 1, &id));
        grown[(*n)++] = (int32_t)id;
    }
    return ZN_OK;
}

/* "single": special tokens, the text once, special tokens. */
static zn_status template(zn_json *value, zn_tokenizer *t)
{
    zn_json *single, *special_tokens, *piece, *inner;
    const char *name;
    bool text_seen = false;
    ZN_TRY(zn_json_get_array(value, "single", &single));
    ZN_TRY(zn_json_get_object(value, "special_tokens", &special_tokens));
    for (size_t i = 0; i < zn_json_n_items(single); i++) {
        ZN_TRY(zn_json_item_object(single, i, &piece));
        if (zn_json_has(piece, "Sequence")) {
            ZN_TRY(zn_json_get_object(piece, "Sequence", &inner));
            ZN_TRY(zn_json_get_string(inner, "id", &name));
            if (strcmp(name, "A") != 0 || text_seen)
                return zn_json_fail(piece, "a template of one text has it once, as A");
            text_seen = true;
            continue;
        }
        ZN_TRY(zn_json_get_object(piece, "SpecialToken", &inner));
        ZN_TRY(zn_json_get_string(inner, "id", &name));
        ZN_TRY(add_special(special_tokens, name, text_seen ? &t->behind : &t->before,
                           text_seen ? &t->n_behind : &t->n_before));
    }
    return text_seen ? ZN_OK : zn_json_fail(single, "a template without the text");
}

static zn_status post_processor(zn_json *value, zn_tokenizer *t, int depth, bool *has_template)
{
    const char *type;
    zn_json *list, *item;
    ZN_TRY(zn_json_get_string(value, "type", &type));
    if (strcmp(type, "ByteLevel") == 0)
        return ZN_OK; /* changes offsets, no ids */
    if (strcmp(type, "TemplateProcessing") == 0) {
        if (*has_template)
            return zn_json_fail(value, "a second TemplateProcessing is not supported");
        *has_template = true;
        return template(value, t);
    }
    if (strcmp(type, "Sequence") != 0 || depth == MAX_DEPTH)
        return zn_json_fail(value, "the post_processor %s is not supported", zn_shown(type).text);
    ZN_TRY(zn_json_get_array(value, "processors", &list));
    for (size_t i = 0; i < zn_json_n_items(list); i++) {
        ZN_TRY(zn_json_item_object(list, i, &item));
        ZN_TRY(post_processor(item, t, depth + 1, has_template));
    }
    return ZN_OK;
}

zn_status parts_post_processor(zn_json *value, zn_tokenizer *tokenizer)
{
    bool has_template = false;
    return value ? post_processor(value, tokenizer, 0, &has_template) : ZN_OK;
}
