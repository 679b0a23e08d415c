/* Finding and replacing what is not UTF-8. */
#include "text/utf8.h"

#include <string.h>

size_t utf8_length(const char *text, size_t n, size_t *n_bad)
{
    const unsigned char *s = (const unsigned char *)text;
    unsigned char low = 0x80, high = 0xbf; /* what the second byte may be */
    size_t length;
    *n_bad = 1;
    if (s[0] < 0x80)
        return 1;
    if (s[0] >= 0xc2 && s[0] <= 0xdf)
        length = 2;
    else if (s[0] >= 0xe0 && s[0] <= 0xef)
        length = 3;
    else if (s[0] >= 0xf0 && s[0] <= 0xf4)
        length = 4;
    else
        return 0;
    if (s[0] == 0xe0) /* no form that is longer than need be */
        low = 0xa0;
    else if (s[0] == 0xed) /* no surrogates */
        high = 0x9f;
    else if (s[0] == 0xf0)
        low = 0x90;
    else if (s[0] == 0xf4) /* nothing above U+10FFFF */
        high = 0x8f;
    for (size_t i = 1; i < length; i++) {
        if (i == n || s[i] < low || s[i] > high)
            return 0;
        *n_bad = i + 1;
        low = 0x80;
        high = 0xbf;
    }
    return length;
}

size_t utf8_count_bad(const char *text, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n;) {
        size_t n_bad, length = utf8_length(text + i, n - i, &n_bad);
        count += length == 0;
        i += length > 0 ? length : n_bad;
    }
    return count;
}

size_t utf8_repair(const char *text, size_t n, char *out)
{
    char *to = out;
    for (size_t i = 0; i < n;) {
        size_t n_bad, length = utf8_length(text + i, n - i, &n_bad);
        if (length > 0) {
            memcpy(to, text + i, length);
            to += length;
            i += length;
        } else {
            memcpy(to, "\xef\xbf\xbd", 3);
            to += 3;
            i += n_bad;
        }
    }
    return (size_t)(to - out);
}
