/* run.json on the page. Every key is shown, also one that this version does not know: the file says what ran. */
#include <string.h>

#include "report/html.h"
#include "report/page.h"

enum { MAX_DEPTH = 4, MAX_ITEMS = 20 };

/* Keys whose numbers are bytes. */
static bool is_size(const char *key)
{
    static const char *const keys[] = {"memory_limit", "device_memory_limit", "prefetch_bytes", "persist_below", "tile_limit", "host_cache"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (strcmp(key, keys[i]) == 0)
            return true;
    return false;
}

static void add_number(zn_text *page, zn_json *object, const char *key)
{
    int64_t whole;
    double number = 0;
    bool is_whole = zn_json_get_int(object, key, INT64_MIN, INT64_MAX, &whole) == ZN_OK;
    if (is_whole && strcmp(key, "delayed_update") == 0 && whole < 0) {
        zn_text_add(page, "off");
    } else if (is_whole && is_size(key) && whole >= 1024) {
        html_add_size(page, (double)whole);
    } else if (is_whole) {
        zn_text_add(page, "%lld", (long long)whole);
    } else if (zn_json_get_number(object, key, &number) == ZN_OK) {
        html_add_number(page, number);
    }
}

static void add_string(zn_text *page, const char *string)
{
    if (string[0])
        html_add(page, string);
    else
        zn_text_add(page, "(empty)");
}

static void add_items(zn_text *page, zn_json *array)
{
    size_t n = zn_json_n_items(array);
    if (n == 0)
        zn_text_add(page, "none");
    for (size_t i = 0; i < n && i < MAX_ITEMS; i++) {
        const char *string;
        double number;
        zn_text_add(page, i > 0 ? ", " : "");
        switch (zn_json_item_type(array, i)) {
        case ZN_JSON_STRING:
            if (zn_json_item_string(array, i, &string) == ZN_OK)
                add_string(page, string);
            break;
        case ZN_JSON_NUMBER:
            if (zn_json_item_number(array, i, &number) == ZN_OK)
                html_add_number(page, number);
            break;
        default:
            zn_text_add(page, "…");
        }
    }
    if (n > MAX_ITEMS)
        zn_text_add(page, " and %zu more", n - MAX_ITEMS);
}

static void add_keys(zn_text *page, zn_json *object, int depth);

static void add_value(zn_text *page, zn_json *object, const char *key, int depth)
{
    bool flag;
    const char *string;
    zn_json *inner;
    switch (zn_json_type_at(object, key)) {
    case ZN_JSON_NULL:
        zn_text_add(page, "–");
        break;
    case ZN_JSON_BOOL:
        if (zn_json_get_bool(object, key, &flag) == ZN_OK)
            zn_text_add(page, flag ? "yes" : "no");
        break;
    case ZN_JSON_NUMBER:
        add_number(page, object, key);
        break;
    case ZN_JSON_STRING:
        if (zn_json_get_string(object, key, &string) == ZN_OK)
            add_string(page, string);
        break;
    case ZN_JSON_ARRAY:
        if (zn_json_get_array(object, key, &inner) == ZN_OK)
            add_items(page, inner);
        break;
    case ZN_JSON_OBJECT:
        if (depth < MAX_DEPTH && zn_json_get_object(object, key, &inner) == ZN_OK)
            add_keys(page, inner, depth + 1);
        else
            zn_text_add(page, "…");
        break;
    }
}

/* What the key stands for, in words. */
static void add_key(zn_text *page, const char *key)
{
    zn_text words;
    zn_text_init(&words);
    zn_text_add(&words, "%s", key);
    for (char *c = words.data; c && *c; c++)
        if (*c == '_')
            *c = ' ';
    html_add(page, words.data ? words.data : "");
    zn_text_fini(&words);
}

static void add_keys(zn_text *page, zn_json *object, int depth)
{
    const char *first = zn_json_first_key(object);
    for (const char *key = first; key; key = zn_json_next_key(object, key)) {
        zn_text_add(page, key == first ? "" : ", ");
        add_key(page, key);
        zn_text_add(page, ": ");
        add_value(page, object, key, depth);
    }
}

void report_add_configuration(zn_text *page, zn_json *run)
{
    zn_text_add(page, "<h2>Configuration</h2>\n");
    if (!run) {
        zn_text_add(page, "<p class=\"muted\">The folder has no run.json, which would tell.</p>\n");
        return;
    }
    zn_text_add(page, "<dl class=\"settings\">\n");
    for (const char *key = zn_json_first_key(run); key; key = zn_json_next_key(run, key)) {
        static const char *const elsewhere[] = {"format", "bytes", "origin", "planned"}; /* the file's own; in tables */
        bool is_elsewhere = false;
        for (size_t i = 0; i < sizeof elsewhere / sizeof elsewhere[0]; i++)
            is_elsewhere |= strcmp(key, elsewhere[i]) == 0;
        if (is_elsewhere)
            continue;
        zn_text_add(page, "<div><dt>");
        add_key(page, key);
        zn_text_add(page, "</dt><dd>");
        add_value(page, run, key, 0);
        zn_text_add(page, "</dd></div>\n");
    }
    zn_text_add(page, "</dl>\n");
}
