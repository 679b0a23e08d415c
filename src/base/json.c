/* Typed reading over jansson. A value knows its parent and its key, so that the path of a
 * wrong one is put together only when it is told. */
#include "base/json.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_private.h"
#include "base/text.h"

static zn_json_type type_of(const json_t *value)
{
    if (!value)
        return ZN_JSON_NULL;
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return ZN_JSON_OBJECT;
    case JSON_ARRAY:
        return ZN_JSON_ARRAY;
    case JSON_STRING:
        return ZN_JSON_STRING;
    case JSON_INTEGER:
    case JSON_REAL:
        return ZN_JSON_NUMBER;
    case JSON_TRUE:
    case JSON_FALSE:
        return ZN_JSON_BOOL;
    case JSON_NULL:
        break;
    }
    return ZN_JSON_NULL;
}

zn_json_type zn_json_type_of(const zn_json *value)
{
    return type_of(value->value);
}

/* ---- Messages ---- */

/* Adds "a.b[3].c"; the root has no path. Documents are as deep as jansson allows, so the depth
 * of this recursion is bounded. */
static void add_path(zn_text *text, const zn_json *value)
{
    if (!value->parent)
        return;
    add_path(text, value->parent);
    if (value->key)
        zn_text_add(text, "%s%s", text->n_bytes > 0 ? "." : "", zn_shown(value->key).text);
    else
        zn_text_add(text, "[%zu]", value->index);
}

zn_status zn_json_fail(const zn_json *value, const char *format, ...)
{
    char what[512];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    zn_text path;
    zn_text_init(&path);
    add_path(&path, value);
    if (path.data)
        zn_fail(ZN_ERR_INPUT, "%s: '%s': %s", value->root->name, path.data, what);
    else
        zn_fail(ZN_ERR_INPUT, "%s: %s", value->root->name, what);
    zn_text_fini(&path);
    return ZN_ERR_INPUT;
}

static zn_status fail_found(const zn_json *at, const char *expected)
{
    const json_t *value = at->value;
    if (!value)
        return zn_json_fail(at, "missing; expected %s", expected);
    switch (json_typeof(value)) {
    case JSON_STRING:
        return zn_json_fail(at, "expected %s, found the string \"%s\"", expected,
                            zn_shown(json_string_value(value)).text);
    case JSON_INTEGER:
        return zn_json_fail(at, "expected %s, found %" JSON_INTEGER_FORMAT, expected, json_integer_value(value));
    case JSON_REAL:
        return zn_json_fail(at, "expected %s, found %.17g", expected, json_real_value(value));
    case JSON_OBJECT:
        return zn_json_fail(at, "expected %s, found an object", expected);
    case JSON_ARRAY:
        return zn_json_fail(at, "expected %s, found an array", expected);
    case JSON_TRUE:
        return zn_json_fail(at, "expected %s, found true", expected);
    case JSON_FALSE:
        return zn_json_fail(at, "expected %s, found false", expected);
    case JSON_NULL:
        break;
    }
    return zn_json_fail(at, "expected %s, found null", expected);
}

/* ---- From a place to the value there ---- */

/* jansson's iterators want a document that is not const, and leave it as it was. */
static json_t *unconst(const zn_json *value)
{
    return (json_t *)(uintptr_t)value->value;
}

static zn_status as_int(const zn_json *at, int64_t min, int64_t max, int64_t *value)
{
    int64_t found;
    bool is_int = json_is_integer(at->value);
    if (is_int) {
        found = json_integer_value(at->value);
    } else if (json_is_real(at->value)) {
        double real = json_real_value(at->value);
        is_int = real >= -0x1p63 && real < 0x1p63;
        found = is_int ? (int64_t)real : 0;
        is_int = is_int && (double)found == real;
    }
    if (is_int && found >= min && found <= max) {
        *value = found;
        return ZN_OK;
    }
    char expected[96] = "an integer";
    if (min != INT64_MIN && max != INT64_MAX)
        snprintf(expected, sizeof expected, "an integer from %" PRId64 " to %" PRId64, min, max);
    else if (min != INT64_MIN)
        snprintf(expected, sizeof expected, "an integer of at least %" PRId64, min);
    else if (max != INT64_MAX)
        snprintf(expected, sizeof expected, "an integer of at most %" PRId64, max);
    return fail_found(at, expected);
}

