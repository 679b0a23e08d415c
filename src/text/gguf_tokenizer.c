/* Tokens, ids and template of a tokenizer as GGUF metadata. */
#include "text/gguf_tokenizer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/text.h"
#include "text/gguf_private.h"

/* The largest files of the hub have some 30 MB. */
enum { MAX_FILE = 512 << 20 };

/* llama.cpp's kinds of tokens. */
enum { NORMAL = 1, UNKNOWN = 2, CONTROL = 3, USER_DEFINED = 4, UNUSED = 5, BYTE = 6 };

/* ---- Tokens ---- */

/* What ids without a token are called: llama.cpp wants each name once. */
#define PADDING "[PAD%" PRId32 "]"

static bool has_token(const zn_tokenizer *t, int32_t id)
{
    return added_by_id(&t->added, id) || vocab_by_id(&t->model.vocab, id);
}

static zn_status check_ids(const zn_tokenizer *t, int64_t n_tokens)
{
    char name[32];
    if (t->n_ids > n_tokens)
        return zn_fail(ZN_ERR_INPUT, "%s: has ids up to %lld, but vocab_size of config.json is %lld: the folder's tokenizer is "
                       "not the model's", t->name, (long long)t->n_ids - 1, (long long)n_tokens);
    for (int32_t id = 0; id < n_tokens; id++) {
        if (has_token(t, id))
            continue;
        snprintf(name, sizeof name, PADDING, id);
        if (zn_tokenizer_id(t, name) >= 0)
            return zn_fail(ZN_ERR_UNSUPPORTED, "%s: has the token %s, which llama.cpp's files keep for ids without a token",
                           t->name, name);
    }
    return ZN_OK;
}

/* llama.cpp's converter takes such tokens for control tokens, whatever tokenizer.json says. */
static bool looks_special(const char *text)
{
    size_t n = strlen(text);
    return n >= 4 && memcmp(text, "<|", 2) == 0 && memcmp(text + n - 2, "|>", 2) == 0;
}

static int32_t type_of(const zn_tokenizer *t, bool sentencepiece, int32_t id)
{
    const struct tok_added *added = added_by_id(&t->added, id);
    if (sentencepiece && id == t->model.unk_id)
        return UNKNOWN;
    if (added)
        return added->special || looks_special(added->content) ? CONTROL : USER_DEFINED;
    for (int b = 0; sentencepiece && b < 256; b++)
        if (t->model.byte_token[b] == id)
            return BYTE;
    return vocab_by_id(&t->model.vocab, id) ? NORMAL : UNUSED;
}

/* llama.cpp looks for tokens of the user in the text before its spaces are replaced. */
static void add_spaced(zn_gguf_metadata *metadata, const char *text)
{
    zn_text spaced;
    zn_text_init(&spaced);
    for (const char *at = text; *at;) {
        bool is_blank = strncmp(at, "\xe2\x96\x81", 3) == 0;
        zn_text_add_bytes(&spaced, is_blank ? " " : at, 1);
        at += is_blank ? 3 : 1;
    }
    metadata->bytes.failed |= spaced.failed;
    zn_gguf_item_string(metadata, spaced.data ? spaced.data : "", spaced.n_bytes);
    zn_text_fini(&spaced);
}

static void add_token(const zn_tokenizer *t, int32_t type, int32_t id, zn_gguf_metadata *metadata)
{
    const struct tok_added *added = added_by_id(&t->added, id);
    const struct tok_token *token = vocab_by_id(&t->model.vocab, id);
    char name[32];
    if (added && type == USER_DEFINED)
        add_spaced(metadata, added->content);
    else if (added)
        zn_gguf_item_string(metadata, added->content, strlen(added->content));
    else if (token)
        zn_gguf_item_string(metadata, token->text, token->n);
    else
        zn_gguf_item_string(metadata, name, (size_t)snprintf(name, sizeof name, PADDING, id));
}

static void add_tokens(const zn_tokenizer *t, bool sentencepiece, int64_t n_tokens, zn_gguf_metadata *metadata)
{
    zn_gguf_add_array(metadata, "tokenizer.ggml.tokens", ZN_GGUF_STRING, (uint64_t)n_tokens);
    for (int32_t id = 0; id < n_tokens; id++)
        add_token(t, type_of(t, sentencepiece, id), id, metadata);
    zn_gguf_add_array(metadata, "tokenizer.ggml.token_type", ZN_GGUF_INT32, (uint64_t)n_tokens);
    for (int32_t id = 0; id < n_tokens; id++)
        zn_gguf_item_i32(metadata, type_of(t, sentencepiece, id));
}

