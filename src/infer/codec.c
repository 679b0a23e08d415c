/* Text through the folder's tokenizer, or bytes as text. */
#include "infer/codec.h"

#include <stdlib.h>
#include <string.h>

#include "text/byte_text.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

enum { END_OF_TEXT = 256 };

struct zn_codec {
    zn_tokenizer *tokenizer; /* NULL: bytes */
    int64_t vocabulary;
};

zn_status zn_codec_open(const char *folder, int64_t vocabulary, bool byte_tokenizer, zn_codec **codec)
{
    zn_tokenizer *tokenizer = NULL;
    bool found;
    ZN_TRY(zn_byte_text_check(folder, vocabulary, byte_tokenizer));
    ZN_TRY(zn_folder_has_tokenizer(folder, &found));
    if (found)
        ZN_TRY(zn_tokenizer_open(folder, &tokenizer));
    else if (vocabulary < 256)
        return zn_fail(ZN_ERR_USAGE, "--byte-tokenizer: the vocabulary of %lld in %s is too small for bytes",
                       (long long)vocabulary, folder);
    zn_codec *c = calloc(1, sizeof *c);
    if (!c) {
        zn_tokenizer_close(tokenizer);
        return zn_fail(ZN_ERR_MEMORY, "no memory for a vocabulary");
    }
    c->tokenizer = tokenizer;
    c->vocabulary = vocabulary;
    *codec = c;
    return ZN_OK;
}

void zn_codec_close(zn_codec *c)
{
    if (!c)
        return;
    zn_tokenizer_close(c->tokenizer);
    free(c);
}

static zn_status encode_bytes(const char *text, struct zn_ids *ids)
{
    for (; *text; text++)
        ZN_TRY(zn_ids_add(ids, (unsigned char)*text));
    return ZN_OK;
}

/* Hands the ids over, or frees them after a failure. */
static zn_status hand_over(struct zn_ids *from, zn_status status, int32_t **ids, size_t *n)
{
    if (status != ZN_OK) {
        zn_ids_fini(from);
        return status;
    }
    *ids = from->id;
    *n = from->n;
    return ZN_OK;
}

zn_status zn_codec_encode(const zn_codec *c, const char *text, int32_t **ids, size_t *n)
{
    struct zn_ids all = {0};
    zn_status status = c->tokenizer ? zn_tokenizer_encode(c->tokenizer, text, strlen(text), true, &all)
                                    : encode_bytes(text, &all);
    return hand_over(&all, status, ids, n);
}

zn_status zn_codec_encode_chat(const zn_codec *c, const struct zn_chat_message *messages, size_t n_messages, int32_t **ids,
                               size_t *n)
{
    if (!c->tokenizer)
        return zn_fail(ZN_ERR_USAGE, "--chat: the folder has no tokenizer and so no chat template");
    struct zn_ids all = {0};
    char *text;
    ZN_TRY(zn_chat_render(c->tokenizer, messages, n_messages, true, &text));
    /* The template writes the special tokens itself. */
    zn_status status = zn_tokenizer_encode(c->tokenizer, text, strlen(text), false, &all);
    free(text);
    return hand_over(&all, status, ids, n);
}

static zn_status decode_bytes(const int32_t *ids, size_t n, char **text, size_t *n_bytes)
{
    char *bytes = malloc(n + 1), *out = malloc(3 * n + 1);
    if (!bytes || !out) {
        free(bytes);
        free(out);
        return zn_fail(ZN_ERR_MEMORY, "no memory for a text of %zu tokens", n);
    }
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (ids[i] >= 0 && ids[i] < 256) /* others end the text or mean nothing */
            bytes[kept++] = (char)ids[i];
    *n_bytes = utf8_repair(bytes, kept, out);
    out[*n_bytes] = '\0';
    *text = out;
    free(bytes);
    return ZN_OK;
}

/* Models have ids beyond their tokenizer's, to round the vocabulary up: these are no text. */
static zn_status decode_known(const zn_codec *c, const int32_t *ids, size_t n, char **text,
                              size_t *n_bytes)
{
    int64_t end = zn_tokenizer_n_ids(c->tokenizer);
    int32_t *known = malloc((n + 1) * sizeof *known);
    if (!known)
        return zn_fail(ZN_ERR_MEMORY, "no memory for a text of %zu tokens", n);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (ids[i] < end)
            known[kept++] = ids[i];
    zn_status status = zn_tokenizer_decode(c->tokenizer, known, kept, true, text, n_bytes);
    free(known);
    return status;
}

zn_status zn_codec_decode(const zn_codec *c, const int32_t *ids, size_t n, char **text,
                          size_t *n_bytes)
{
    return c->tokenizer ? decode_known(c, ids, n, text, n_bytes) : decode_bytes(ids, n, text, n_bytes);
}

int32_t zn_codec_end(const zn_codec *c)
{
    if (c->tokenizer)
        return zn_tokenizer_eos(c->tokenizer);
    return c->vocabulary > END_OF_TEXT ? END_OF_TEXT : -1;
}
