/* Strings that end a text: it is cut before the first of them. */
#ifndef ZN_INFER_STOP_STRINGS_H
#define ZN_INFER_STOP_STRINGS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "zinc/words.h"

struct zn_stop_strings {
    struct zn_words strings; /* borrowed */
    size_t longest;          /* bytes */
};

/* An empty string is refused. */
zn_status zn_stop_strings_init(struct zn_stop_strings *stop, struct zn_words strings);

/* Whether one of them is in the text, and where the first begins. Looks at bytes from `from` on, and as many before it as an end
 * of one of them may need. */
bool zn_stop_strings_find(const struct zn_stop_strings *stop, const char *text, size_t n_bytes, size_t from, size_t *at);

/* Bytes of the text that stay whatever comes: its end may be the begin of one of them. */
size_t zn_stop_strings_settled(const struct zn_stop_strings *stop, const char *text, size_t n_bytes);

#endif
