/* The rows of a JSON array, one after another, without the array in memory: strings and brackets are followed until an
 * object ends. What is inside of a row is not looked at. */
#ifndef ZN_TEXT_JSON_ARRAY_H
#define ZN_TEXT_JSON_ARRAY_H

#include <stdbool.h>
#include <stddef.h>

typedef enum json_array_state {
    JSON_ARRAY_NONE, /* not an array */
    JSON_ARRAY_BEFORE,
    JSON_ARRAY_FIRST, /* behind '[' */
    JSON_ARRAY_NEXT,  /* behind ',' */
    JSON_ARRAY_ROW,
    JSON_ARRAY_STRING, /* in a row */
    JSON_ARRAY_ESCAPE, /* in a string */
    JSON_ARRAY_AFTER, /* behind a row */
    JSON_ARRAY_END    /* behind ']' */
} json_array_state;

/* A place in an array. A copy goes on from the same place. */
struct json_array {
    json_array_state state;
    size_t depth; /* of brackets in a row */
};

/* Whether the file that begins with these bytes is an array. */
bool json_array_begins(const char *data, size_t n);

/* What the next bytes are: *n_skipped between rows, then *n_taken of a row, which is whole with the last of them where
 * *is_whole. A row may go on in the bytes after these. False: byte *n_skipped cannot stand there. */
bool json_array_next(struct json_array *array, const char *data, size_t n, size_t *n_skipped, size_t *n_taken,
                     bool *is_whole);

#endif
