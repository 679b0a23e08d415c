/* Options as a handle: rows of the settings by name. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/options.h"
#include "settings/file.h"
#include "settings/write.h"

static const struct {
    const char *name, *full;
    unsigned which;
} commands[] = {{"train", "zinc train", ZN_FOR_TRAIN}, {"eval", "zinc eval", ZN_FOR_EVAL}, {"generate", "zinc generate", ZN_FOR_GENERATE}, {"plan", "zinc plan", 0}};

enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

static void *field_of(const zn_options *o, size_t row)
{
    return (char *)o->target + o->rows[row].offset;
}

/* Settings know where their values come from. */
static void take_origins(zn_options *o)
{
    if (o->which)
        zn_settings_take(&o->settings, &o->given, o->which);
}

static zn_status create(unsigned which, const char *full, zn_options **options)
{
    zn_options *o = calloc(1, sizeof *o);
    if (!o)
        return zn_fail(ZN_ERR_MEMORY, "no memory for options");
    o->which = which;
    o->target = which ? (void *)&o->settings : (void *)&o->plan;
    o->command = (struct zn_command){.name = full, .options = o->rows, .n_options = plan_command.n_options};
    o->given.command = &o->command;
    if (which) {
        zn_settings_init(&o->settings, which);
        o->command.n_options = zn_settings_options(which, 0, NULL, 0, o->rows);
    } else {
        memcpy(o->rows, plan_command.options, plan_command.n_options * sizeof o->rows[0]);
    }
    zn_status status = ZN_OK;
    for (size_t row = 0; !which && row < o->command.n_options && status == ZN_OK; row++)
        status = zn_option_read_default(&o->rows[row], field_of(o, row));
    if (status != ZN_OK) {
        zn_options_destroy(o);
        return status;
    }
    *options = o;
    return ZN_OK;
}

zn_status zn_options_create(const char *command, zn_options **options)
{
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (strcmp(command, commands[i].name) == 0)
            return create(commands[i].which, commands[i].full, options);
    return zn_fail(ZN_ERR_USAGE, "options: '%s' is not one of: train eval generate plan", command);
}

void zn_options_destroy(zn_options *o)
{
    if (!o)
        return;
    zn_options_fini(&o->given, o->target);
    free(o->file);
    free(o);
}

/* ---- Rows by name ---- */

/* "lr", "--lr", "seq_len" and "seq-len" are names. */
static bool is_name(const char *name, const char *flag)
{
    name += strspn(name, "-");
    flag += strspn(flag, "-");
    while (*name && (*name == *flag || (*name == '_' && *flag == '-'))) {
        name++;
        flag++;
    }
    return *name == *flag;
}

static const char *name_at(const void *self, size_t i)
{
    const zn_options *o = self;
    return i < o->command.n_options ? o->rows[i].name + strspn(o->rows[i].name, "-") : NULL;
}

