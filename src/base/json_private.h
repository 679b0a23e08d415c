/* A value inside a document, for the files that read and load it. */
#ifndef ZN_BASE_JSON_PRIVATE_H
#define ZN_BASE_JSON_PRIVATE_H

#include <jansson.h>

#include "base/json.h"

struct zn_json {
    const json_t *value; /* NULL: absent */
    const zn_json *parent;
    const char *key; /* in an object; else NULL */
    size_t index;    /* in an array */
    zn_json *root;
    /* Of the root only. */
    char *name;
    json_t *document;
    zn_json *values; /* handed out, linked by `next`, freed with the root */
    zn_json *next;
};

#endif
