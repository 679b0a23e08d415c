/* Bytes as text. */
#include "train/codec.h"

#include <stdlib.h>
#include <string.h>

#include "base/files.h"

enum { END_OF_TEXT = 256 };

struct zn_codec {
    int64_t vocabulary;
};

static bool has_file(const char *folder, const char *name)
{
    char *path;
    if (zn_path_join(folder, name, &path) != ZN_OK)
        return false;
    bool found = zn_file_exists(path);
    free(path);
    return found;
}

zn_status zn_codec_open(const char *folder, int64_t vocabulary, zn_codec **codec)
{
    static const char *const names[] = {"tokenizer.json", "tokenizer.model", "vocab.json"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (has_file(folder, names[i]))
            return zn_fail(ZN_ERR_UNSUPPORTED, "%s: %s: not in this build", folder, names[i]);
    if (vocabulary < 256)
        return zn_fail(ZN_ERR_INPUT, "%s has no tokenizer.json, and a vocabulary of %lld is too small for bytes",
                       folder, (long long)vocabulary);
    zn_codec *c = calloc(1, sizeof *c);
    if (!c)
        return zn_fail(ZN_ERR_MEMORY, "no memory for a vocabulary");
    c->vocabulary = vocabulary;
    *codec = c;
    return ZN_OK;
}

void zn_codec_close(zn_codec *c)
{
    free(c);
}

zn_status zn_codec_encode(const zn_codec *c, const char *text, int32_t **ids, size_t *n)
{
    (void)c;
    size_t n_bytes = strlen(text);
    int32_t *all = malloc((n_bytes + 1) * sizeof *all);
    if (!all)
        return zn_fail(ZN_ERR_MEMORY, "no memory for %zu tokens", n_bytes);
    for (size_t i = 0; i < n_bytes; i++)
        all[i] = (unsigned char)text[i];
    *ids = all;
    *n = n_bytes;
    return ZN_OK;
}

zn_status zn_codec_encode_chat(const zn_codec *c, const char *message, int32_t **ids, size_t *n)
{
    (void)c, (void)message, (void)ids, (void)n;
    return zn_fail(ZN_ERR_USAGE, "--chat: the folder has no tokenizer and so no chat template");
}

/* Length of the character that begins at `c`, or 0 when these bytes are none; *bad is then how many
 * of them one U+FFFD stands for: the longest beginning of a character (Unicode, section 3.9). */
static size_t character(const unsigned char *c, size_t n, size_t *bad)
{
    unsigned char low = 0x80, high = 0xbf;
    size_t length = c[0] < 0x80 ? 1 : c[0] < 0xc2 ? 0 : c[0] < 0xe0 ? 2 : c[0] < 0xf0 ? 3 : c[0] < 0xf5 ? 4 : 0;
    if (c[0] == 0xe0)
        low = 0xa0;
    else if (c[0] == 0xed)
        high = 0x9f; /* no surrogates */
    else if (c[0] == 0xf0)
        low = 0x90;
    else if (c[0] == 0xf4)
        high = 0x8f;
    *bad = 1;
    for (size_t i = 1; i < length; i++) {
        if (i >= n || c[i] < low || c[i] > high)
            return 0;
        low = 0x80;
        high = 0xbf;
        *bad = i + 1;
    }
    return length;
}

/* `out` has room for three bytes for each of `bytes`. Returns its length. */
static size_t make_utf8(const unsigned char *bytes, size_t n, char *out)
{
    static const char replacement[] = "\xef\xbf\xbd";
    char *end = out;
    for (size_t i = 0; i < n;) {
        size_t bad, length = character(bytes + i, n - i, &bad);
        memcpy(end, length ? (const char *)bytes + i : replacement, length ? length : 3);
        end += length ? length : 3;
        i += length ? length : bad;
    }
    return (size_t)(end - out);
}

zn_status zn_codec_decode(const zn_codec *c, const int32_t *ids, size_t n, char **text,
                          size_t *n_bytes)
{
    (void)c;
    unsigned char *bytes = malloc(n + 1);
    char *out = malloc(3 * n + 1);
    if (!bytes || !out) {
        free(bytes);
        free(out);
        return zn_fail(ZN_ERR_MEMORY, "no memory for a text of %zu tokens", n);
    }
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (ids[i] >= 0 && ids[i] < 256) /* others end the text or mean nothing */
            bytes[kept++] = (unsigned char)ids[i];
    *n_bytes = make_utf8(bytes, kept, out);
    out[*n_bytes] = '\0';
    *text = out;
    free(bytes);
    return ZN_OK;
}

int32_t zn_codec_end(const zn_codec *c)
{
    return c->vocabulary > END_OF_TEXT ? END_OF_TEXT : -1;
}
