/* From the values of a configuration file to options, by way of the text that the command line would have. */
#include "settings/file.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/files.h"
#include "base/text.h"
#include "settings/config.h"
#include "settings/write.h"

enum { FILE_BYTES = 1024 * 1024, NAME_TEXT = 96 };

/* The entry of one option, and where its value goes. */
struct place {
    struct zn_options *options;
    const struct config_entry *entry;
    struct zn_option option; /* under the name that messages use */
    void *field;
};

static const char *bare(const char *name)
{
    return name + strspn(name, "-");
}

static const char *key_at(const void *context, size_t i)
{
    const struct zn_command *command = context;
    return i < command->n_options ? bare(command->options[i].name) : NULL;
}

static zn_status wrong_type(const struct place *p)
{
    const char *name = p->option.name;
    switch (p->option.kind) {
    case ZN_OPTION_FLAG:
        return zn_fail(ZN_ERR_USAGE, "%s: is true or false", name);
    case ZN_OPTION_INT:
        return zn_fail(ZN_ERR_USAGE, "%s: is a whole number", name);
    case ZN_OPTION_DOUBLE:
        return zn_fail(ZN_ERR_USAGE, "%s: is a number", name);
    case ZN_OPTION_SIZE:
        return zn_fail(ZN_ERR_USAGE, "%s: is a number of bytes or a size as \"4GiB\"", name);
    case ZN_OPTION_STRING:
        return zn_fail(ZN_ERR_USAGE, "%s: is a string", name);
    case ZN_OPTION_NUMERIC:
        return zn_fail(ZN_ERR_USAGE, "%s: is a string or a number", name);
    case ZN_OPTION_SWITCH:
    case ZN_OPTION_LEVEL:
    case ZN_OPTION_CHOICE:
        return zn_fail(ZN_ERR_USAGE, "%s: is one of: %s", name, p->option.choices);
    case ZN_OPTION_OPTIONAL:
        return zn_fail(ZN_ERR_USAGE, "%s: is true, false or a string", name);
    case ZN_OPTION_OPTIONAL_INT:
        return zn_fail(ZN_ERR_USAGE, "%s: is true, false or a number", name);
    case ZN_OPTION_LIST:
        break;
    }
    return zn_fail(ZN_ERR_USAGE, "%s: is a string or an array of strings, at least one", name);
}

static bool takes_number(zn_option_kind kind, bool is_whole)
{
    switch (kind) {
    case ZN_OPTION_INT:
    case ZN_OPTION_SIZE:
        return is_whole;
    case ZN_OPTION_DOUBLE:
    case ZN_OPTION_SWITCH:
    case ZN_OPTION_LEVEL:
    case ZN_OPTION_CHOICE:
    case ZN_OPTION_NUMERIC:
    case ZN_OPTION_OPTIONAL_INT:
        return true;
    case ZN_OPTION_FLAG:
    case ZN_OPTION_STRING:
    case ZN_OPTION_OPTIONAL:
    case ZN_OPTION_LIST:
        break;
    }
    return false;
}

static bool takes_text(zn_option_kind kind)
{
    return kind != ZN_OPTION_FLAG && kind != ZN_OPTION_INT && kind != ZN_OPTION_DOUBLE;
}

static bool takes_bool(zn_option_kind kind)
{
    return kind == ZN_OPTION_FLAG || kind == ZN_OPTION_OPTIONAL || kind == ZN_OPTION_OPTIONAL_INT;
}

/* Reads copies of the texts, which live as long as the options. */
static zn_status read_texts(const struct place *p)
{
    for (size_t i = 0; i < p->entry->texts.n; i++) {
        char *copy = strdup(p->entry->texts.word[i]);
        zn_status status = copy ? zn_words_add(&p->options->kept, copy) : zn_fail(ZN_ERR_MEMORY, "no memory for options");
        if (status != ZN_OK) {
            free(copy);
            return status;
        }
        ZN_TRY(zn_option_read(&p->option, copy, p->field));
    }
    return ZN_OK;
}

/* *given: false where the value says that it is not. */
static zn_status read_entry(const struct place *p, bool *given)
{
    zn_option_kind kind = p->option.kind;
    *given = true;
    switch (p->entry->type) {
    case CONFIG_BOOL:
        if (!takes_bool(kind))
            return wrong_type(p);
        *given = p->entry->is_true;
        return *given ? zn_option_read_bare(&p->option, p->field) : zn_option_read_default(&p->option, p->field);
    case CONFIG_NUMBER:
        return takes_number(kind, p->entry->is_whole) ? read_texts(p) : wrong_type(p);
    case CONFIG_TEXT:
        return takes_text(kind) ? read_texts(p) : wrong_type(p);
    case CONFIG_LIST:
        return kind == ZN_OPTION_LIST && p->entry->texts.n > 0 ? read_texts(p) : wrong_type(p);
    case CONFIG_NOTHING:
    case CONFIG_OTHER:
        break;
    }
    return wrong_type(p);
}

