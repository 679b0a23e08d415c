/* Settings for a person to read and for --config to take. */
#include <string.h>

#include "settings/write.h"

enum { ORIGIN_COLUMN = 40 };

static const char *key_of(const struct zn_setting *s)
{
    return s->name + strspn(s->name, "-");
}

static void add_list(zn_text *text, const struct zn_words *words)
{
    for (size_t i = 0; i < words->n; i++) {
        zn_text_add(text, i ? ", " : "[");
        zn_text_add_quoted(text, words->word[i]);
    }
    zn_text_add(text, "]");
}

static void add_yaml(zn_text *text, const struct zn_setting *s, const void *value)
{
    switch (s->kind) {
    case ZN_OPTION_FLAG:
        zn_text_add(text, *(const bool *)value != s->negates ? "true" : "false");
        break;
    case ZN_OPTION_STRING:
    case ZN_OPTION_OPTIONAL:
        if (*(const char *const *)value)
            zn_text_add_quoted(text, *(const char *const *)value);
        else
            zn_text_add(text, "true");
        break;
    case ZN_OPTION_LIST:
        add_list(text, value);
        break;
    case ZN_OPTION_SWITCH:
    case ZN_OPTION_INT:
    case ZN_OPTION_LEVEL:
    case ZN_OPTION_DOUBLE:
    case ZN_OPTION_SIZE:
    case ZN_OPTION_CHOICE:
    case ZN_OPTION_NUMERIC:
    case ZN_OPTION_OPTIONAL_INT:
        zn_setting_add_text(text, s, value);
        break;
    }
}

static void print_value(FILE *out, const struct zn_settings *settings, size_t i, const char *file)
{
    const char *const origins[] = {[ZN_ORIGIN_NONE] = "",
                                   [ZN_ORIGIN_DEFAULT] = "default",
                                   [ZN_ORIGIN_CHOSEN] = "follows from the others",
                                   [ZN_ORIGIN_FILE] = file,
                                   [ZN_ORIGIN_LINE] = "command line"};
    zn_origin origin = zn_settings_origin(settings, i);
    zn_text text;
    zn_text_init(&text);
    zn_text_add(&text, "%s%s: ", origin == ZN_ORIGIN_CHOSEN ? "# " : "", key_of(&zn_settings_table[i]));
    add_yaml(&text, &zn_settings_table[i], zn_settings_value(settings, i));
    fprintf(out, "%-*s  # %s\n", ORIGIN_COLUMN, text.data ? text.data : "", origins[origin]);
    zn_text_fini(&text);
}

static size_t row_of(const char *name)
{
    size_t i = 0;
    while (i < ZN_N_SETTINGS && strcmp(zn_settings_table[i].name, name) != 0)
        i++;
    return i;
}

zn_status zn_settings_print(FILE *out, const struct zn_settings *settings, const struct zn_command *command, const char *file)
{
    const struct zn_shown shown = zn_shown(file ? file : "file");
    const char *section = "";
    for (size_t k = 0; k < command->n_options; k++) {
        const struct zn_option *option = &command->options[k];
        size_t i = row_of(option->name);
        if (i == ZN_N_SETTINGS)
            continue;
        if (strcmp(section, option->section) != 0)
            fprintf(out, "%s# ---- %s\n", *section ? "\n" : "", option->section);
        section = option->section;
        if (zn_settings_origin(settings, i) == ZN_ORIGIN_NONE)
            fprintf(out, "# %s: %s\n", key_of(&zn_settings_table[i]), option->otherwise);
        else
            print_value(out, settings, i, shown.text);
    }
    return fflush(out) == 0 && !ferror(out) ? ZN_OK : zn_fail(ZN_ERR_IO, "standard output cannot be written");
}