static zn_status as_number(const zn_json *at, double *value)
{
    if (!json_is_number(at->value))
        return fail_found(at, "a number");
    *value = json_number_value(at->value);
    return ZN_OK;
}

static zn_status as_bool(const zn_json *at, bool *value)
{
    if (!json_is_boolean(at->value))
        return fail_found(at, "true or false");
    *value = json_is_true(at->value);
    return ZN_OK;
}

static zn_status as_string(const zn_json *at, const char **value)
{
    if (!json_is_string(at->value))
        return fail_found(at, "a string");
    *value = json_string_value(at->value);
    return ZN_OK;
}

/* A place becomes a value that the caller may hold: the root keeps it. */
static zn_status as_container(const zn_json *at, zn_json_type type, zn_json **value)
{
    if (type_of(at->value) != type)
        return fail_found(at, type == ZN_JSON_OBJECT ? "an object" : "an array");
    zn_json *kept = malloc(sizeof *kept);
    if (!kept)
        return zn_fail(ZN_ERR_MEMORY, "%s: out of memory", at->root->name);
    *kept = *at;
    if (kept->key) /* the caller's key may go away, the document's does not */
        kept->key = json_object_iter_key(json_object_iter_at(unconst(at->parent), kept->key));
    kept->next = at->root->values;
    at->root->values = kept;
    *value = kept;
    return ZN_OK;
}

/* ---- Objects ---- */

static zn_status look(zn_json *object, const char *key, zn_json *place)
{
    if (!json_is_object(object->value))
        return fail_found(object, "an object");
    const json_t *value = json_object_get(object->value, key);
    *place = (zn_json){.value = json_is_null(value) ? NULL : value,
                       .parent = object, .key = key, .root = object->root};
    return ZN_OK;
}

bool zn_json_has(const zn_json *object, const char *key)
{
    return zn_json_type_at(object, key) != ZN_JSON_NULL;
}

zn_json_type zn_json_type_at(const zn_json *object, const char *key)
{
    return type_of(json_object_get(object->value, key));
}

const char *zn_json_first_key(const zn_json *object)
{
    return json_object_iter_key(json_object_iter(unconst(object)));
}

const char *zn_json_next_key(const zn_json *object, const char *key)
{
    json_t *value = unconst(object);
    return json_object_iter_key(json_object_iter_next(value, json_object_iter_at(value, key)));
}

size_t zn_json_n_keys(const zn_json *object)
{
    return json_object_size(object->value);
}

/* The two flavours of a getter; `read` turns the place into the value. */
#define GET(read)                                                                                  \
    zn_json place = {0};                                                                           \
    ZN_TRY(look(object, key, &place));                                                             \
    return read

#define GET_OR(fallback, read)                                                                     \
    zn_json place = {0};                                                                           \
    ZN_TRY(look(object, key, &place));                                                             \
    if (!place.value) {                                                                            \
        *value = fallback;                                                                         \
        return ZN_OK;                                                                              \
    }                                                                                              \
    return read

zn_status zn_json_get_int(zn_json *object, const char *key, int64_t min, int64_t max, int64_t *value)
{
    GET(as_int(&place, min, max, value));
}

zn_status zn_json_get_int_or(zn_json *object, const char *key, int64_t min, int64_t max, int64_t fallback,
                             int64_t *value)
{
    GET_OR(fallback, as_int(&place, min, max, value));
}

zn_status zn_json_get_number(zn_json *object, const char *key, double *value)
{
    GET(as_number(&place, value));
}

zn_status zn_json_get_number_or(zn_json *object, const char *key, double fallback, double *value)
{
    GET_OR(fallback, as_number(&place, value));
}

zn_status zn_json_get_bool(zn_json *object, const char *key, bool *value)
{
    GET(as_bool(&place, value));
}

zn_status zn_json_get_bool_or(zn_json *object, const char *key, bool fallback, bool *value)
{
    GET_OR(fallback, as_bool(&place, value));
}

zn_status zn_json_get_string(zn_json *object, const char *key, const char **value)
{
    GET(as_string(&place, value));
}

zn_status zn_json_get_string_or(zn_json *object, const char *key, const char *fallback, const char **value)
{
    GET_OR(fallback, as_string(&place, value));
}

zn_status zn_json_get_object(zn_json *object, const char *key, zn_json **value)
{
    GET(as_container(&place, ZN_JSON_OBJECT, value));
}

zn_status zn_json_get_object_or_null(zn_json *object, const char *key, zn_json **value)
{
    GET_OR(NULL, as_container(&place, ZN_JSON_OBJECT, value));
}