static zn_status unknown_key(const struct zn_command *command, const char *name, const char *key)
{
    const char *near = zn_nearest_name(key, key_at, command);
    if (config_is_deepspeed(key))
        return zn_fail(ZN_ERR_USAGE, "%s: is a key of DeepSpeed's, whose files are JSON with all keys as DeepSpeed has them", name);
    return zn_fail(ZN_ERR_USAGE, "%s: unknown%s%s; its keys are the flags of `%s --help`", name,
                   near ? ", did you mean " : "", near ? near : "", command->name);
}

static zn_status set_entry(struct zn_options *options, char *target, const char *section, const struct config_entry *entry)
{
    const struct zn_command *command = options->command;
    union zn_setting_field checked = {0}; /* where a value goes that is only checked */
    char name[NAME_TEXT + sizeof(struct zn_shown)];
    size_t i = 0;
    if (entry->path)
        snprintf(name, sizeof name, "%s", zn_shown(entry->path).text);
    else
        snprintf(name, sizeof name, "%s%s", section, zn_shown(entry->key).text);
    while (i < command->n_options && strcmp(bare(command->options[i].name), entry->key) != 0)
        i++;
    if (i == command->n_options)
        return unknown_key(command, name, entry->key);
    struct place p = {.options = options, .entry = entry, .option = command->options[i]};
    p.option.name = name;
    if (p.option.not_built)
        return zn_fail(ZN_ERR_USAGE, "`%s`: not in this build", name);
    if (p.option.not_in_file)
        return zn_fail(ZN_ERR_USAGE, "%s: %s belongs to the command line", name, command->options[i].name);
    bool stands = options->given[i] != ZN_NOT_GIVEN, given;
    p.field = stands ? (void *)&checked : target + p.option.offset;
    zn_status status = read_entry(&p, &given);
    if (stands && p.option.kind == ZN_OPTION_LIST)
        zn_words_free(&checked.words);
    if (!stands && status == ZN_OK && given)
        options->given[i] = ZN_GIVEN_IN_FILE;
    return status;
}

static zn_status set_entries(struct zn_options *options, void *target, const char *path, const struct config *config)
{
    for (size_t i = 0; i < config->n_entries; i++) {
        const struct config_entry *entry = &config->entries[i];
        zn_status status = set_entry(options, target, config->section, entry);
        if (status != ZN_OK && entry->line > 0)
            return zn_add_context(status, "%s: line %d, column %d", path, entry->line, entry->column);
        if (status != ZN_OK)
            return zn_add_context(status, "%s", path);
    }
    return ZN_OK;
}

static zn_status keep_notes(struct zn_options *options, const struct config *config)
{
    for (size_t i = 0; i < config->notes.n; i++) {
        char *copy = strdup(config->notes.word[i]);
        zn_status status = copy ? zn_words_add(&options->kept, copy) : zn_fail(ZN_ERR_MEMORY, "no memory for options");
        if (status != ZN_OK) {
            free(copy);
            return status;
        }
        ZN_TRY(zn_words_add(&options->notes, copy));
    }
    return ZN_OK;
}

static bool is_yaml(const char *path)
{
    const char *end = strrchr(path, '.');
    return end && (strcasecmp(end, ".yaml") == 0 || strcasecmp(end, ".yml") == 0);
}

static zn_status as_usage(zn_status status)
{
    return status == ZN_OK || status == ZN_ERR_MEMORY ? status : zn_fail_text(ZN_ERR_USAGE, zn_error_message());
}

zn_status zn_settings_load_text(struct zn_options *options, void *target, const char *path, const char *data, size_t n_bytes)
{
    struct config config = {0};
    zn_status status = is_yaml(path) ? config_read_yaml(path, data, n_bytes, &config)
                                     : config_read_json(path, data, n_bytes, options, target, &config);
    if (status == ZN_OK)
        status = set_entries(options, target, path, &config);
    if (status == ZN_OK)
        status = keep_notes(options, &config);
    config_fini(&config);
    return as_usage(status);
}

zn_status zn_settings_load(struct zn_options *options, void *target, const char *path)
{
    char *data;
    size_t n_bytes;
    zn_status status = zn_file_read(path, FILE_BYTES, &data, &n_bytes);
    if (status != ZN_OK)
        return as_usage(status);
    status = zn_settings_load_text(options, target, path, data, n_bytes);
    free(data);
    return status;
}
