/* The walk over DeepSpeed's configuration, and what its blocks share. */
#include "settings/deepspeed.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "settings/json_place.h"
#include "settings/write.h"

/* ---- Messages ---- */

/* "FILE: line L, column C: KEY: ", or without the place where it is not known. */
static void add_place(zn_text *text, const struct deepspeed *d, const char *path)
{
    struct json_place place = json_place_find(d->data, d->n_bytes, path);
    zn_text_add(text, "%s: ", d->file);
    if (place.line > 0)
        zn_text_add(text, "line %d, column %d: ", place.line, place.column);
    zn_text_add(text, "%s: ", zn_shown(path).text);
}

static void add_message(zn_text *text, const char *format, va_list args)
{
    char message[512];
    vsnprintf(message, sizeof message, format, args);
    zn_text_add(text, "%s", message);
}

zn_status deepspeed_fail(const struct deepspeed *d, const char *path, const char *format, ...)
{
    zn_text text;
    va_list args;
    zn_text_init(&text);
    add_place(&text, d, path);
    va_start(args, format);
    add_message(&text, format, args);
    va_end(args);
    zn_status status = zn_text_status(&text);
    if (status == ZN_OK)
        status = zn_fail_text(ZN_ERR_USAGE, text.data);
    zn_text_fini(&text);
    return status;
}

zn_status deepspeed_note(const struct deepspeed *d, const char *path, const char *format, ...)
{
    zn_text text;
    va_list args;
    zn_text_init(&text);
    add_place(&text, d, path);
    va_start(args, format);
    add_message(&text, format, args);
    va_end(args);
    zn_status status = zn_text_status(&text);
    if (status == ZN_OK)
        status = zn_words_add(&d->config->notes, text.data);
    if (status != ZN_OK)
        zn_text_fini(&text);
    return status;
}

/* ---- Values ---- */

static zn_status add_entry(const struct deepspeed *d, const char *path, const char *flag, struct config_entry **entry)
{
    struct json_place place = json_place_find(d->data, d->n_bytes, path);
    ZN_TRY(config_add(d->config, flag, strlen(flag), entry));
    (*entry)->line = place.line;
    (*entry)->column = place.column;
    (*entry)->path = strdup(path);
    return (*entry)->path ? ZN_OK : zn_fail(ZN_ERR_MEMORY, "no memory for a configuration file");
}

zn_status deepspeed_give_text(const struct deepspeed *d, const char *path, const char *flag, const char *text)
{
    struct config_entry *entry;
    ZN_TRY(add_entry(d, path, flag, &entry));
    entry->type = CONFIG_TEXT;
    return config_add_text(entry, text, strlen(text));
}

zn_status deepspeed_give_number(const struct deepspeed *d, const char *path, const char *flag, double value)
{
    struct config_entry *entry;
    zn_text text;
    ZN_TRY(add_entry(d, path, flag, &entry));
    zn_text_init(&text);
    zn_text_add_shortest(&text, value);
    zn_status status = zn_text_status(&text);
    entry->type = CONFIG_NUMBER;
    entry->is_whole = value > -1e15 && value < 1e15 && value == (double)(int64_t)value;
    if (status == ZN_OK)
        status = config_add_text(entry, text.data, text.n_bytes);
    zn_text_fini(&text);
    return status;
}

bool deepspeed_is_auto(zn_json *object, const char *member)
{
    const char *text;
    return zn_json_type_at(object, member) == ZN_JSON_STRING && zn_json_get_string(object, member, &text) == ZN_OK &&
           strcmp(text, "auto") == 0;
}

zn_status deepspeed_note_auto(const struct deepspeed *d, const char *path, const char *flag)
{
    const struct zn_command *command = d->line->command;
    size_t i = 0;
    while (i < command->n_options && strcmp(command->options[i].name + strspn(command->options[i].name, "-"), flag) != 0)
        i++;
    if (i == command->n_options)
        return deepspeed_note(d, path, "\"auto\": left to --%s", flag);
    const struct zn_option *o = &command->options[i];
    if (d->line->given[i] != ZN_NOT_GIVEN)
        return deepspeed_note(d, path, "\"auto\": --%s, which is given", flag);
    return deepspeed_note(d, path, "\"auto\": --%s, by default %s", flag, o->initial ? o->initial : o->otherwise ? o->otherwise : "off");
}

zn_status deepspeed_give(const struct deepspeed *d, zn_json *object, const char *member, const char *path, const char *flag)
{
    struct config_entry *entry;
    if (!object || !zn_json_has(object, member))
        return ZN_OK;
    if (deepspeed_is_auto(object, member))
        return deepspeed_note_auto(d, path, flag);
    ZN_TRY(add_entry(d, path, flag, &entry));
    return config_set_json(entry, object, member);
}