static void tell_added(const zn_tokenizer *t, const struct zn_gguf_vocabulary *how)
{
    char text[320];
    for (size_t i = 0; i < t->added.n; i++) {
        const struct tok_added *a = &t->added.token[i];
        if (!a->lstrip && !a->rstrip && !a->single_word)
            continue;
        snprintf(text, sizeof text, "the token '%s' takes spaces beside it or stands alone (lstrip, rstrip, single_word), which "
                 "llama.cpp does not know", zn_shown(a->content).text);
        how->note(how->self, text);
        return;
    }
}

/* ---- The two kinds ---- */

/* "a b" of a merge; empty for a line that is none. */
static zn_status print_merge(zn_json *merges, size_t i, zn_text *line)
{
    const char *left, *right;
    zn_json *pair;
    line->n_bytes = 0;
    if (zn_json_item_type(merges, i) != ZN_JSON_ARRAY) {
        ZN_TRY(zn_json_item_string(merges, i, &left));
        if (strncmp(left, "#version", 8) != 0)
            zn_text_add(line, "%s", left);
        return ZN_OK;
    }
    ZN_TRY(zn_json_item_array(merges, i, &pair));
    ZN_TRY(zn_json_item_string(pair, 0, &left));
    ZN_TRY(zn_json_item_string(pair, 1, &right));
    if (strchr(left, ' ') || strchr(right, ' '))
        return zn_json_fail(pair, "a merge with a space is none of a byte-level BPE");
    zn_text_add(line, "%s %s", left, right);
    return ZN_OK;
}

/* Items are counted while they are added: the array's head comes last. */
static zn_status add_merges(zn_json *root, zn_gguf_metadata *metadata)
{
    zn_json *model, *merges;
    zn_gguf_metadata items;
    zn_text line;
    uint64_t n = 0;
    ZN_TRY(zn_json_get_object(root, "model", &model));
    ZN_TRY(zn_json_get_array(model, "merges", &merges));
    zn_gguf_metadata_init(&items);
    zn_text_init(&line);
    zn_status status = ZN_OK;
    for (size_t i = 0; i < zn_json_n_items(merges) && status == ZN_OK; i++) {
        status = print_merge(merges, i, &line);
        if (status != ZN_OK || line.n_bytes == 0)
            continue;
        zn_gguf_item_string(&items, line.data, line.n_bytes);
        n++;
    }
    if (status == ZN_OK)
        status = zn_text_status(&line);
    if (status == ZN_OK)
        status = zn_text_status(&items.bytes);
    zn_gguf_add_array(metadata, "tokenizer.ggml.merges", ZN_GGUF_STRING, n);
    zn_text_add_bytes(&metadata->bytes, items.bytes.data, items.bytes.n_bytes);
    zn_text_fini(&line);
    zn_gguf_metadata_fini(&items);
    return status;
}

static zn_status add_byte_level(const zn_tokenizer *t, const struct zn_gguf_vocabulary *how, zn_gguf_metadata *metadata)
{
    char *path;
    zn_json *root;
    const char *pre = how->pre;
    ZN_TRY(zn_path_join(how->folder, "tokenizer.json", &path));
    zn_status status = zn_json_load_file(path, MAX_FILE, &root);
    free(path);
    ZN_TRY(status);
    if (!pre)
        status = gguf_find_pre(root, t, how, &pre);
    if (status == ZN_OK) {
        zn_gguf_add_string(metadata, "tokenizer.ggml.model", "gpt2");
        zn_gguf_add_string(metadata, "tokenizer.ggml.pre", pre);
        add_tokens(t, false, how->n_tokens, metadata);
        status = add_merges(root, metadata);
    }
    zn_json_destroy(root);
    return status;
}

static zn_status add_sentencepiece(const zn_tokenizer *t, const struct zn_gguf_vocabulary *how, zn_gguf_metadata *metadata)
{
    bool prefix;
    float *scores;
    if (how->pre)
        return zn_fail(ZN_ERR_USAGE, "--pre %s: is for byte-level BPE; %s is SentencePiece's", zn_shown(how->pre).text, t->name);
    ZN_TRY(gguf_check_sentencepiece(t, how, &prefix));
    ZN_TRY(gguf_find_scores(t, how->n_tokens, &scores));
    zn_gguf_add_string(metadata, "tokenizer.ggml.model", "llama");
    zn_gguf_add_string(metadata, "tokenizer.ggml.pre", "default");
    add_tokens(t, true, how->n_tokens, metadata);
    zn_gguf_add_array(metadata, "tokenizer.ggml.scores", ZN_GGUF_FLOAT32, (uint64_t)how->n_tokens);
    for (int64_t i = 0; i < how->n_tokens; i++)
        zn_gguf_item_f32(metadata, scores[i]);
    zn_gguf_add_bool(metadata, "tokenizer.ggml.add_space_prefix", prefix);
    free(scores);
    return ZN_OK;
}

