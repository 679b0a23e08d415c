/* The program: picks the subcommand. */
#include <stdio.h>
#include <string.h>

#include "zinc/status.h"

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        printf("zinc %s\n", zn_version());
        return 0;
    }
    fprintf(stderr, "zinc: usage: zinc --version\n");
    return 2;
}
