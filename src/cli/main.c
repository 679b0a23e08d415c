/* The program: picks the subcommand. */
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "zinc/status.h"

static void print_help(FILE *out)
{
    fprintf(out, "zinc %s: train language models that are bigger than memory\n\n", zn_version());
    fprintf(out, "usage: zinc COMMAND [flags]; `zinc help COMMAND` tells more\n\ncommands:\n");
    zn_cli_print_commands(out);
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
    return zn_cli_run(argc - 1, argv + 1);
}
