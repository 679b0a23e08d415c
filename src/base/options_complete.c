/* What shells need to know of a command to complete its flags and their values. */
#include <string.h>

#include "base/options.h"

typedef enum value_kind { NO_VALUE, ONE_OF, A_FILE, A_FOLDER, ANY_VALUE } value_kind;

static value_kind kind_of(const struct zn_option *option)
{
    if (option->kind == ZN_OPTION_FLAG)
        return NO_VALUE;
    if (option->choices)
        return ONE_OF;
    if (!option->value)
        return ANY_VALUE;
    if (strcmp(option->value, "DIR") == 0)
        return A_FOLDER;
    if (strncmp(option->value, "FILE", 4) == 0 || strcmp(option->value, "PATH") == 0 || strcmp(option->value, "NAME|FILE.json") == 0)
        return A_FILE;
    return ANY_VALUE;
}

/* Its value comes behind `=` or not at all. */
static bool is_optional(const struct zn_option *option)
{
    return option->kind == ZN_OPTION_OPTIONAL || option->kind == ZN_OPTION_OPTIONAL_INT;
}

static bool list_has(const char *list, const char *word, size_t length)
{
    for (const char *p = list; p && *p;) {
        size_t n = strcspn(p, " ");
        if (n == length && memcmp(p, word, n) == 0)
            return true;
        p += n + (p[n] == ' ');
    }
    return false;
}

/* The choices that are built, with single spaces between them. */
static void put_choices(FILE *out, const struct zn_option *option)
{
    const char *space = "";
    for (const char *p = option->choices; *p;) {
        size_t n = strcspn(p, " ");
        if (!list_has(option->not_yet, p, n)) {
            fprintf(out, "%s%.*s", space, (int)n, p);
            space = " ";
        }
        p += n + (p[n] == ' ');
    }
}

/* "zinc bench io" without the program. */
static const char *short_name(const struct zn_command *command)
{
    const char *space = strchr(command->name, ' ');
    return space ? space + 1 : command->name;
}

/* ---- bash: a branch that sets flags, words, and the kind of what follows $flag, which only lists have several of ---- */

static void put_bash_kinds(FILE *out, const struct zn_command *command, value_kind kind, const char *action)
{
    const char *bar = "        ";
    for (size_t i = 0; i < command->n_options; i++) {
        const struct zn_option *option = &command->options[i];
        if (option->not_built || is_optional(option) || kind_of(option) != kind)
            continue;
        fprintf(out, "%s%s", bar, option->name);
        bar = " | ";
    }
    if (strcmp(bar, " | ") == 0)
        fprintf(out, ") %s ;;\n", action);
}

void zn_options_bash(const struct zn_command *command, FILE *out)
{
    fprintf(out, "    '%s')\n        flags='", short_name(command));
    for (size_t i = 0; i < command->n_options; i++)
        if (!command->options[i].not_built)
            fprintf(out, "%s ", command->options[i].name);
    fputs("--help'\n        lists=' ", out);
    for (size_t i = 0; i < command->n_options; i++)
        if (!command->options[i].not_built && command->options[i].kind == ZN_OPTION_LIST)
            fprintf(out, "%s ", command->options[i].name);
    fprintf(out, "'\n        words='%s'\n", command->words ? command->words : "");
    if (command->takes_words && !command->words)
        fputs("        kind=files\n", out);
    fputs("        [[ $is_near || $lists == *\" $flag \"* ]] || flag=\n        case $flag in\n", out);
    for (size_t i = 0; i < command->n_options; i++) {
        const struct zn_option *option = &command->options[i];
        if (option->not_built || kind_of(option) != ONE_OF)
            continue;
        fprintf(out, "        %s) kind=words words='", option->name);
        put_choices(out, option);
        fputs("' ;;\n", out);
    }
    for (size_t i = 0; i < command->n_options; i++) {
        const struct zn_option *option = &command->options[i];
        if (!option->not_built && is_optional(option))
            fprintf(out, "        %s) [[ $is_equal ]] && kind=%s ;;\n", option->name,
                    kind_of(option) == A_FOLDER ? "folders" : kind_of(option) == A_FILE ? "files" : "value");
    }
    put_bash_kinds(out, command, A_FOLDER, "kind=folders");
    put_bash_kinds(out, command, A_FILE, "kind=files");
    put_bash_kinds(out, command, ANY_VALUE, "kind=value");
    fputs("        esac\n        ;;\n", out);
}

/* ---- zsh: a branch of _arguments ---- */

/* Inside of single quotes and brackets. */
static void put_zsh_text(FILE *out, const char *text)
{
    for (const char *p = text; *p; p++) {
        if (*p == '\'')
            fputs("'\\''", out);
        else if (strchr("[]:\\", *p))
            fprintf(out, "\\%c", *p);
        else
            fputc(*p, out);
    }
}

static void put_zsh_option(FILE *out, const struct zn_option *option)
{
    bool is_short = strncmp(option->name, "--", 2) != 0;
    value_kind kind = kind_of(option);
    fprintf(out, " \\\n            '%s%s%s[", option->kind == ZN_OPTION_LIST ? "*" : "", option->name,
            kind == NO_VALUE || is_short ? "" : is_optional(option) ? "=-" : "=");
    put_zsh_text(out, option->help);
    fputc(']', out);
    if (kind != NO_VALUE) {
        fputs(is_optional(option) ? "::" : ":", out);
        put_zsh_text(out, option->value ? option->value : "value");
        fputc(':', out);
    }
    if (kind == ONE_OF) {
        fputc('(', out);
        put_choices(out, option);
        fputc(')', out);
    }
    fputs(kind == A_FILE ? "_files'" : kind == A_FOLDER ? "_files -/'" : "'", out);
}

void zn_options_zsh(const struct zn_command *command, FILE *out)
{
    fprintf(out, "    '%s')\n        _arguments", short_name(command));
    for (size_t i = 0; i < command->n_options; i++)
        if (!command->options[i].not_built)
            put_zsh_option(out, &command->options[i]);
    fputs(" \\\n            '--help[Print the usage and all flags.]'", out);
    if (command->words)
        fprintf(out, " \\\n            '1:which:(%s)'", command->words);
    if (command->takes_words)
        fputs(" \\\n            '*:file:_files'", out);
    fputs("\n        ;;\n", out);
}
