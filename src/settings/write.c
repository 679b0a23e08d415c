/* Writing of values, by their kinds. */
#include "settings/write.h"

#include <stdlib.h>
#include <string.h>

static void add_words(zn_text *text, const struct zn_words *words)
{
    for (size_t i = 0; i < words->n; i++)
        zn_text_add(text, "%s%s", i ? " " : "", words->word[i]);
}

void zn_setting_add_text(zn_text *text, const struct zn_setting *s, const void *value)
{
    switch (s->kind) {
    case ZN_OPTION_FLAG:
        break;
    case ZN_OPTION_SWITCH:
        zn_text_add(text, *(const bool *)value ? "on" : "off");
        break;
    case ZN_OPTION_INT:
    case ZN_OPTION_LEVEL:
    case ZN_OPTION_OPTIONAL_INT:
        zn_text_add(text, "%lld", (long long)*(const int64_t *)value);
        break;
    case ZN_OPTION_DOUBLE:
        zn_text_add_shortest(text, *(const double *)value);
        break;
    case ZN_OPTION_SIZE:
        zn_text_add(text, "%zu", *(const size_t *)value);
        break;
    case ZN_OPTION_STRING:
    case ZN_OPTION_CHOICE:
    case ZN_OPTION_NUMERIC:
    case ZN_OPTION_OPTIONAL:
        if (*(const char *const *)value)
            zn_text_add(text, "%s", *(const char *const *)value);
        break;
    case ZN_OPTION_LIST:
        add_words(text, value);
        break;
    }
}

static void add_list(zn_text *text, const struct zn_words *words)
{
    zn_text_add(text, "[");
    for (size_t i = 0; i < words->n; i++) {
        zn_text_add(text, i ? ", " : "");
        zn_text_add_quoted(text, words->word[i]);
    }
    zn_text_add(text, "]");
}

/* The words of `to` stand in the order of those of `from`; both are separated by single spaces. */
static void add_translated(zn_text *text, const char *from, const char *to, const char *word)
{
    size_t length = strlen(word);
    while (*from && !(strncmp(from, word, length) == 0 && (from[length] == ' ' || from[length] == '\0'))) {
        from += strcspn(from, " ");
        from += *from == ' ';
        to += strcspn(to, " ");
        to += *to == ' ';
    }
    zn_text_add(text, "\"%.*s\"", (int)strcspn(to, " "), to);
}

static void add_string(zn_text *text, const struct zn_setting *s, const char *value)
{
    char *end;
    double number = s->kind == ZN_OPTION_NUMERIC ? strtod(value, &end) : 0;
    if (s->written)
        add_translated(text, s->choices, s->written, value);
    else if (s->kind == ZN_OPTION_NUMERIC && end != value && *end == '\0')
        zn_text_add(text, "%.17g", number);
    else
        zn_text_add_quoted(text, value);
}

static void add_json(zn_text *text, const struct zn_setting *s, const void *value)
{
    switch (s->kind) {
    case ZN_OPTION_FLAG:
    case ZN_OPTION_SWITCH:
        zn_text_add(text, *(const bool *)value ? "true" : "false");
        break;
    case ZN_OPTION_INT:
    case ZN_OPTION_LEVEL:
    case ZN_OPTION_OPTIONAL_INT:
    case ZN_OPTION_SIZE:
        zn_setting_add_text(text, s, value);
        break;
    case ZN_OPTION_DOUBLE:
        zn_text_add(text, "%.17g", *(const double *)value);
        break;
    case ZN_OPTION_STRING:
    case ZN_OPTION_CHOICE:
    case ZN_OPTION_NUMERIC:
    case ZN_OPTION_OPTIONAL:
        if (*(const char *const *)value)
            add_string(text, s, *(const char *const *)value);
        else
            zn_text_add(text, "true");
        break;
    case ZN_OPTION_LIST:
        add_list(text, value);
        break;
    }
}

void zn_settings_add_json(zn_text *text, const struct zn_settings *settings, size_t i)
{
    const struct zn_setting *s = &zn_settings_table[i];
    if (zn_settings_origin(settings, i) != ZN_ORIGIN_NONE || s->kind == ZN_OPTION_LIST)
        add_json(text, s, zn_settings_value(settings, i));
    else
        zn_text_add(text, "%s", s->absent ? s->absent : "null");
}

const char *zn_setting_key(const struct zn_setting *s)
{
    return s->key ? s->key : s->field;
}

static bool is_recorded(size_t i)
{
    return i < ZN_N_SETTINGS && (zn_settings_table[i].commands & ZN_FOR_TRAIN) && !zn_settings_table[i].is_unrecorded;
}

/* How many bytes of the key name the object that it is a member of; 0: none. */
static size_t object_length(const char *key)
{
    const char *dot = strchr(key, '.');
    return dot ? (size_t)(dot - key) : 0;
}

/* Members of one object stand in one line. `open` is the key before, NULL at first. */
static void add_key(zn_text *text, const char *key, const char *open)
{
    size_t n = object_length(key);
    bool is_in = open && object_length(open) == n && n > 0 && memcmp(open, key, n) == 0;
    if (open && object_length(open) > 0 && !is_in)
        zn_text_add(text, "}");
    if (n == 0)
        zn_text_add(text, ",\n  \"%s\": ", key);
    else if (is_in)
        zn_text_add(text, ", \"%s\": ", key + n + 1);
    else
        zn_text_add(text, ",\n  \"%.*s\": {\"%s\": ", (int)n, key, key + n + 1);
}

void zn_settings_add_record(zn_text *text, const struct zn_settings *settings,
                            void (*after)(const void *self, zn_text *text, const char *key), const void *self)
{
    const char *open = NULL;
    for (size_t i = 0; i < ZN_N_SETTINGS; i++) {
        const char *key = zn_setting_key(&zn_settings_table[i]);
        if (!is_recorded(i))
            continue;
        add_key(text, key, open);
        zn_settings_add_json(text, settings, i);
        open = key;
        if (after)
            after(self, text, key);
    }
    if (open && object_length(open) > 0)
        zn_text_add(text, "}");
}
