/* The progress of a command that prints its result at the end: a row on standard error where that is a terminal, else a line
 * every half minute. */
#ifndef ZN_CLI_PROGRESS_H
#define ZN_CLI_PROGRESS_H

#include "show/live.h"

struct cli_progress {
    struct zn_terminal terminal;
    zn_progress *progress;
    zn_live *live;
};

/* `command` as in "zinc eval". The caller calls end, also after a failure, and before it prints a result. */
zn_status cli_progress_begin(struct cli_progress *progress, const char *command);
void cli_progress_end(struct cli_progress *progress); /* twice is legal */

#endif