zn_status zn_json_get_array(zn_json *object, const char *key, zn_json **value)
{
    GET(as_container(&place, ZN_JSON_ARRAY, value));
}

zn_status zn_json_get_array_or_null(zn_json *object, const char *key, zn_json **value)
{
    GET_OR(NULL, as_container(&place, ZN_JSON_ARRAY, value));
}

/* ---- Arrays ---- */

size_t zn_json_n_items(const zn_json *array)
{
    return json_array_size(array->value);
}

zn_json_type zn_json_item_type(const zn_json *array, size_t i)
{
    return type_of(json_array_get(array->value, i));
}

static zn_json item(zn_json *array, size_t i)
{
    return (zn_json){.value = json_array_get(array->value, i), .parent = array, .index = i,
                     .root = array->root};
}

zn_status zn_json_item_int(zn_json *array, size_t i, int64_t min, int64_t max, int64_t *value)
{
    zn_json place = item(array, i);
    return as_int(&place, min, max, value);
}

zn_status zn_json_item_number(zn_json *array, size_t i, double *value)
{
    zn_json place = item(array, i);
    return as_number(&place, value);
}

zn_status zn_json_item_string(zn_json *array, size_t i, const char **value)
{
    zn_json place = item(array, i);
    return as_string(&place, value);
}

zn_status zn_json_item_object(zn_json *array, size_t i, zn_json **value)
{
    zn_json place = item(array, i);
    return as_container(&place, ZN_JSON_OBJECT, value);
}

zn_status zn_json_item_array(zn_json *array, size_t i, zn_json **value)
{
    zn_json place = item(array, i);
    return as_container(&place, ZN_JSON_ARRAY, value);
}

/* ---- Comparing ---- */

static bool is_same(const json_t *a, const json_t *b);

/* Every key of `a` has the same value in `b`. */
static bool is_within(const json_t *a, const json_t *b)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)a, key, value)
        if (!is_same(value, json_object_get(b, key)))
            return false;
    return true;
}

static bool is_same(const json_t *a, const json_t *b)
{
    bool no_a = !a || json_is_null(a), no_b = !b || json_is_null(b);
    if (no_a || no_b)
        return no_a && no_b;
    if (json_is_number(a) && json_is_number(b))
        return json_is_integer(a) && json_is_integer(b) ? json_integer_value(a) == json_integer_value(b)
                                                         : json_number_value(a) == json_number_value(b);
    if (json_typeof(a) != json_typeof(b))
        return false;
    if (json_is_object(a))
        return is_within(a, b) && is_within(b, a);
    if (!json_is_array(a))
        return json_equal(a, b);
    if (json_array_size(a) != json_array_size(b))
        return false;
    for (size_t i = 0; i < json_array_size(a); i++)
        if (!is_same(json_array_get(a, i), json_array_get(b, i)))
            return false;
    return true;
}

const char *zn_json_first_difference(const zn_json *a, const zn_json *b, const char *const *ignored)
{
    const json_t *objects[] = {a->value, b->value};
    for (int i = 0; i < 2; i++) {
        const char *key;
        json_t *value;
        json_object_foreach((json_t *)(uintptr_t)objects[i], key, value) {
            size_t k = 0;
            while (ignored[k] && strcmp(ignored[k], key) != 0)
                k++;
            if (!ignored[k] && !is_same(value, json_object_get(objects[1 - i], key)))
                return key;
        }
    }
    return NULL;
}

zn_status zn_json_print_at(const zn_json *object, const char *key, char **text)
{
    const json_t *value = json_object_get(object->value, key);
    char *printed = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9)) : strdup("null");
    if (!printed)
        return zn_fail(ZN_ERR_MEMORY, "%s: cannot print '%s' again", object->root->name, key);
    *text = printed;
    return ZN_OK;
}

zn_status zn_json_set_string(zn_json *root, const char *key, const char *value)
{
    if (json_object_set_new(root->document, key, json_string(value)) != 0)
        return zn_fail(ZN_ERR_INTERNAL, "%s: cannot set '%s'", root->name, key);
    return ZN_OK;
}

zn_status zn_json_print(const zn_json *root, char **text)
{
    char *printed = json_dumps(root->document, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
    if (!printed)
        return zn_fail(ZN_ERR_MEMORY, "%s: no memory to print it again", root->name);
    *text = printed;
    return ZN_OK;
}
