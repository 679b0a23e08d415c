/* `zinc help`: what commands do, as text, as manual pages, as tables for the manual, and as completion for shells. All of it is made
 * from the tables of options that read the command lines. */
#include "cli/help.h"

#include <stddef.h>
#include <string.h>

#include "cli/bench.h"
#include "cli/commands.h"
#include "zinc/status.h"

struct help_flags {
    const char *format;
};

static const struct zn_option flags[] = {
    {.name = "--format", .kind = ZN_OPTION_CHOICE, .offset = offsetof(struct help_flags, format), .value = "NAME", .initial = "text",
     .choices = "text man markdown bash zsh names",
     .help = "Of a command: text, its manual page, its tables of flags. Of all: completion for a shell; the names of manual pages."},
};

static const struct zn_command command = {
    .name = "zinc help",
    .summary = "what commands do, their manual pages, and completion for shells",
    .usage = "[COMMAND…] [--format NAME]",
    .example = "zinc help train",
    .options = flags,
    .n_options = sizeof flags / sizeof flags[0],
    .takes_words = true,
    .words = ZN_CLI_COMMAND_NAMES,
};

static const char *const benches[] = {
#define ENTRY(name, summary) #name,
    ZN_CLI_BENCHES(ENTRY)
#undef ENTRY
};

enum { N_BENCHES = sizeof benches / sizeof benches[0], MAX_WORDS = 4, FORMAT_TEXT = 32 };

/* Lets a command explain itself; it prints to standard output. */
static int explain(const char *const *words, size_t n_words, const char *format)
{
    char text[MAX_WORDS][64], option[FORMAT_TEXT];
    char *argv[MAX_WORDS + 2];
    for (size_t i = 0; i < n_words; i++) {
        snprintf(text[i], sizeof text[i], "%s", words[i]);
        argv[i] = text[i];
    }
    snprintf(option, sizeof option, "--help=%s", format);
    argv[n_words] = option;
    argv[n_words + 1] = NULL;
    return zn_cli_run((int)n_words + 1, argv);
}

/* Every command in turn, then the measurements; stops at the first that fails. */
static int explain_all(const char *format)
{
    int code = ZN_EXIT_DONE;
    for (const struct cli_entry *entry = zn_cli_table; entry->name && code == ZN_EXIT_DONE; entry++)
        code = explain(&entry->name, 1, format);
    for (int i = 0; i < N_BENCHES && code == ZN_EXIT_DONE; i++)
        code = explain((const char *const[]){"bench", benches[i]}, 2, format);
    return code;
}

static void print_names(void)
{
    for (const struct cli_entry *entry = zn_cli_table; entry->name; entry++)
        printf("%s\n", entry->name);
    for (int i = 0; i < N_BENCHES; i++)
        printf("bench %s\n", benches[i]);
}

static int describe_program(const char *format)
{
    int code = ZN_EXIT_DONE;
    if (strcmp(format, "names") == 0) {
        print_names();
    } else if (strcmp(format, "man") == 0) {
        help_man(stdout);
    } else if (strcmp(format, "bash") == 0) {
        help_bash_begin(stdout);
        code = explain_all(format);
        help_bash_end(stdout);
    } else if (strcmp(format, "zsh") == 0) {
        help_zsh_begin(stdout);
        code = explain_all(format);
        help_zsh_end(stdout);
    } else if (strcmp(format, "markdown") == 0) {
        printf("## Commands\n\n| command | does |\n|---|---|\n");
        for (const struct cli_entry *entry = zn_cli_table; entry->name; entry++)
            printf("| `zinc %s` | %s |\n", entry->name, entry->summary);
    } else {
        printf("zinc %s\n\nusage: zinc COMMAND [flags]\n\ncommands:\n", zn_version());
        zn_cli_print_commands(stdout);
    }
    return code;
}

static zn_status check(const struct zn_options *options, const struct help_flags *f)
{
    bool is_whole = strcmp(f->format, "bash") == 0 || strcmp(f->format, "zsh") == 0 || strcmp(f->format, "names") == 0;
    if (options->words.n >= MAX_WORDS)
        return zn_fail(ZN_ERR_USAGE, "no command has so many words");
    if (options->words.n > 0 && is_whole)
        return zn_fail(ZN_ERR_USAGE, "--format %s: is of all commands; give none", f->format);
    return ZN_OK;
}

int zn_cli_help(int argc, char **argv)
{
    struct help_flags f = {0};
    struct zn_options options;
    int code = zn_cli_begin(&command, argc, argv, &f, &options);
    if (code < 0) {
        zn_status status = check(&options, &f);
        if (status != ZN_OK)
            code = zn_cli_end(&command, status);
        else if (options.words.n > 0)
            code = explain(options.words.word, options.words.n, f.format);
        else
            code = describe_program(f.format);
    }
    zn_options_fini(&options, &f);
    return fflush(stdout) == 0 ? code : ZN_EXIT_FAILED;
}
