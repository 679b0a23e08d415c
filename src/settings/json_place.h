/* Where a key stands in a JSON document. */
#ifndef ZN_SETTINGS_JSON_PLACE_H
#define ZN_SETTINGS_JSON_PLACE_H

#include <stddef.h>

struct json_place {
    int line, column; /* from 1, columns in characters; 0: not found */
};

/* The place of "a.b.c": key c of the object at b of the object at a. The document was parsed before; keys that are written with
 * escapes are not found. */
struct json_place json_place_find(const char *data, size_t n_bytes, const char *path);

#endif
