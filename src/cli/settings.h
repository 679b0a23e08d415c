/* Commands whose flags are settings, and the ranks that they start. */
#ifndef ZN_CLI_SETTINGS_H
#define ZN_CLI_SETTINGS_H

#include "cli/commands.h"
#include "settings/settings.h"
#include "show/terminal.h"

/* The flags of such a command begin with these; its own follow. */
struct settings_flags {
    struct zn_settings settings;
    int64_t n_ranks;
    const char *mpirun;
};

/* Rows for the command's own options. */
#define RANK_FLAGS                                                                                                            \
    {.name = "-n", .kind = ZN_OPTION_INT, .offset = offsetof(struct settings_flags, n_ranks), .value = "RANKS",               \
     .range = "[1, 1048576]", .section = ZN_SECTION_MACHINE, .not_in_file = true, .otherwise = "one process",                 \
     .help = "Start mpirun with this many ranks."},                                                                           \
    {.name = "--mpirun", .kind = ZN_OPTION_STRING, .offset = offsetof(struct settings_flags, mpirun), .value = "PATH",        \
     .section = ZN_SECTION_MACHINE, .not_in_file = true, .otherwise = "the one on PATH", .help = "The mpirun that -n starts."}

/* A command line as it was read. */
struct settings_line {
    struct zn_command command; /* with the options of the settings */
    struct zn_option options[ZN_MAX_OPTIONS];
    struct zn_options given;
};

/* As zn_cli_begin, of a command with the settings of `which` (ZN_FOR_…) beside its own options; `flags` is zeroed and begins
 * with a struct settings_flags. The caller calls zn_options_fini(&line->given, flags) in every case. */
int zn_cli_begin_settings(const struct zn_command *own, unsigned which, int argc, char **argv, void *flags,
                          struct settings_line *line);

/* Starts mpirun where -n asks for it, and then does not return but on a failure. */
zn_status zn_cli_start_ranks(const struct settings_flags *flags, int argc, char **argv);

/* Whether a live part can be drawn: standard output and standard error are the terminal that a person sees. */
void zn_cli_terminal(struct zn_terminal *terminal);

/* The same of a command that draws on standard error alone. */
void zn_cli_error_terminal(struct zn_terminal *terminal);

/* Whether this process writes to a terminal that a person sees: mpirun gives its ranks one of their own. */
bool zn_cli_has_terminal(int fd);

#endif