/* ---- Special ids ---- */

/* An id of config.json, or the first of a list; -1: none. */
static zn_status config_id(zn_json *config, const char *key, int32_t *id)
{
    zn_json *list;
    int64_t value = -1;
    if (zn_json_type_at(config, key) == ZN_JSON_ARRAY) {
        ZN_TRY(zn_json_get_array(config, key, &list));
        if (zn_json_n_items(list) > 0)
            ZN_TRY(zn_json_item_int(list, 0, INT32_MIN, INT32_MAX, &value));
    } else {
        ZN_TRY(zn_json_get_int_or(config, key, INT32_MIN, INT32_MAX, -1, &value));
    }
    *id = value < 0 ? -1 : (int32_t)value;
    return ZN_OK;
}

/* unk_token and pad_token of tokenizer_config.json; -1: not named. */
static zn_status read_named(const zn_tokenizer *t, const char *folder, int32_t *unk, int32_t *pad)
{
    char *path;
    zn_json *root;
    bool found;
    *unk = *pad = -1;
    ZN_TRY(zn_path_join(folder, "tokenizer_config.json", &path));
    zn_status status = zn_path_look(path, &found);
    if (status == ZN_OK && found) {
        status = zn_json_load_file(path, MAX_FILE, &root);
        if (status == ZN_OK) {
            status = tokenizer_named_id(root, "unk_token", t, unk);
            if (status == ZN_OK)
                status = tokenizer_named_id(root, "pad_token", t, pad);
            zn_json_destroy(root);
        }
    }
    free(path);
    return status;
}

/* llama.cpp puts bos before texts and eos behind them, each once or not at all. */
static zn_status check_around(const zn_tokenizer *t, const char *what, const int32_t *ids, size_t n, int32_t *named)
{
    if (n == 0)
        return ZN_OK;
    if (n > 1 || (*named >= 0 && ids[0] != *named))
        return zn_fail(ZN_ERR_UNSUPPORTED, "%s: the post_processor puts tokens around texts other than %s, which llama.cpp cannot",
                       t->name, what);
    *named = ids[0];
    return ZN_OK;
}

static zn_status add_special(const zn_tokenizer *t, const struct zn_gguf_vocabulary *how, zn_gguf_metadata *metadata)
{
    int32_t id[4] = {t->bos, t->eos};
    static const char *const of_config[] = {"bos_token_id", "eos_token_id", NULL, "pad_token_id"};
    static const char *const keys[] = {"tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id",
                                       "tokenizer.ggml.unknown_token_id", "tokenizer.ggml.padding_token_id"};
    ZN_TRY(read_named(t, how->folder, &id[2], &id[3]));
    ZN_TRY(check_around(t, "bos_token", t->before, t->n_before, &id[0]));
    ZN_TRY(check_around(t, "eos_token", t->behind, t->n_behind, &id[1]));
    if (t->model.unk_id >= 0)
        id[2] = t->model.unk_id;
    for (int i = 0; i < 4; i++) {
        if (id[i] < 0 && of_config[i])
            ZN_TRY(config_id(how->config, of_config[i], &id[i]));
        if (id[i] >= 0 && id[i] < how->n_tokens)
            zn_gguf_add_u32(metadata, keys[i], (uint32_t)id[i]);
    }
    zn_gguf_add_bool(metadata, "tokenizer.ggml.add_bos_token", t->n_before > 0);
    zn_gguf_add_bool(metadata, "tokenizer.ggml.add_eos_token", t->n_behind > 0);
    return ZN_OK;
}

zn_status zn_gguf_add_tokenizer(const zn_tokenizer *tokenizer, const struct zn_gguf_vocabulary *how,
                                zn_gguf_metadata *metadata)
{
    const zn_tokenizer *t = tokenizer;
    ZN_TRY(check_ids(t, how->n_tokens));
    if (t->model.bytes)
        ZN_TRY(add_byte_level(t, how, metadata));
    else if (gguf_is_sentencepiece(t))
        ZN_TRY(add_sentencepiece(t, how, metadata));
    else
        return zn_fail(ZN_ERR_UNSUPPORTED, "%s: is neither a byte-level BPE nor SentencePiece's with byte fallback: llama.cpp has "
                       "no tokenizer like it", t->name);
    ZN_TRY(add_special(t, how, metadata));
    tell_added(t, how);
    if (t->chat_template)
        zn_gguf_add_string(metadata, "tokenizer.chat_template", t->chat_template);
    return zn_text_status(&metadata->bytes);
}
