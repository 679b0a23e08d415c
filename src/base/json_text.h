/* JSON on its way out: texts with what must be escaped, numbers that JSON has. */
#ifndef ZN_BASE_JSON_TEXT_H
#define ZN_BASE_JSON_TEXT_H

#include <stddef.h>
#include <stdio.h>

/* Writes `text` with its quotes; bytes above 127 pass as they are. NULL is written as null. */
void zn_json_put_string(FILE *out, const char *text);

/* The same for a text that may hold NUL. */
void zn_json_put_text(FILE *out, const char *text, size_t n_bytes);

/* Writes the number with so many digits; one that is not finite is written as null. */
void zn_json_put_number(FILE *out, double value, int digits);

#endif
