/* The rows of zinc/settings.def as a table, their defaults, and the check of values that a program has set. */
#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "optim/registry.h"
#include "settings/write.h"

enum { TRAIN = ZN_FOR_TRAIN, EVAL = ZN_FOR_EVAL, GENERATE = ZN_FOR_GENERATE };

const struct zn_setting zn_settings_table[ZN_N_SETTINGS] = {
#define ZN_SETTING(kind_, field_, flag_, section_, commands_, ranks_, resume_, ...)                                           \
    [offsetof(struct zn_origins, field_)] = {.name = flag_,                                                                   \
                                             .field = #field_,                                                                \
                                             .kind = ZN_OPTION_##kind_,                                                       \
                                             .offset = offsetof(struct zn_settings, field_),                                  \
                                             .section = ZN_SECTION_##section_,                                                \
                                             .commands = commands_,                                                           \
                                             .ranks = ZN_RANKS_##ranks_,                                                      \
                                             .resume = ZN_RESUME_##resume_,                                                   \
                                             __VA_ARGS__},
#include "zinc/settings.def"
};

/* What some commands have otherwise than the row; NULL: the same. */
static const struct variant {
    size_t row;
    unsigned commands;
    const char *help, *otherwise, *section;
} variants[] = {
#define ZN_SETTING(...)
#define ZN_VARIANT(field_, commands_, ...)                                                                                    \
    {.row = offsetof(struct zn_origins, field_), .commands = commands_, __VA_ARGS__},
#include "zinc/settings.def"
};

/* For the manual alone. */
static const char *const details[ZN_N_SETTINGS] = {
#define ZN_DETAIL(field_, text) [offsetof(struct zn_origins, field_)] = text,
#include "settings/details.def"
};

void *zn_settings_at(struct zn_settings *settings, size_t i)
{
    return (char *)settings + zn_settings_table[i].offset;
}

const void *zn_settings_value(const struct zn_settings *settings, size_t i)
{
    return (const char *)settings + zn_settings_table[i].offset;
}

zn_origin zn_settings_origin(const struct zn_settings *settings, size_t i)
{
    return (zn_origin)((const unsigned char *)&settings->origin)[i];
}

struct zn_option zn_settings_option(size_t i, unsigned command)
{
    const struct zn_setting *s = &zn_settings_table[i];
    struct zn_option option = {.name = s->name,
                               .kind = s->kind,
                               .offset = s->offset,
                               .value = s->value,
                               .help = s->help,
                               .more = details[i],
                               .initial = s->initial,
                               .otherwise = s->otherwise,
                               .range = s->range,
                               .choices = s->choices,
                               .not_yet = s->not_yet,
                               .bare = s->bare,
                               .section = s->section,
                               .negates = s->negates,
                               .required = s->required};
    for (size_t k = 0; k < sizeof variants / sizeof variants[0]; k++) {
        const struct variant *v = &variants[k];
        if (v->row != i || !(v->commands & command))
            continue;
        option.help = v->help ? v->help : option.help;
        option.more = v->help ? NULL : option.more;
        option.otherwise = v->otherwise ? v->otherwise : option.otherwise;
        option.section = v->section ? v->section : option.section;
    }
    return option;
}

static bool has_default(const struct zn_setting *s)
{
    return s->initial || s->kind == ZN_OPTION_FLAG;
}

static size_t size_of(zn_option_kind kind)
{
    switch (kind) {
    case ZN_OPTION_FLAG:
    case ZN_OPTION_SWITCH:
        return sizeof(bool);
    case ZN_OPTION_INT:
    case ZN_OPTION_LEVEL:
    case ZN_OPTION_OPTIONAL_INT:
        return sizeof(int64_t);
    case ZN_OPTION_DOUBLE:
        return sizeof(double);
    case ZN_OPTION_SIZE:
        return sizeof(size_t);
    case ZN_OPTION_STRING:
    case ZN_OPTION_CHOICE:
    case ZN_OPTION_NUMERIC:
    case ZN_OPTION_OPTIONAL:
        return sizeof(const char *);
    case ZN_OPTION_LIST:
        break;
    }
    return sizeof(struct zn_words);
}