static zn_status find_row(const zn_options *o, const char *name, size_t *row)
{
    for (*row = 0; *row < o->command.n_options; ++*row)
        if (is_name(name, o->rows[*row].name))
            return ZN_OK;
    const char *near = zn_nearest_name(name, name_at, o);
    return zn_fail(ZN_ERR_USAGE, "%s has no option '%s'%s%s", o->command.name, name, near ? ", did you mean " : "", near ? near : "");
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

/* ---- Setting ---- */

static zn_status keep_text(zn_options *o, const char *text, const char **kept)
{
    char *copy = strdup(text);
    zn_status status = copy ? zn_words_add(&o->given.kept, copy) : zn_fail(ZN_ERR_MEMORY, "no memory for options");
    if (status != ZN_OK) {
        free(copy);
        return status;
    }
    *kept = copy;
    return ZN_OK;
}

/* The value goes into a field of its own first: one that is wrong changes nothing. */
static zn_status read_value(zn_options *o, size_t row, const char *value)
{
    const struct zn_option *option = &o->rows[row];
    union zn_setting_field field = {0};
    const char *kept;
    ZN_TRY(keep_text(o, value, &kept));
    if (option->kind == ZN_OPTION_LIST)
        return zn_option_read(option, kept, field_of(o, row));
    ZN_TRY(zn_option_read(option, kept, &field));
    memcpy(field_of(o, row), &field, size_of(option->kind));
    return ZN_OK;
}

static zn_status set_row(zn_options *o, size_t row, const char *value)
{
    const struct zn_option *option = &o->rows[row];
    bool is_bare = option->kind == ZN_OPTION_OPTIONAL || option->kind == ZN_OPTION_OPTIONAL_INT;
    if (option->not_built)
        return zn_fail(ZN_ERR_UNSUPPORTED, "%s: not in this build", option->name);
    if (option->kind == ZN_OPTION_FLAG) {
        if (value && strcmp(value, "true") != 0 && strcmp(value, "false") != 0)
            return zn_fail(ZN_ERR_USAGE, "%s: is true or false", option->name);
        if (value && strcmp(value, "false") == 0)
            return zn_options_unset(o, option->name);
        ZN_TRY(zn_option_read_bare(option, field_of(o, row)));
    } else if (!value && !is_bare) {
        return zn_fail(ZN_ERR_USAGE, "%s needs a value", option->name);
    } else {
        if (option->kind == ZN_OPTION_LIST && o->given.given[row] != ZN_GIVEN_ON_LINE)
            zn_words_free(field_of(o, row)); /* what a file gave does not go together with it */
        ZN_TRY(value ? read_value(o, row, value) : zn_option_read_bare(option, field_of(o, row)));
    }
    o->given.given[row] = ZN_GIVEN_ON_LINE;
    take_origins(o);
    return ZN_OK;
}

zn_status zn_options_set(zn_options *o, const char *name, const char *value)
{
    size_t row;
    ZN_TRY(find_row(o, name, &row));
    return set_row(o, row, value);
}

zn_status zn_options_unset(zn_options *o, const char *name)
{
    size_t row;
    ZN_TRY(find_row(o, name, &row));
    void *field = field_of(o, row);
    if (o->rows[row].kind == ZN_OPTION_LIST)
        zn_words_free(field);
    memset(field, 0, size_of(o->rows[row].kind));
    o->given.given[row] = ZN_NOT_GIVEN;
    ZN_TRY(zn_option_read_default(&o->rows[row], field));
    take_origins(o);
    return ZN_OK;
}

zn_status zn_options_load(zn_options *o, const char *path)
{
    char *file = strdup(path);
    if (!file)
        return zn_fail(ZN_ERR_MEMORY, "no memory for options");
    free(o->file);
    o->file = file;
    zn_status status = zn_settings_load(&o->given, o->target, path);
    take_origins(o);
    return status;
}

/* ---- Reading back ---- */

static void add_lines(zn_text *text, const struct zn_words *words)
{
    for (size_t i = 0; i < words->n; i++)
        zn_text_add(text, "%s%s", i ? "\n" : "", words->word[i]);
}

static zn_status value_text(const struct zn_setting *s, const void *value, char **text)
{
    zn_text t;
    zn_text_init(&t);
    zn_text_add(&t, "%s", "");
    if (s->kind == ZN_OPTION_FLAG)
        zn_text_add(&t, *(const bool *)value != s->negates ? "true" : "false");
    else if (s->kind == ZN_OPTION_LIST)
        add_lines(&t, value);
    else if (s->kind != ZN_OPTION_OPTIONAL || *(const char *const *)value)
        zn_setting_add_text(&t, s, value);
    zn_status status = zn_text_status(&t);
    if (status == ZN_OK)
        *text = t.data; /* the caller's now */
    else
        zn_text_fini(&t);
    return status;
}

zn_status options_value_text(const struct zn_settings *settings, const char *name, char **text)
{
    size_t i = 0;
    while (i < ZN_N_SETTINGS && !is_name(name, zn_settings_table[i].name))
        i++;
    if (i == ZN_N_SETTINGS)
        return zn_fail(ZN_ERR_USAGE, "there is no option '%s'", name);
    *text = NULL;
    if (zn_settings_origin(settings, i) == ZN_ORIGIN_NONE)
        return ZN_OK;
    return value_text(&zn_settings_table[i], zn_settings_value(settings, i), text);
}

zn_status zn_options_get(const zn_options *o, const char *name, char **text)
{
    size_t row;
    ZN_TRY(find_row(o, name, &row));
    const struct zn_option *option = &o->rows[row];
    if (o->which)
        return options_value_text(&o->settings, option->name, text);
    *text = NULL;
    if (o->given.given[row] == ZN_NOT_GIVEN && !option->initial && option->kind != ZN_OPTION_FLAG)
        return ZN_OK;
    return value_text(&(struct zn_setting){.kind = option->kind, .negates = option->negates}, field_of(o, row), text);
}

zn_status zn_options_print(const zn_options *o, char **text)
{
    char *data = NULL;
    size_t n_bytes = 0;
    if (!o->which)
        return zn_fail(ZN_ERR_UNSUPPORTED, "the options of plan are no settings: there is no configuration file of them to print");
    FILE *out = open_memstream(&data, &n_bytes);
    zn_status status = out ? zn_settings_print(out, &o->settings, &o->command, o->file) : ZN_ERR_MEMORY;
    if (!out || fclose(out) != 0 || status != ZN_OK) {
        free(data);
        return zn_fail(ZN_ERR_MEMORY, "no memory for a text of options");
    }
    *text = data;
    return ZN_OK;
}

/* ---- Copies ---- */

static bool is_text(zn_option_kind kind)
{
    return kind == ZN_OPTION_STRING || kind == ZN_OPTION_CHOICE || kind == ZN_OPTION_NUMERIC || kind == ZN_OPTION_OPTIONAL;
}

static zn_status copy_row(const zn_options *from, size_t row, zn_options *to)
{
    const struct zn_option *option = &from->rows[row];
    const void *field = field_of(from, row);
    const char *kept;
    if (option->kind == ZN_OPTION_LIST) {
        const struct zn_words *words = field;
        for (size_t i = 0; i < words->n; i++) {
            ZN_TRY(keep_text(to, words->word[i], &kept));
            ZN_TRY(zn_words_add(field_of(to, row), kept));
        }
    } else if (is_text(option->kind)) {
        kept = NULL;
        if (*(const char *const *)field)
            ZN_TRY(keep_text(to, *(const char *const *)field, &kept));
        *(const char **)field_of(to, row) = kept;
    } else {
        memcpy(field_of(to, row), field, size_of(option->kind));
    }
    to->given.given[row] = from->given.given[row];
    return ZN_OK;
}

zn_status options_copy(const zn_options *from, zn_options **copy)
{
    zn_options *o = NULL;
    zn_status status = create(from->which, from->command.name, &o);
    ZN_TRY(status);
    for (size_t row = 0; row < from->command.n_options && status == ZN_OK; row++)
        status = from->given.given[row] == ZN_NOT_GIVEN ? ZN_OK : copy_row(from, row, o);
    if (status != ZN_OK) {
        zn_options_destroy(o);
        return status;
    }
    take_origins(o);
    *copy = o;
    return ZN_OK;
}
