/* The two halves of the translation of patterns. */
#ifndef ZN_TEXT_TOKENIZER_REGEX_PRIVATE_H
#define ZN_TEXT_TOKENIZER_REGEX_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

/* What stands in a class for \s and \h. */
#define REGEX_SPACE \
    "\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
#define REGEX_HEX "0-9A-Fa-f"

enum { REGEX_MAX_GROUPS = 200 };

struct translation {
    const char *at; /* what is to be read */
    const char *begin;
    zn_text out;
    bool recent;
    size_t atom; /* where the last thing that can be repeated begins in `out`; SIZE_MAX: none */
    size_t group[REGEX_MAX_GROUPS];
    size_t n_groups;
    bool any_case; /* an option i was seen */
    char *error;
};

/* Says that the pattern has such a thing, which is not supported; returns false. */
bool regex_refuse(struct translation *t, const char *format, ...) ZN_PRINTF(2, 3);

/* Each adds to `out`. Where one returns a bool, false means that it was refused. */
void regex_add_category(struct translation *t, const char *category); /* inside of a class */
void regex_add_word(struct translation *t, bool negated);             /* \w as a class */
bool regex_add_property(struct translation *t, bool negated, bool in_class); /* \p, from its brace on */
bool regex_add_escaped(struct translation *t, char c);                /* one character, from behind \c on */
bool regex_add_class(struct translation *t);                          /* from behind its bracket on */

#endif
