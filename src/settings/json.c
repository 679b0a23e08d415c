/* Configuration files in JSON: `{"zinc": {"stage": 3, …}}`, as `zinc plan --fit` writes them, or DeepSpeed's. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "settings/config.h"
#include "settings/write.h"

static const char *const SECTION = "zinc";

static zn_status check_keys(const zn_json *root, const char *path)
{
    for (const char *key = zn_json_first_key(root); key; key = zn_json_next_key(root, key))
        if (strcmp(key, SECTION) != 0)
            return zn_fail(ZN_ERR_USAGE, "--config %s: unknown key '%s': flags go into an object '%s'", path,
                           zn_shown(key).text, SECTION);
    return ZN_OK;
}

static zn_status find_flags(zn_json *root, const char *path, zn_json **flags)
{
    if (zn_json_type_of(root) != ZN_JSON_OBJECT || zn_json_n_keys(root) == 0)
        return zn_fail(ZN_ERR_USAGE, "--config %s: expected an object {\"%s\": {\"FLAG\": value, …}}", path, SECTION);
    ZN_TRY(check_keys(root, path));
    if (zn_json_type_at(root, SECTION) != ZN_JSON_OBJECT)
        return zn_fail(ZN_ERR_USAGE, "--config %s: '%s' is an object of flags and their values", path, SECTION);
    return zn_json_get_object(root, SECTION, flags);
}

static zn_status read_number(zn_json *object, const char *key, struct config_entry *entry)
{
    int64_t whole;
    double number;
    zn_text text;
    zn_text_init(&text);
    entry->is_whole = zn_json_get_int(object, key, INT64_MIN, INT64_MAX, &whole) == ZN_OK;
    zn_status status = entry->is_whole ? ZN_OK : zn_json_get_number(object, key, &number);
    if (entry->is_whole)
        zn_text_add(&text, "%lld", (long long)whole);
    else if (status == ZN_OK)
        zn_text_add_shortest(&text, number);
    if (status == ZN_OK)
        status = zn_text_status(&text);
    if (status == ZN_OK)
        status = config_add_text(entry, text.data, text.n_bytes);
    zn_text_fini(&text);
    return status;
}

static zn_status read_list(zn_json *object, const char *key, struct config_entry *entry)
{
    zn_json *array;
    ZN_TRY(zn_json_get_array(object, key, &array));
    for (size_t i = 0; i < zn_json_n_items(array); i++) {
        const char *text;
        if (zn_json_item_type(array, i) != ZN_JSON_STRING) {
            entry->type = CONFIG_OTHER;
            return ZN_OK;
        }
        ZN_TRY(zn_json_item_string(array, i, &text));
        ZN_TRY(config_add_text(entry, text, strlen(text)));
    }
    return ZN_OK;
}

zn_status config_set_json(struct config_entry *entry, zn_json *object, const char *key)
{
    const char *text;
    switch (zn_json_type_at(object, key)) {
    case ZN_JSON_BOOL:
        entry->type = CONFIG_BOOL;
        return zn_json_get_bool(object, key, &entry->is_true);
    case ZN_JSON_NUMBER:
        entry->type = CONFIG_NUMBER;
        return read_number(object, key, entry);
    case ZN_JSON_STRING:
        entry->type = CONFIG_TEXT;
        ZN_TRY(zn_json_get_string(object, key, &text));
        return config_add_text(entry, text, strlen(text));
    case ZN_JSON_ARRAY:
        entry->type = CONFIG_LIST;
        return read_list(object, key, entry);
    case ZN_JSON_OBJECT:
        entry->type = CONFIG_OTHER;
        break;
    case ZN_JSON_NULL:
        break;
    }
    return ZN_OK;
}

static bool is_deepspeed(const zn_json *root)
{
    const char *key = zn_json_type_of(root) == ZN_JSON_OBJECT ? zn_json_first_key(root) : NULL;
    while (key && !config_is_deepspeed(key))
        key = zn_json_next_key(root, key);
    return key != NULL;
}

static zn_status read_flags(const char *path, zn_json *root, struct config *config)
{
    zn_json *flags;
    ZN_TRY(find_flags(root, path, &flags));
    for (const char *key = zn_json_first_key(flags); key; key = zn_json_next_key(flags, key)) {
        struct config_entry *entry;
        ZN_TRY(config_add(config, key, strlen(key), &entry));
        ZN_TRY(config_set_json(entry, flags, key));
    }
    return ZN_OK;
}

zn_status config_read_json(const char *path, const char *data, size_t n_bytes, const struct zn_options *line, const void *target,
                           struct config *config)
{
    zn_json *root;
    *config = (struct config){.section = "zinc."};
    ZN_TRY(zn_json_load_buffer(data, n_bytes, path, &root));
    zn_status status = is_deepspeed(root) ? config_read_deepspeed(path, data, n_bytes, root, line, target, config)
                                          : read_flags(path, root, config);
    zn_json_destroy(root);
    return status;
}
