/* The help of a subcommand, and the name that was probably meant. */
#include "base/options.h"

#include <string.h>

enum { HELP_COLUMNS = 100, MAX_LEFT = 30, NAME_LENGTH = 40 };

/* Columns of UTF-8 text: bytes that do not continue a character. */
static int columns(const char *text)
{
    int n = 0;
    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

void zn_option_usage(const struct zn_option *option, char *text, size_t size)
{
    const char *value = option->value ? option->value : "";
    switch (option->kind) {
    case ZN_OPTION_FLAG:
        snprintf(text, size, "%s", option->name);
        break;
    case ZN_OPTION_OPTIONAL:
    case ZN_OPTION_OPTIONAL_INT:
        snprintf(text, size, "%s[=%s]", option->name, value);
        break;
    case ZN_OPTION_LIST:
        snprintf(text, size, "%s %s…", option->name, value);
        break;
    case ZN_OPTION_SWITCH:
    case ZN_OPTION_INT:
    case ZN_OPTION_LEVEL:
    case ZN_OPTION_DOUBLE:
    case ZN_OPTION_SIZE:
    case ZN_OPTION_STRING:
    case ZN_OPTION_CHOICE:
    case ZN_OPTION_NUMERIC:
        snprintf(text, size, "%s %s", option->name, value);
        break;
    }
}

const char *zn_option_default(const struct zn_option *option)
{
    if (option->required)
        return NULL;
    return option->initial ? option->initial : option->otherwise;
}

zn_help zn_help_parse(const char *name)
{
    static const char *const names[] = {[ZN_HELP_TEXT] = "text",
                                        [ZN_HELP_MAN] = "man",
                                        [ZN_HELP_MARKDOWN] = "markdown",
                                        [ZN_HELP_BASH] = "bash",
                                        [ZN_HELP_ZSH] = "zsh"};
    for (int i = ZN_HELP_TEXT; i <= ZN_HELP_ZSH; i++)
        if (strcmp(name, names[i]) == 0)
            return (zn_help)i;
    return ZN_HELP_NONE;
}

void zn_options_help(const struct zn_command *command, zn_help help, FILE *out)
{
    switch (help) {
    case ZN_HELP_MAN:
        zn_options_man(command, out);
        break;
    case ZN_HELP_MARKDOWN:
        zn_options_markdown(command, out);
        break;
    case ZN_HELP_BASH:
        zn_options_bash(command, out);
        break;
    case ZN_HELP_ZSH:
        zn_options_zsh(command, out);
        break;
    case ZN_HELP_TEXT:
    case ZN_HELP_NONE:
        zn_options_help_text(command, out);
        break;
    }
}

/* Adds a word, on a new line when this one is full. */
static void put_word(FILE *out, const char *word, size_t length, int left, int *column)
{
    char text[256];
    snprintf(text, sizeof text, "%.*s", (int)length, word);
    int n = columns(text);
    if (*column > left && *column + 1 + n > HELP_COLUMNS) {
        fprintf(out, "\n%*s", left, "");
        *column = left;
    }
    if (*column > left) {
        fputc(' ', out);
        ++*column;
    }
    fputs(text, out);
    *column += n;
}

static void put_text(FILE *out, const char *text, int left, int *column)
{
    while (*text) {
        size_t n = strcspn(text, " ");
        if (n)
            put_word(out, text, n, left, column);
        text += n + (text[n] == ' ');
    }
}

static void put_option(FILE *out, const struct zn_option *option, int left)
{
    char text[128];
    zn_option_usage(option, text, sizeof text);
    int column = columns(text) + 2;
    fprintf(out, "  %s", text);
    if (column + 2 > left) {
        fputc('\n', out);
        column = 0;
    }
    fprintf(out, "%*s", left - column, "");
    column = left;
    put_text(out, option->help, left, &column);
    if (option->kind == ZN_OPTION_CHOICE || option->kind == ZN_OPTION_LEVEL || option->kind == ZN_OPTION_SWITCH) {
        put_text(out, "— one of:", left, &column);
        put_text(out, option->choices, left, &column);
    }
    const char *otherwise = zn_option_default(option);
    char note[256] = "";
    if (option->required)
        snprintf(note, sizeof note, "(required)");
    else if (otherwise)
        snprintf(note, sizeof note, "(default: %s)", otherwise);
    put_text(out, note, left, &column);
    fputc('\n', out);
}

/* What is refused by name, in one paragraph. */
static void put_missing(FILE *out, const struct zn_command *command)
{
    int column = 2;
    bool any = false;
    for (size_t i = 0; i < command->n_options; i++) {
        const struct zn_option *option = &command->options[i];
        char text[256];
        if (option->not_built)
            snprintf(text, sizeof text, "%s", option->name);
        else if (option->not_yet)
            snprintf(text, sizeof text, "%s (%s)", option->name, option->not_yet);
        else
            continue;
        if (!any)
            fputs("\nnot in this build, refused by name:\n  ", out);
        any = true;
        put_text(out, text, 2, &column);
    }
    if (any)
        fputc('\n', out);
}

void zn_options_help_text(const struct zn_command *command, FILE *out)
{
    fprintf(out, "%s: %s\n\nusage: %s %s\nexample: %s\n", command->name, command->summary, command->name, command->usage,
            command->example);
    int left = 0;
    for (size_t i = 0; i < command->n_options; i++) {
        char text[128];
        zn_option_usage(&command->options[i], text, sizeof text);
        int n = columns(text) + 4;
        if (!command->options[i].not_built && n > left && n <= MAX_LEFT)
            left = n;
    }
    static const struct zn_option help = {
        .name = "--help", .kind = ZN_OPTION_FLAG, .help = "Print this text."};
    if (left < 12)
        left = 12;
    const char *section = NULL;
    for (size_t i = 0; i < command->n_options; i++) {
        const struct zn_option *option = &command->options[i];
        if (option->not_built)
            continue;
        const char *heading = option->section ? option->section : "flags";
        if (!section || strcmp(section, heading) != 0)
            fprintf(out, "\n%s:\n", heading);
        section = heading;
        put_option(out, option, left);
    }
    if (!section)
        fputs("\nflags:\n", out);
    put_option(out, &help, left);
    put_missing(out, command);
}

static int smallest(int a, int b, int c)
{
    int low = a < b ? a : b;
    return low < c ? low : c;
}

/* Insertions, deletions, replacements and swaps of neighbours that turn a into b. */
static int distance(const char *a, const char *b)
{
    int rows[3][NAME_LENGTH + 1];
    int *before = rows[0], *last = rows[1], *now = rows[2];
    int n_a = (int)strlen(a), n_b = (int)strlen(b);
    if (n_a > NAME_LENGTH || n_b > NAME_LENGTH)
        return NAME_LENGTH;
    for (int j = 0; j <= n_b; j++)
        before[j] = last[j] = j;
    for (int i = 1; i <= n_a; i++) {
        now[0] = i;
        for (int j = 1; j <= n_b; j++) {
            now[j] = smallest(last[j] + 1, now[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = smallest(now[j], before[j - 2] + 1, now[j]);
        }
        int *free_row = before;
        before = last;
        last = now;
        now = free_row;
    }
    return last[n_b];
}

const char *zn_nearest_name(const char *word, const char *(*next)(const void *context, size_t i),
                            const void *context)
{
    const char *best = NULL, *name;
    int limit = (int)strlen(word) / 3 + 1, least = limit + 1;
    for (size_t i = 0; (name = next(context, i)) != NULL; i++) {
        int d = distance(word, name);
        if (d < least) {
            least = d;
            best = name;
        }
    }
    return best;
}
