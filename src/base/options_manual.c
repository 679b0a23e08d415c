/* A command's page for man(1), and its tables of flags for the manual in Markdown. */
#include <ctype.h>
#include <string.h>

#include "base/options.h"

static const char *section_of(const struct zn_option *option)
{
    return option->section ? option->section : "Flags";
}

static bool has_choices(const struct zn_option *option)
{
    return option->kind == ZN_OPTION_CHOICE || option->kind == ZN_OPTION_LEVEL || option->kind == ZN_OPTION_SWITCH;
}

/* ---- man ---- */

/* Text in which nothing is a request or an escape. Hyphens of flags are those that can be searched for. */
static void put_man(FILE *out, const char *text)
{
    bool in_flag = false;
    for (const char *p = text; *p; p++) {
        if (p == text ? *p == '-' : p[-1] == ' ' && *p == '-')
            in_flag = true;
        if (*p == ' ')
            in_flag = false;
        if (p == text && (*p == '.' || *p == '\''))
            fputs("\\&", out);
        if (*p == '\\')
            fputs("\\e", out);
        else if (*p == '-' && in_flag)
            fputs("\\-", out);
        else
            fputc(*p, out);
    }
}

/* "zinc train" as the name of a page: zinc-train. */
static void put_page(FILE *out, const char *name, int (*change)(int))
{
    for (const char *p = name; *p; p++)
        fputc(*p == ' ' ? '-' : change ? change((unsigned char)*p) : *p, out);
}

static void put_man_option(FILE *out, const struct zn_option *option)
{
    char usage[128];
    zn_option_usage(option, usage, sizeof usage);
    size_t n = strcspn(usage, " [");
    fputs(".TP\n\\fB", out);
    for (size_t i = 0; i < n; i++)
        fprintf(out, "%s%c", usage[i] == '-' ? "\\" : "", usage[i]);
    fprintf(out, "\\fR%s%s%s\n", usage[n] ? "\\fI" : "", usage + n, usage[n] ? "\\fR" : "");
    put_man(out, option->help);
    fputc('\n', out);
    if (option->more) {
        put_man(out, option->more);
        fputc('\n', out);
    }
    if (has_choices(option)) {
        fputs("One of: ", out);
        put_man(out, option->choices);
        fputs(".\n", out);
    }
    if (option->required)
        fputs("Required.\n", out);
    if (zn_option_default(option)) {
        fputs("Default: ", out);
        put_man(out, zn_option_default(option));
        fputs(".\n", out);
    }
    if (option->not_yet) {
        fputs("Not in this build: ", out);
        put_man(out, option->not_yet);
        fputs(".\n", out);
    }
}

void zn_options_man(const struct zn_command *command, FILE *out)
{
    static const struct zn_option help = {.name = "--help", .kind = ZN_OPTION_FLAG, .help = "Print the usage and all flags."};
    const char *section = NULL;
    fputs(".TH ", out);
    put_page(out, command->name, toupper);
    fprintf(out, " 1 \"\" \"zinc " ZN_VERSION "\" \"Zinc manual\"\n.SH NAME\n");
    put_page(out, command->name, NULL);
    fputs(" \\- ", out);
    put_man(out, command->summary);
    fprintf(out, "\n.SH SYNOPSIS\n.B %s\n", command->name);
    put_man(out, command->usage);
    fputs("\n.SH OPTIONS\n", out);
    for (size_t i = 0; i < command->n_options; i++) {
        const struct zn_option *option = &command->options[i];
        if (option->not_built)
            continue;
        if (option->section && (!section || strcmp(section, option->section) != 0))
            fprintf(out, ".SS %s\n", option->section);
        section = option->section;
        put_man_option(out, option);
    }
    if (section)
        fputs(".SS Help\n", out);
    put_man_option(out, &help);
    fputs(".SH EXAMPLE\n.nf\n", out);
    put_man(out, command->example);
    fputs("\n.fi\n.SH EXIT STATUS\n0 done, 1 failed, 2 wrong usage.\n.SH SEE ALSO\n.BR zinc (1)\n", out);
}

/* ---- Markdown ---- */

/* A cell of a table: bars are escaped, flags are code. */
static void put_cell(FILE *out, const char *text)
{
    bool in_code = false, in_quotes = false;
    for (const char *p = text; *p; p++) {
        bool begins = p == text || p[-1] == ' ' || p[-1] == '(';
        if (*p == '`')
            in_quotes = !in_quotes;
        if (begins && !in_quotes && p[0] == '-' && (p[1] == '-' || isalpha((unsigned char)p[1]))) {
            fputc('`', out);
            in_code = true;
        }
        bool ends = strchr(" ,;:)", *p) || (*p == '.' && (p[1] == ' ' || p[1] == '\0'));
        if (in_code && ends) {
            fputc('`', out);
            in_code = false;
        }
        if (*p == '|')
            fputc('\\', out);
        fputc(*p, out);
    }
    if (in_code)
        fputc('`', out);
}

static void put_row(FILE *out, const struct zn_option *option)
{
    char usage[128];
    zn_option_usage(option, usage, sizeof usage);
    fputs("| `", out);
    for (const char *p = usage; *p; p++)
        fprintf(out, "%s%c", *p == '|' ? "\\" : "", *p);
    fputs("` | ", out);
    if (option->required)
        fputs("required", out);
    else
        put_cell(out, zn_option_default(option) ? zn_option_default(option) : option->kind == ZN_OPTION_FLAG ? "off" : "none");
    fputs(" | ", out);
    put_cell(out, option->help);
    if (option->more) {
        fputc(' ', out);
        put_cell(out, option->more);
    }
    for (const char *p = has_choices(option) ? option->choices : ""; *p;) {
        size_t n = strcspn(p, " ");
        fprintf(out, "%s `%.*s`", p == option->choices ? " One of" : ",", (int)n, p);
        p += n + (p[n] == ' ');
    }
    if (has_choices(option) && option->not_yet) {
        fputs("; not in this build: ", out);
        put_cell(out, option->not_yet);
    }
    fputs(has_choices(option) ? ". |\n" : " |\n", out);
}

void zn_options_markdown(const struct zn_command *command, FILE *out)
{
    const char *section = NULL;
    for (size_t i = 0; i < command->n_options; i++) {
        const struct zn_option *option = &command->options[i];
        if (option->not_built)
            continue;
        if (!section || strcmp(section, section_of(option)) != 0)
            fprintf(out, "%s## %s\n\n| flag | default | meaning |\n|---|---|---|\n", section ? "\n" : "", section_of(option));
        section = section_of(option);
        put_row(out, option);
    }
}
