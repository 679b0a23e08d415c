/* UTF-8 from outside. */
#ifndef ZN_TEXT_UTF8_H
#define ZN_TEXT_UTF8_H

#include <stddef.h>

/* How many bytes at `text` are one character of UTF-8; 0 when they are none, and then *n_bad is how
 * many of them one U+FFFD stands for (the longest begin of a character, as the Unicode standard
 * recommends; at least 1). n > 0. */
size_t utf8_length(const char *text, size_t n, size_t *n_bad);

/* How many U+FFFD utf8_repair would put in. */
size_t utf8_count_bad(const char *text, size_t n);

/* The text with what is not UTF-8 replaced by U+FFFD. `out` has room for 3·n bytes; returns how many
 * were written. */
size_t utf8_repair(const char *text, size_t n, char *out);

#endif
