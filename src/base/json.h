/* JSON from outside: every getter checks the type and the range, and its error is one line that
 * names the file, the place in it, what was expected and what was found.
 *
 * A zn_json is a value inside a document. The document's root is the caller's, who destroys it;
 * all other values and all strings belong to the root and live as long. Not thread-safe: getters
 * may add to the root's list of values. */
#ifndef ZN_BASE_JSON_H
#define ZN_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct zn_json zn_json;

/* Reads a whole document: any value. A key given twice, an invalid character and text after
 * the value are errors; an integer beyond 64 bits is read as a real. `name` stands for the file in messages. */
zn_status zn_json_load_file(const char *path, size_t max_bytes, zn_json **root);
zn_status zn_json_load_buffer(const void *data, size_t n_bytes, const char *name, zn_json **root);

/* A row of a data file that begins on this line, from 1: messages begin "FILE:LINE: ". Also takes what Python's json
 * writes: NaN, Infinity and numbers beyond a double are null; \u0000 and halves of surrogate pairs become U+FFFD, and
 * *n_replaced says how many did. */
zn_status zn_json_load_row(const void *data, size_t n_bytes, const char *file, int64_t line, zn_json **root,
                           int64_t *n_replaced);
void zn_json_destroy(zn_json *root); /* NULL is legal */

typedef enum zn_json_type {
    ZN_JSON_NULL,
    ZN_JSON_BOOL,
    ZN_JSON_NUMBER,
    ZN_JSON_STRING,
    ZN_JSON_ARRAY,
    ZN_JSON_OBJECT
} zn_json_type;

zn_json_type zn_json_type_of(const zn_json *value);

/* A failure at a value, for checks that the getters do not know: "FILE: 'KEY': TEXT". */
zn_status zn_json_fail(const zn_json *value, const char *format, ...) ZN_PRINTF(2, 3);

/* ---- Objects. A key with null counts as absent. ---- */

/* Also false when `object` is none. */
bool zn_json_has(const zn_json *object, const char *key);

/* The value's type; ZN_JSON_NULL when absent. */
zn_json_type zn_json_type_at(const zn_json *object, const char *key);

/* The keys in the order of the file: for (k = first(o); k; k = next(o, k)). NULL at the end. */
const char *zn_json_first_key(const zn_json *object);
const char *zn_json_next_key(const zn_json *object, const char *key);
size_t zn_json_n_keys(const zn_json *object);

/* Required keys. An integer may be written 100000, 1e5 or 100000.0; min <= value <= max. */
zn_status zn_json_get_int(zn_json *object, const char *key, int64_t min, int64_t max, int64_t *value);
zn_status zn_json_get_number(zn_json *object, const char *key, double *value);
zn_status zn_json_get_bool(zn_json *object, const char *key, bool *value);
zn_status zn_json_get_string(zn_json *object, const char *key, const char **value);
zn_status zn_json_get_object(zn_json *object, const char *key, zn_json **value);
zn_status zn_json_get_array(zn_json *object, const char *key, zn_json **value);

/* Optional keys: the fallback when absent, an error when of another type. */
zn_status zn_json_get_int_or(zn_json *object, const char *key, int64_t min, int64_t max, int64_t fallback,
                             int64_t *value);
zn_status zn_json_get_number_or(zn_json *object, const char *key, double fallback, double *value);
zn_status zn_json_get_bool_or(zn_json *object, const char *key, bool fallback, bool *value);
zn_status zn_json_get_string_or(zn_json *object, const char *key, const char *fallback, const char **value);
zn_status zn_json_get_object_or_null(zn_json *object, const char *key, zn_json **value);
zn_status zn_json_get_array_or_null(zn_json *object, const char *key, zn_json **value);

/* ---- Arrays. ---- */

size_t zn_json_n_items(const zn_json *array);
zn_json_type zn_json_item_type(const zn_json *array, size_t i);
zn_status zn_json_item_int(zn_json *array, size_t i, int64_t min, int64_t max, int64_t *value);
zn_status zn_json_item_number(zn_json *array, size_t i, double *value);
zn_status zn_json_item_string(zn_json *array, size_t i, const char **value);
zn_status zn_json_item_object(zn_json *array, size_t i, zn_json **value);
zn_status zn_json_item_array(zn_json *array, size_t i, zn_json **value);

/* ---- Comparing two objects ---- */

/* The first key of theirs with another value in one than in the other, and not among `ignored`, which NULL ends; NULL where
 * there is none. The order of keys does not count, 1 is 1.0, and null is absent. */
const char *zn_json_first_difference(const zn_json *a, const zn_json *b, const char *const *ignored);

/* The value of a key as JSON on one line, for a person: reals have nine digits; "null" when absent. The caller frees the text. */
zn_status zn_json_print_at(const zn_json *object, const char *key, char **text);

/* ---- Changing and printing a whole document that is an object. ---- */

zn_status zn_json_set_string(zn_json *root, const char *key, const char *value);

/* Indented, keys in their order. The caller frees the text. */
zn_status zn_json_print(const zn_json *root, char **text);

#endif