void zn_settings_init(struct zn_settings *settings, unsigned command)
{
    memset(settings, 0, sizeof *settings); /* padding too: values may be compared as bytes */
    for (size_t i = 0; i < ZN_N_SETTINGS; i++) {
        const struct zn_option option = zn_settings_option(i, command);
        if (!(zn_settings_table[i].commands & command) || !has_default(&zn_settings_table[i]))
            continue;
        zn_status status = zn_option_read_default(&option, zn_settings_at(settings, i));
        assert(status == ZN_OK); /* a row whose default is out of its own range */
        (void)status;
        ((unsigned char *)&settings->origin)[i] = ZN_ORIGIN_DEFAULT;
    }
}

/* ---- Values that a program has set ---- */

static bool is_zero(const void *value, size_t n_bytes)
{
    const unsigned char *byte = value;
    while (n_bytes > 0 && byte[n_bytes - 1] == 0)
        n_bytes--;
    return n_bytes == 0;
}

static bool is_default(const struct zn_settings *settings, const struct zn_settings *initial, size_t i)
{
    const void *a = zn_settings_value(settings, i), *b = zn_settings_value(initial, i);
    return memcmp(a, b, size_of(zn_settings_table[i].kind)) == 0;
}

/* As if the value were typed. */
static zn_status check_given(const struct zn_settings *settings, size_t i, unsigned command)
{
    const struct zn_setting *s = &zn_settings_table[i];
    const struct zn_option option = zn_settings_option(i, command);
    union zn_setting_field field = {0};
    if (s->kind == ZN_OPTION_FLAG || s->kind == ZN_OPTION_LIST || s->is_open ||
        (s->kind == ZN_OPTION_OPTIONAL && !*(const char *const *)zn_settings_value(settings, i)))
        return ZN_OK;
    zn_text text;
    zn_text_init(&text);
    zn_setting_add_text(&text, s, zn_settings_value(settings, i));
    zn_status status = zn_text_status(&text);
    if (status == ZN_OK)
        status = zn_option_read(&option, text.data ? text.data : "", &field);
    zn_text_fini(&text);
    return status;
}

static zn_status check_one(const struct zn_settings *settings, const struct zn_settings *initial, size_t i, unsigned command)
{
    const struct zn_setting *s = &zn_settings_table[i];
    zn_origin origin = zn_settings_origin(settings, i);
    if (origin >= ZN_ORIGIN_CHOSEN && !(s->commands & command))
        return zn_fail(ZN_ERR_USAGE, "%s: not a setting of this command", s->name);
    if (origin >= ZN_ORIGIN_CHOSEN)
        return check_given(settings, i, command);
    if (origin == ZN_ORIGIN_NONE && zn_settings_origin(initial, i) == ZN_ORIGIN_DEFAULT)
        return zn_fail(ZN_ERR_USAGE, "%s has no value, not even its default: options begin with their init function", s->name);
    if (origin == ZN_ORIGIN_NONE && s->required && (s->commands & command))
        return zn_fail(ZN_ERR_USAGE, "%s %s is required", s->name, s->value);
    if (origin == ZN_ORIGIN_NONE ? !is_zero(zn_settings_value(settings, i), size_of(s->kind)) : !is_default(settings, initial, i))
        return zn_fail(ZN_ERR_USAGE, "%s: the field %s was changed without ZN_SET", s->name, s->field);
    return ZN_OK;
}

zn_status zn_settings_check(const struct zn_settings *settings, unsigned command)
{
    struct zn_settings initial;
    zn_settings_init(&initial, command);
    for (size_t i = 0; i < ZN_N_SETTINGS; i++)
        ZN_TRY(check_one(settings, &initial, i, command));
    return ZN_OK;
}
