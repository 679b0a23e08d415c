/* Looking for strings in a text that grows. */
#include "infer/stop_strings.h"

#include <string.h>

zn_status zn_stop_strings_init(struct zn_stop_strings *stop, struct zn_words strings)
{
    *stop = (struct zn_stop_strings){.strings = strings};
    for (size_t i = 0; i < strings.n; i++) {
        size_t n = strlen(strings.word[i]);
        if (n == 0)
            return zn_fail(ZN_ERR_USAGE, "--stop: an empty string would end every text before it begins");
        stop->longest = n > stop->longest ? n : stop->longest;
    }
    return ZN_OK;
}

bool zn_stop_strings_find(const struct zn_stop_strings *stop, const char *text, size_t n_bytes, size_t from, size_t *at)
{
    bool found = false;
    size_t begin = from >= stop->longest ? from - stop->longest + 1 : 0;
    for (size_t i = 0; i < stop->strings.n && begin < n_bytes; i++) {
        const char *string = stop->strings.word[i];
        const char *here = memmem(text + begin, n_bytes - begin, string, strlen(string));
        if (here && (!found || (size_t)(here - text) < *at)) {
            *at = (size_t)(here - text);
            found = true;
        }
    }
    return found;
}

static bool may_begin(const struct zn_stop_strings *stop, const char *end, size_t n_bytes)
{
    for (size_t i = 0; i < stop->strings.n; i++)
        if (strlen(stop->strings.word[i]) > n_bytes && memcmp(stop->strings.word[i], end, n_bytes) == 0)
            return true;
    return false;
}

size_t zn_stop_strings_settled(const struct zn_stop_strings *stop, const char *text, size_t n_bytes)
{
    size_t at = n_bytes >= stop->longest ? n_bytes - stop->longest : 0;
    for (; at < n_bytes; at++)
        if (may_begin(stop, text + at, n_bytes - at))
            return at;
    return n_bytes;
}
