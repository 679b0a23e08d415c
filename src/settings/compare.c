/* Comparing values between ranks and between a run and its continuation. */
#include "settings/compare.h"

#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "settings/write.h"

zn_status zn_settings_hash(const struct zn_settings *settings, size_t i, uint64_t *hash)
{
    zn_text text;
    zn_text_init(&text);
    zn_settings_add_json(&text, settings, i);
    zn_status status = zn_text_status(&text);
    if (status == ZN_OK)
        *hash = zn_random_key(0, text.data);
    zn_text_fini(&text);
    return status;
}

/* ---- Values of run.json as a person would write them ---- */

static zn_status add_words(zn_text *text, zn_json *array)
{
    size_t n = zn_json_n_items(array);
    for (size_t i = 0; i < n; i++) {
        const char *word;
        ZN_TRY(zn_json_item_string(array, i, &word));
        zn_text_add(text, "%s%s", i ? " " : "", zn_shown(word).text);
    }
    if (n == 0)
        zn_text_add(text, "none");
    return ZN_OK;
}

static zn_status add_value(zn_text *text, zn_json *object, const char *key)
{
    const char *string;
    double number;
    bool is_on;
    zn_json *array;
    switch (zn_json_type_at(object, key)) {
    case ZN_JSON_STRING:
        ZN_TRY(zn_json_get_string(object, key, &string));
        zn_text_add(text, "%s", zn_shown(string).text);
        return ZN_OK;
    case ZN_JSON_NUMBER:
        ZN_TRY(zn_json_get_number(object, key, &number));
        zn_text_add_shortest(text, number);
        return ZN_OK;
    case ZN_JSON_BOOL:
        ZN_TRY(zn_json_get_bool(object, key, &is_on));
        zn_text_add(text, is_on ? "on" : "off");
        return ZN_OK;
    case ZN_JSON_ARRAY:
        ZN_TRY(zn_json_get_array(object, key, &array));
        return add_words(text, array);
    case ZN_JSON_NULL:
        zn_text_add(text, "not given");
        return ZN_OK;
    case ZN_JSON_OBJECT:
        break;
    }
    return zn_json_fail(object, "'%s' is neither a value nor a list", key);
}

/* ---- A key of both ---- */

struct pair {
    zn_text was, is;
    bool is_listed; /* by both */
    bool is_given;  /* in both; else one has null */
};

static void pair_fini(struct pair *pair)
{
    zn_text_fini(&pair->was);
    zn_text_fini(&pair->is);
}

/* The object that has the last part of the key, which *member becomes; NULL where there is none. */
static zn_status find_holder(zn_json *root, const char *key, zn_json **holder, const char **member)
{
    const char *dot = strchr(key, '.');
    char object[64];
    *holder = root;
    *member = dot ? dot + 1 : key;
    if (!dot)
        return ZN_OK;
    snprintf(object, sizeof object, "%.*s", (int)(dot - key), key);
    return zn_json_get_object_or_null(root, object, holder);
}

/* Also with null, which is a value that was not given. */
static bool is_listed(const zn_json *object, const char *key)
{
    const char *at = object ? zn_json_first_key(object) : NULL;
    while (at && strcmp(at, key) != 0)
        at = zn_json_next_key(object, at);
    return at != NULL;
}

static const char *text_of(const zn_text *text)
{
    return text->data ? text->data : "";
}

/* The value of the field of a flag that negates is the opposite of the flag's. */
static const char *word_of(const struct zn_setting *s, const char *text)
{
    if (s && s->absent && strcmp(text, s->absent) == 0)
        return "off";
    if (s && s->negates)
        return strcmp(text, "on") == 0 ? "off" : "on";
    return text;
}

static zn_status read_side(zn_json *object, const char *key, const struct zn_setting *s, zn_text *text)
{
    zn_text raw;
    zn_text_init(&raw);
    zn_status status = add_value(&raw, object, key);
    if (status == ZN_OK)
        status = zn_text_status(&raw);
    if (status == ZN_OK)
        zn_text_add(text, "%s", word_of(s, text_of(&raw)));
    zn_text_fini(&raw);
    return status == ZN_OK ? zn_text_status(text) : status;
}

/* `s` is NULL for a key that is no setting. The caller calls pair_fini, also after a failure. */
static zn_status read_pair(zn_json *saved, zn_json *now, const char *key, const struct zn_setting *s, struct pair *pair)
{
    zn_json *a, *b;
    const char *member;
    *pair = (struct pair){0};
    zn_text_init(&pair->was);
    zn_text_init(&pair->is);
    ZN_TRY(find_holder(saved, key, &a, &member));
    ZN_TRY(find_holder(now, key, &b, &member));
    pair->is_listed = is_listed(a, member) && is_listed(b, member);
    if (!pair->is_listed)
        return ZN_OK;
    pair->is_given = zn_json_has(a, member) && zn_json_has(b, member);
    ZN_TRY(read_side(a, member, s, &pair->was));
    return read_side(b, member, s, &pair->is);
}

static bool is_changed(const struct pair *pair)
{
    return pair->is_listed && strcmp(text_of(&pair->was), text_of(&pair->is)) != 0;
}

static zn_status tell(const struct pair *pair, const char *name, const struct zn_change_listener *listener)
{
    zn_text text;
    if (!is_changed(pair))
        return ZN_OK;
    zn_text_init(&text);
    zn_text_add(&text, "--resume: %s changed since the checkpoint: %s → %s", name, text_of(&pair->was),
                text_of(&pair->is));
    zn_status status = zn_text_status(&text);
    if (status == ZN_OK)
        listener->changed(listener->self, text.data);
    zn_text_fini(&text);
    return status;
}

zn_status zn_change_tell(zn_json *saved, zn_json *now, const char *key, const char *name,
                         const struct zn_change_listener *listener)
{
    struct pair pair;
    zn_status status = read_pair(saved, now, key, NULL, &pair);
    if (status == ZN_OK)
        status = tell(&pair, name, listener);
    pair_fini(&pair);
    return status;
}

zn_status zn_change_refuse(const char *folder, const char *name, const char *was, const char *is)
{
    return zn_fail(ZN_ERR_USAGE, "--resume: %s was made with %s %s, this run has %s; to begin a new run from its weights give "
                   "--model %s", folder, name, was, is, folder);
}

zn_status zn_settings_compare(zn_json *saved, zn_json *now, const char *folder, const struct zn_change_listener *listener)
{
    zn_status status = ZN_OK;
    for (size_t i = 0; i < ZN_N_SETTINGS && status == ZN_OK; i++) {
        const struct zn_setting *s = &zn_settings_table[i];
        struct pair pair;
        if (s->resume == ZN_RESUME_ANY)
            continue;
        status = read_pair(saved, now, zn_setting_key(s), s, &pair);
        if (status == ZN_OK && s->resume == ZN_RESUME_SAID)
            status = tell(&pair, s->name, listener);
        else if (status == ZN_OK && is_changed(&pair) && pair.is_given)
            status = zn_change_refuse(folder, s->name, text_of(&pair.was), text_of(&pair.is));
        pair_fini(&pair);
    }
    return status;
}
