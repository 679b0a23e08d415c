/* Progress of commands without a panel. */
#include "cli/progress.h"

#include "cli/settings.h"

zn_status cli_progress_begin(struct cli_progress *p, const char *command)
{
    *p = (struct cli_progress){0};
    zn_cli_error_terminal(&p->terminal);
    ZN_TRY(zn_progress_create(&p->progress));
    return zn_live_create(&(struct zn_live_options){.command = command, .terminal = &p->terminal, .progress = p->progress},
                          &p->live);
}

void cli_progress_end(struct cli_progress *p)
{
    zn_live_destroy(p->live);
    zn_progress_destroy(p->progress);
    if (p->live)
        zn_terminal_fini(&p->terminal);
    p->live = NULL;
    p->progress = NULL;
}
