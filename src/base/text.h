/* A text that grows, for writers of JSON and messages, and outside names made fit to print. */
#ifndef ZN_BASE_TEXT_H
#define ZN_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

/* The storage is the caller's, who calls fini. A failed allocation sticks: later additions do
 * nothing and zn_text_status tells. */
typedef struct zn_text {
    char *data; /* ends in NUL once something was added; NULL before */
    size_t n_bytes, capacity;
    bool failed;
} zn_text;

void zn_text_init(zn_text *text);
void zn_text_fini(zn_text *text);

void zn_text_add(zn_text *text, const char *format, ...) ZN_PRINTF(2, 3);
void zn_text_add_bytes(zn_text *text, const void *bytes, size_t n_bytes);

/* Adds `string` as a JSON string, quotes and escapes included. It must be UTF-8. */
void zn_text_add_quoted(zn_text *text, const char *string);

/* Adds the shortest decimal that reads back as the number. */
void zn_text_add_shortest(zn_text *text, double number);

zn_status zn_text_status(const zn_text *text);

/* A copy of a text from outside that is fit for a one-line message: control characters become
 * '?', a long text is cut. Used as zn_shown(name).text; lives to the end of the expression. */
struct zn_shown {
    char text[160];
};
struct zn_shown zn_shown(const char *string);

#endif
