/* How commands with settings begin, and their ranks. */
#include "cli/settings.h"

#include <stdlib.h>
#include <unistd.h>

#include "cli/launch.h"
#include "cli/signals.h"
#include "zinc/context.h"

int zn_cli_begin_settings(const struct zn_command *own, unsigned which, int argc, char **argv, void *flags,
                          struct settings_line *line)
{
    struct settings_flags *f = flags;
    line->command = *own;
    line->command.options = line->options;
    line->command.n_options =
        zn_settings_options(which, offsetof(struct settings_flags, settings), own->options, own->n_options, line->options);
    int code = zn_cli_begin(&line->command, argc, argv, flags, &line->given);
    if (code < 0)
        zn_settings_take(&f->settings, &line->given, which);
    return code;
}

zn_status zn_cli_start_ranks(const struct settings_flags *f, int argc, char **argv)
{
    if (f->n_ranks == 0)
        return ZN_OK;
    if (zn_context_is_launched())
        return zn_fail(ZN_ERR_USAGE, "-n: mpirun or srun has started this process already; leave it off");
    return zn_launch(f->n_ranks, f->mpirun, argc, argv);
}

bool zn_cli_has_terminal(int fd)
{
    return isatty(fd) && (!zn_context_is_launched() || getenv("ZINC_TERMINAL"));
}

void zn_cli_terminal(struct zn_terminal *terminal)
{
    const char *tty = getenv(ZN_CLI_LIVE);
    bool is_launched = zn_context_is_launched();
    zn_terminal_init(terminal, is_launched ? tty != NULL : isatty(STDOUT_FILENO) && isatty(STDERR_FILENO), is_launched ? tty : NULL);
}

/* mpirun passes standard error on in whole lines: a rank draws on standard output. */
void zn_cli_error_terminal(struct zn_terminal *terminal)
{
    zn_cli_terminal(terminal);
    if (zn_context_is_launched())
        return;
    zn_terminal_init(terminal, isatty(STDERR_FILENO), NULL);
    terminal->fd = terminal->size_fd = STDERR_FILENO;
}
