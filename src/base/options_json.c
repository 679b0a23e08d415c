/* From JSON values to options, by way of the text that the command line would have. */
#include "base/options_json.h"

#include <stdlib.h>
#include <string.h>

#include "base/options_private.h"
#include "base/text.h"

enum { NUMBER_TEXT = 32, NAME_TEXT = 96 };

/* The key of one option, and where its value goes. */
struct place {
    struct zn_options *options;
    zn_json *object;
    const char *key;
    struct zn_option option; /* under the name that messages use */
    void *field;
};

/* A field of any kind. */
union field {
    bool is_set;
    int64_t whole;
    double number;
    size_t n_bytes;
    const char *text;
    struct zn_words words;
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
        return zn_fail(ZN_ERR_USAGE, "%s: is a string%s", name, p->option.may_be_number ? " or a number" : "");
    case ZN_OPTION_CHOICE:
        return zn_fail(ZN_ERR_USAGE, "%s: is one of: %s", name, p->option.choices);
    case ZN_OPTION_OPTIONAL:
        return zn_fail(ZN_ERR_USAGE, "%s: is true, false or a %s", name,
                       p->option.may_be_number ? "number" : "string");
    case ZN_OPTION_LIST:
        break;
    }
    return zn_fail(ZN_ERR_USAGE, "%s: is a string or an array of strings, at least one", name);
}

/* The shortest decimal that reads back as the number. */
static void print_number(double number, char text[NUMBER_TEXT])
{
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, NUMBER_TEXT, "%.*g", digits, number);
        if (strtod(text, NULL) == number)
            return;
    }
}

static bool takes_number(const struct zn_option *option)
{
    return option->kind == ZN_OPTION_INT || option->kind == ZN_OPTION_DOUBLE || option->kind == ZN_OPTION_SIZE ||
           option->kind == ZN_OPTION_CHOICE || option->may_be_number;
}

static zn_status print_value(const struct place *p, char text[NUMBER_TEXT])
{
    int64_t whole;
    double number;
    if (!takes_number(&p->option))
        return wrong_type(p);
    if (zn_json_get_int(p->object, p->key, INT64_MIN, INT64_MAX, &whole) == ZN_OK) {
        snprintf(text, NUMBER_TEXT, "%lld", (long long)whole);
        return ZN_OK;
    }
    if (p->option.kind == ZN_OPTION_INT || p->option.kind == ZN_OPTION_SIZE)
        return wrong_type(p);
    ZN_TRY(zn_json_get_number(p->object, p->key, &number));
    print_number(number, text);
    return ZN_OK;
}

/* Reads a copy of the text, which lives as long as the options. */
static zn_status read_text(const struct place *p, const char *text)
{
    char *copy = strdup(text);
    zn_status status = copy ? options_add_word(&p->options->kept, copy)
                            : zn_fail(ZN_ERR_MEMORY, "no memory for options");
    if (status != ZN_OK) {
        free(copy);
        return status;
    }
    return options_read_value(&p->option, copy, p->field);
}

static zn_status read_array(const struct place *p)
{
    zn_json *array;
    ZN_TRY(zn_json_get_array(p->object, p->key, &array));
    if (p->option.kind != ZN_OPTION_LIST || zn_json_n_items(array) == 0)
        return wrong_type(p);
    for (size_t i = 0; i < zn_json_n_items(array); i++) {
        const char *text;
        if (zn_json_item_string(array, i, &text) != ZN_OK)
            return wrong_type(p);
        ZN_TRY(read_text(p, text));
    }
    return ZN_OK;
}

static zn_status read_string(const struct place *p)
{
    const char *text;
    if (p->option.kind == ZN_OPTION_FLAG || p->option.kind == ZN_OPTION_INT || p->option.kind == ZN_OPTION_DOUBLE)
        return wrong_type(p);
    ZN_TRY(zn_json_get_string(p->object, p->key, &text));
    return read_text(p, text);
}

/* *given: false where the value says that it is not. */
static zn_status read_json(const struct place *p, bool *given)
{
    char text[NUMBER_TEXT];
    *given = true;
    switch (zn_json_type_at(p->object, p->key)) {
    case ZN_JSON_BOOL:
        if (p->option.kind != ZN_OPTION_FLAG && p->option.kind != ZN_OPTION_OPTIONAL)
            return wrong_type(p);
        ZN_TRY(zn_json_get_bool(p->object, p->key, given));
        if (p->option.kind == ZN_OPTION_FLAG)
            *(bool *)p->field = *given;
        return ZN_OK;
    case ZN_JSON_NUMBER:
        ZN_TRY(print_value(p, text));
        return read_text(p, text);
    case ZN_JSON_STRING:
        return read_string(p);
    case ZN_JSON_ARRAY:
        return read_array(p);
    case ZN_JSON_OBJECT:
    case ZN_JSON_NULL:
        break;
    }
    return wrong_type(p);
}

static zn_status unknown_key(const struct zn_command *command, const char *section, const char *key)
{
    const char *near = zn_nearest_name(key, key_at, command);
    return zn_fail(ZN_ERR_USAGE, "%s.%s: unknown%s%s; its keys are the flags of `%s --help`", section, zn_shown(key).text,
                   near ? ", did you mean " : "", near ? near : "", command->name);
}

static zn_status set_key(struct zn_options *options, char *target, zn_json *object, const char *section, const char *key)
{
    const struct zn_command *command = options->command;
    union field checked = {0}; /* where a value goes that is only checked */
    char name[NAME_TEXT];
    size_t i = 0;
    while (i < command->n_options && strcmp(bare(command->options[i].name), key) != 0)
        i++;
    if (i == command->n_options)
        return unknown_key(command, section, key);
    struct place p = {.options = options, .object = object, .key = key, .option = command->options[i]};
    snprintf(name, sizeof name, "%s.%s", section, key);
    p.option.name = name;
    if (p.option.not_built)
        return zn_fail(ZN_ERR_USAGE, "`%s`: not in this build", name);
    if (p.option.not_in_file)
        return zn_fail(ZN_ERR_USAGE, "%s: %s belongs to the command line", name, command->options[i].name);
    bool stands = options->given[i], given;
    p.field = stands ? (void *)&checked : target + p.option.offset;
    zn_status status = read_json(&p, &given);
    if (stands && p.option.kind == ZN_OPTION_LIST)
        free(checked.words.word);
    options->given[i] = stands || (status == ZN_OK && given);
    return status;
}

zn_status zn_options_set(struct zn_options *options, void *target, zn_json *object, const char *file,
                         const char *section)
{
    for (const char *key = zn_json_first_key(object); key; key = zn_json_next_key(object, key)) {
        zn_status status = set_key(options, target, object, section, key);
        if (status != ZN_OK)
            return zn_context(status, "%s", file);
    }
    return ZN_OK;
}
