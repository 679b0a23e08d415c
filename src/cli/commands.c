/* How every subcommand begins and ends. */
#include "cli/commands.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cli/signals.h"
#include "zinc/model.h"

const struct cli_entry zn_cli_table[] = {
#define ENTRY(name, summary) {#name, summary, zn_cli_##name},
    ZN_CLI_COMMANDS(ENTRY)
#undef ENTRY
    {0},
};

static const char *command_name(const void *context, size_t i)
{
    (void)context;
    return zn_cli_table[i].name;
}

int zn_cli_run(int argc, char **argv)
{
    const char *word = argv[0];
    for (const struct cli_entry *entry = zn_cli_table; entry->name; entry++)
        if (strcmp(word, entry->name) == 0)
            return entry->run(argc, argv);
    const char *near = zn_nearest_name(word, command_name, NULL);
    fprintf(stderr, "zinc: unknown %s %s%s%s; `zinc --help` lists them\n", word[0] == '-' ? "flag" : "command", word,
            near ? ", did you mean " : "", near ? near : "");
    return ZN_EXIT_USAGE;
}

void zn_cli_print_commands(FILE *out)
{
    for (const struct cli_entry *entry = zn_cli_table; entry->name; entry++)
        fprintf(out, "  %-10s  %s\n", entry->name, entry->summary);
}

int zn_cli_begin(const struct zn_command *command, int argc, char **argv, void *target,
                 struct zn_options *options)
{
    zn_status status = zn_options_parse(command, argc, argv, target, options);
    if (status != ZN_OK)
        return zn_cli_end(command, status);
    if (!options->help)
        return -1;
    zn_options_help(command, options->help, stdout);
    return fflush(stdout) == 0 ? ZN_EXIT_DONE : ZN_EXIT_FAILED;
}

zn_status zn_cli_find_model(const struct zn_command *command, const char **model, char **kept)
{
    *kept = NULL;
    ZN_TRY(zn_model_find(*model, kept));
    if (!*kept)
        return ZN_OK;
    fprintf(stderr, "%s: %s is %s\n", command->name, *model, *kept);
    *model = *kept;
    return ZN_OK;
}

static bool needs_quotes(const char *word)
{
    for (const char *c = word; *c; c++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./,:@%^", *c))
            return true;
    return !word[0];
}

static void add_word(zn_text *line, const char *word)
{
    if (!needs_quotes(word)) {
        zn_text_add(line, " %s", word);
        return;
    }
    zn_text_add(line, " '");
    for (; *word; word++)
        zn_text_add_bytes(line, *word == '\'' ? "'\\''" : word, *word == '\'' ? 4 : 1);
    zn_text_add(line, "'");
}

zn_status zn_cli_command_line(int argc, char **argv, char **line)
{
    const char *given = getenv(ZN_CLI_LAUNCHED) ? getenv(ZN_CLI_COMMAND_LINE) : NULL;
    zn_text text;
    zn_text_init(&text);
    zn_text_add(&text, "%s", given ? given : "zinc");
    for (int i = 0; i < argc && !given; i++)
        add_word(&text, argv[i]);
    if (zn_text_status(&text) != ZN_OK) {
        zn_text_fini(&text);
        return zn_fail(ZN_ERR_MEMORY, "no memory for the command line");
    }
    *line = text.data;
    return ZN_OK;
}

int zn_cli_code(zn_status status)
{
    return status == ZN_OK ? ZN_EXIT_DONE : status == ZN_ERR_USAGE ? ZN_EXIT_USAGE : ZN_EXIT_FAILED;
}

int zn_cli_end(const struct zn_command *command, zn_status status)
{
    if (status != ZN_OK)
        fprintf(stderr, "%s: %s\n", command->name, zn_error_message());
    return zn_cli_code(status);
}
