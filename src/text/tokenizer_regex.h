/* The regular expressions of tokenizer.json. They are written for Oniguruma in Ruby's syntax; here
 * they are put into PCRE2's words and run by its JIT. What PCRE2 would take otherwise, and cannot
 * be told to take alike, is refused. */
#ifndef ZN_TEXT_TOKENIZER_REGEX_H
#define ZN_TEXT_TOKENIZER_REGEX_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

typedef struct tok_regex tok_regex;

/* What a thread needs to run any of them. */
typedef struct tok_matcher tok_matcher;

enum { TOK_REGEX_ERROR = 320 };

/* NULL: `error` says what is wrong with the pattern, in one line. The caller destroys. */
tok_regex *regex_create(const char *pattern, char error[TOK_REGEX_ERROR]);
void regex_destroy(tok_regex *regex); /* NULL is legal */

tok_matcher *matcher_create(void); /* NULL: no memory */
void matcher_destroy(tok_matcher *matcher); /* NULL is legal */

/* Where a search for all matches stands; zeroed by the caller. */
struct regex_search {
    size_t from;  /* the end of the last match */
    bool matched; /* there was one, so that an empty match at `from` is none */
    bool ended;
};

/* The next match in valid UTF-8; false at the end or after a failure, which is set in `status`:
 * a pattern that needs too many steps. `recent` is what utf8_valid said of the text. */
bool regex_next(const tok_regex *regex, tok_matcher *matcher, const char *text, size_t n_bytes, bool recent,
                struct regex_search *search, size_t *start, size_t *end, zn_status *status);

/* The pattern in PCRE2's words, NUL-terminated, the caller frees it; NULL with `error` set. With
 * `recent` its classes hold the characters of unicode_recent as well. */
char *regex_translate(const char *pattern, bool recent, char error[TOK_REGEX_ERROR]);

#endif
