/* Characters for the tokenizer: UTF-8, and the classes its components ask for. */
#ifndef ZN_TEXT_TOKENIZER_UNICODE_H
#define ZN_TEXT_TOKENIZER_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The character at `text`, which is valid UTF-8 and not at its end; sets its length. */
static inline uint32_t utf8_at(const char *text, size_t *n_bytes)
{
    const unsigned char *c = (const unsigned char *)text;
    if (c[0] < 0x80) {
        *n_bytes = 1;
        return c[0];
    }
    if (c[0] < 0xe0) {
        *n_bytes = 2;
        return (c[0] & 0x1fu) << 6 | (c[1] & 0x3fu);
    }
    if (c[0] < 0xf0) {
        *n_bytes = 3;
        return (c[0] & 0x0fu) << 12 | (c[1] & 0x3fu) << 6 | (c[2] & 0x3fu);
    }
    *n_bytes = 4;
    return (c[0] & 0x07u) << 18 | (c[1] & 0x3fu) << 12 | (c[2] & 0x3fu) << 6 | (c[3] & 0x3fu);
}

/* The length of the character that ends before `end`, which is not at the begin of `text`. */
static inline size_t utf8_before(const char *text, size_t end)
{
    size_t start = end - 1;
    while (start > 0 && ((unsigned char)text[start] & 0xc0) == 0x80)
        start--;
    return end - start;
}

/* Writes a character, at most 4 bytes; returns how many. */
size_t utf8_put(char *out, uint32_t character);

/* Bytes of `text` before the first that is not UTF-8; `skip` is then the length of the invalid
 * sequence that one U+FFFD stands for: as much of a character as could have begun one, at least one
 * byte. `recent` is set when the text holds a character of the table below. */
size_t utf8_valid(const char *text, size_t n_bytes, size_t *skip, bool *recent);

/* Characters that Unicode took in after version 14, which is that of the oldest library in use
 * (PCRE2 10.42), up to version 16, which the `tokenizers` library has. */
struct recent_range {
    uint32_t first, last;
    char category[3];
};
extern const struct recent_range unicode_recent[];
extern const size_t unicode_n_recent;

/* Characters that got a combining class or a decomposition after Unicode 9, which is the version
 * that the `tokenizers` library normalises by: they are left as they are. */
extern const uint32_t unicode_unnormalized[][2];
extern const size_t unicode_n_unnormalized;

/* White_Space. */
bool char_is_space(uint32_t character);
/* Any category N. */
bool char_is_numeric(uint32_t character);
/* ASCII punctuation with its symbols, and category P of Unicode 8, as the `tokenizers` library. */
bool char_is_punctuation(uint32_t character);

/* GPT-2's bytes as printable characters: the character of a byte, and back (-1: none). */
uint32_t byte_to_char(unsigned char byte);
int char_to_byte(uint32_t character);

#endif
