/* Which of llama.cpp's pre-tokenizers a tokenizer.json has. llama.cpp knows them by name only: each name stands for patterns that
 * are compiled in, and for whether merges are ignored for words that are tokens. */
#include <string.h>

#include "base/text.h"
#include "text/gguf_private.h"

#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define ENDINGS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPACES "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define WORDS(digits) ENDINGS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(ending, digits)                                                                                          \
    "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" ending "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER "*" ending "|" digits \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES

enum { MAX_SPLITS = 4 };

/* The patterns in the order in which a text is split by them. */
struct splits {
    const char *pattern[MAX_SPLITS];
    size_t n;
};

static const struct {
    const char *name;
    struct splits splits;
    bool ignore_merges;
    bool without_marks; /* llama.cpp's form of the pattern has no \p{M} */
} known[] = {
    {"gpt-2", {{GPT2}, 1}, false, false},
    {"smollm", {{"\\p{N}", GPT2}, 2}, false, false},
    {"llama-bpe", {{WORDS("\\p{N}{1,3}")}, 1}, true, false},
    {"dbrx", {{WORDS("\\p{N}{1,3}")}, 1}, false, false},
    {"qwen2", {{WORDS("\\p{N}")}, 1}, false, false},
    {"tekken", {{CASED("", "\\p{N}")}, 1}, true, true},
    {"gpt-4o", {{CASED(ENDINGS "?", "\\p{N}{1,3}")}, 1}, false, true},
};

static zn_status add_split(zn_json *at, const char *pattern, struct splits *splits)
{
    if (splits->n == MAX_SPLITS)
        return zn_json_fail(at, "llama.cpp has no pre-tokenizer of so many parts; if it knows this one, name it with --pre");
    splits->pattern[splits->n++] = pattern;
    return ZN_OK;
}

/* All known patterns match every character, so that isolated matches and the removal of what is between are the same. */
static zn_status add_pattern(zn_json *value, struct splits *splits)
{
    zn_json *pattern;
    const char *behavior, *text;
    bool invert;
    ZN_TRY(zn_json_get_object(value, "pattern", &pattern));
    ZN_TRY(zn_json_get_string(value, "behavior", &behavior));
    ZN_TRY(zn_json_get_bool(value, "invert", &invert));
    if (strcmp(behavior, invert ? "Removed" : "Isolated") != 0 || !zn_json_has(pattern, "Regex"))
        return zn_json_fail(value, "llama.cpp has no such Split; if it knows this pre_tokenizer, name it with --pre");
    ZN_TRY(zn_json_get_string(pattern, "Regex", &text));
    return add_split(value, text, splits);
}

static zn_status add_byte_level(zn_json *value, struct splits *splits)
{
    bool prefix, use_regex;
    ZN_TRY(zn_json_get_bool(value, "add_prefix_space", &prefix));
    ZN_TRY(zn_json_get_bool_or(value, "use_regex", true, &use_regex));
    if (prefix)
        return zn_json_fail(value, "add_prefix_space true: llama.cpp puts no space before a text of a byte-level BPE");
    return use_regex ? add_split(value, GPT2, splits) : ZN_OK;
}

static zn_status list_splits(zn_json *value, struct splits *splits)
{
    const char *type;
    zn_json *list, *item;
    bool individual;
    ZN_TRY(zn_json_get_string(value, "type", &type));
    if (strcmp(type, "Split") == 0)
        return add_pattern(value, splits);
    if (strcmp(type, "ByteLevel") == 0)
        return add_byte_level(value, splits);
    if (strcmp(type, "Digits") == 0) {
        ZN_TRY(zn_json_get_bool(value, "individual_digits", &individual));
        return add_split(value, individual ? "\\p{N}" : "\\p{N}+", splits);
    }
    if (strcmp(type, "Sequence") != 0)
        return zn_json_fail(value, "llama.cpp has no pre-tokenizer with %s; if it knows this one, name it with --pre",
                            zn_shown(type).text);
    ZN_TRY(zn_json_get_array(value, "pretokenizers", &list));
    for (size_t i = 0; i < zn_json_n_items(list); i++) {
        ZN_TRY(zn_json_item_object(list, i, &item));
        ZN_TRY(list_splits(item, splits));
    }
    return ZN_OK;
}

static bool are_equal(const struct splits *a, const struct splits *b)
{
    for (size_t i = 0; a->n == b->n && i < a->n; i++)
        if (strcmp(a->pattern[i], b->pattern[i]) != 0)
            return false;
    return a->n == b->n;
}

zn_status gguf_find_pre(zn_json *root, const zn_tokenizer *tokenizer, const struct zn_gguf_vocabulary *how, const char **name)
{
    const struct tok_ops *normalizers = &tokenizer->normalizers;
    zn_json *value;
    struct splits splits = {.n = 0};
    /* llama.cpp normalises nothing; texts are in NFC as a rule, other normalizers change them. */
    if (normalizers->n > 1 || (normalizers->n == 1 && normalizers->op[0].kind != TOK_NFC))
        return zn_json_fail(root, "has a normalizer besides NFC, which llama.cpp does not run");
    ZN_TRY(zn_json_get_object(root, "pre_tokenizer", &value));
    ZN_TRY(list_splits(value, &splits));
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (are_equal(&splits, &known[i].splits) && known[i].ignore_merges == tokenizer->model.ignore_merges) {
            if (known[i].without_marks)
                how->note(how->self, "llama.cpp cuts words with combining marks, as Devanagari has them, otherwise than this "
                          "tokenizer.json");
            *name = known[i].name;
            return ZN_OK;
        }
    }
    return zn_json_fail(value, "is none that is known of llama.cpp's (gpt-2, smollm, llama-bpe, dbrx, qwen2, tekken, gpt-4o), with "
                        "ignore_merges %s and the pattern %s; if llama.cpp has a name for it, give it with --pre",
                        tokenizer->model.ignore_merges ? "true" : "false",
                        splits.n > 0 ? zn_shown(splits.pattern[splits.n - 1]).text : "none");
}
