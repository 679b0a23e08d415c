/* JSON of any bytes: it is refused or every getter answers on every value. */
#include <stdint.h>
#include <string.h>

#include "base/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void visit(zn_json *value, int depth);

/* Every getter at one place; what is wrong there becomes a message. */
static void visit_key(zn_json *object, const char *key, int depth)
{
    int64_t i;
    double n;
    bool b;
    const char *s;
    zn_json *inner;
    zn_json_get_int(object, key, -1000, 1000, &i);
    zn_json_get_number(object, key, &n);
    zn_json_get_bool_or(object, key, false, &b);
    zn_json_get_string_or(object, key, "", &s);
    if (zn_json_get_object(object, key, &inner) == ZN_OK || zn_json_get_array(object, key, &inner) == ZN_OK)
        visit(inner, depth + 1);
}

static void visit_item(zn_json *array, size_t at, int depth)
{
    int64_t i;
    double n;
    const char *s;
    zn_json *inner;
    zn_json_item_int(array, at, INT64_MIN, INT64_MAX, &i);
    zn_json_item_number(array, at, &n);
    zn_json_item_string(array, at, &s);
    if (zn_json_item_object(array, at, &inner) == ZN_OK || zn_json_item_array(array, at, &inner) == ZN_OK)
        visit(inner, depth + 1);
}

static void visit(zn_json *value, int depth)
{
    if (depth > 8) /* messages hold the path: deeper costs time and finds nothing more */
        return;
    for (const char *key = zn_json_first_key(value); key; key = zn_json_next_key(value, key))
        visit_key(value, key, depth);
    visit_key(value, "absent", depth);
    for (size_t i = 0; i <= zn_json_n_items(value) && i < 100; i++)
        visit_item(value, i, depth);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    zn_json *json;
    if (zn_json_load_buffer(data, size, "fuzz.json", &json) != ZN_OK)
        return 0;
    visit(json, 0);
    zn_json_destroy(json);
    return 0;
}