zn_status deepspeed_get_switch(const struct deepspeed *d, zn_json *object, const char *member, const char *path, bool *is_on,
                               bool *is_auto)
{
    *is_on = *is_auto = false;
    if (!object || !zn_json_has(object, member))
        return ZN_OK;
    *is_auto = deepspeed_is_auto(object, member);
    if (*is_auto)
        return ZN_OK;
    if (zn_json_type_at(object, member) != ZN_JSON_BOOL)
        return deepspeed_fail(d, path, "is true, false or \"auto\"");
    return zn_json_get_bool(object, member, is_on);
}

bool deepspeed_line_has(const struct deepspeed *d, const char *flag)
{
    const struct zn_command *command = d->line->command;
    for (size_t i = 0; i < command->n_options; i++)
        if (strcmp(command->options[i].name, flag) == 0)
            return d->line->given[i] != ZN_NOT_GIVEN;
    return false;
}

/* ---- The walk ---- */

/* Whether a value that is refused otherwise changes nothing. */
static bool is_neutral(zn_json *object, const char *member, const char *neutral)
{
    zn_json *block;
    double number;
    bool is_on;
    const char *text;
    switch (zn_json_type_at(object, member)) {
    case ZN_JSON_BOOL:
        return zn_json_get_bool(object, member, &is_on) == ZN_OK && strcmp(is_on ? "true" : "false", neutral ? neutral : "false") == 0;
    case ZN_JSON_NUMBER:
        return neutral && zn_json_get_number(object, member, &number) == ZN_OK && strcmp(neutral, "true") != 0 &&
               number == strtod(neutral, NULL);
    case ZN_JSON_STRING:
        return zn_json_get_string(object, member, &text) == ZN_OK &&
               (strcmp(text, "auto") == 0 || (neutral && neutral[0] == '"' && strncmp(neutral + 1, text, strlen(text)) == 0 &&
                                              strcmp(neutral + 1 + strlen(text), "\"") == 0));
    case ZN_JSON_OBJECT:
        return !neutral && zn_json_get_object(object, member, &block) == ZN_OK && zn_json_type_at(block, "enabled") == ZN_JSON_BOOL &&
               zn_json_get_bool(block, "enabled", &is_on) == ZN_OK && !is_on;
    case ZN_JSON_ARRAY:
    case ZN_JSON_NULL:
        break;
    }
    return false;
}

static zn_status walk(const struct deepspeed *d, zn_json *object, const char *prefix);

static zn_status take_key(const struct deepspeed *d, zn_json *object, const char *member, const char *path)
{
    struct deepspeed_key key;
    zn_json *block;
    if (!deepspeed_find(path, &key)) {
        const char *near = deepspeed_nearest(path);
        return deepspeed_fail(d, path, "unknown%s%s", near ? ", did you mean " : "", near ? near : "");
    }
    switch (key.use) {
    case DEEPSPEED_SETTING:
        return deepspeed_give(d, object, member, path, key.flag + strspn(key.flag, "-"));
    case DEEPSPEED_BLOCK:
        if (zn_json_type_at(object, member) != ZN_JSON_OBJECT)
            return deepspeed_fail(d, path, "is an object");
        ZN_TRY(zn_json_get_object(object, member, &block));
        return walk(d, block, path);
    case DEEPSPEED_READ:
        return ZN_OK;
    case DEEPSPEED_NO_EFFECT:
        return deepspeed_note(d, path, "has no effect: %s", key.why);
    case DEEPSPEED_REFUSED:
        break;
    }
    return is_neutral(object, member, key.neutral) ? ZN_OK : deepspeed_fail(d, path, "%s", key.why);
}

/* Holds every key of an object to the table; null counts as not there. */
static zn_status walk(const struct deepspeed *d, zn_json *object, const char *prefix)
{
    for (const char *key = zn_json_first_key(object); key; key = zn_json_next_key(object, key)) {
        char path[DEEPSPEED_PATH];
        int n = snprintf(path, sizeof path, "%s%s%s", prefix, *prefix ? "." : "", key);
        if (n < 0 || (size_t)n >= sizeof path)
            return zn_fail(ZN_ERR_USAGE, "%s: %s: unknown", d->file, zn_shown(key).text);
        if (zn_json_type_at(object, key) != ZN_JSON_NULL)
            ZN_TRY(take_key(d, object, key, path));
    }
    return ZN_OK;
}

zn_status config_read_deepspeed(const char *path, const char *data, size_t n_bytes, zn_json *root, const struct zn_options *line,
                                const void *target, struct config *config)
{
    const struct deepspeed d = {path, data, n_bytes, root, line, target, config};
    *config = (struct config){.section = ""};
    ZN_TRY(deepspeed_check_types(&d));
    ZN_TRY(walk(&d, root, ""));
    ZN_TRY(deepspeed_read_precision(&d));
    ZN_TRY(deepspeed_read_memory(&d));
    ZN_TRY(deepspeed_read_optimizer(&d));
    return deepspeed_read_scheduler(&d);
}
