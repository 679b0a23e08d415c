/* The program: picks the subcommand. */
#include <stdio.h>
#include <string.h>

#include "base/options.h"
#include "cli/commands.h"
#include "zinc/status.h"

static const struct {
    const char *name;
    const char *summary;
    int (*run)(int argc, char **argv);
} commands[] = {
#define ENTRY(name, summary) {#name, summary, zn_cli_##name},
    ZN_CLI_COMMANDS(ENTRY)
#undef ENTRY
};

enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

static const char *command_name(const void *context, size_t i)
{
    (void)context;
    return i < N_COMMANDS ? commands[i].name : NULL;
}

static void print_help(FILE *out)
{
    fprintf(out, "zinc %s: train language models that are bigger than memory\n\n", zn_version());
    fprintf(out, "usage: zinc COMMAND [flags]; `zinc COMMAND --help` tells more\n\ncommands:\n");
    for (size_t i = 0; i < N_COMMANDS; i++)
        fprintf(out, "  %-10s  %s\n", commands[i].name, commands[i].summary);
}

static int refuse(const char *word)
{
    const char *near = zn_nearest_name(word, command_name, NULL);
    fprintf(stderr, "zinc: unknown %s %s%s%s; `zinc --help` lists them\n",
            word[0] == '-' ? "flag" : "command", word, near ? ", did you mean " : "",
            near ? near : "");
    return ZN_EXIT_USAGE;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return ZN_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--version") == 0 && argc == 2) {
        printf("zinc %s\n", zn_version());
        return fflush(stdout) == 0 ? ZN_EXIT_DONE : ZN_EXIT_FAILED;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_help(stdout);
        return fflush(stdout) == 0 ? ZN_EXIT_DONE : ZN_EXIT_FAILED;
    }
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    return refuse(argv[1]);
}
