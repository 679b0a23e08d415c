/* Signals that ask a run to save and leave: SIGTERM, SIGINT, SIGUSR1 and SIGHUP, as people, mpirun, Slurm and a terminal that
 * is closed send them. Output that nobody reads any more (SIGPIPE) counts as one. */
#ifndef ZN_CLI_SIGNALS_H
#define ZN_CLI_SIGNALS_H

#include <stdbool.h>
#include <stdio.h>

/* In the environment of ranks that -n has started: they are told to stop with SIGUSR1, whatever the signal was. */
#define ZN_CLI_LAUNCHED "ZINC_LAUNCHED"

/* … and the terminal on which rank 0 may draw. */
#define ZN_CLI_LIVE "ZINC_LIVE"

/* For zn_train_options.stop. The first call begins to catch the signals: before there is something to save they end the
 * process as they always do. `self` is NULL. Returns the signal that came, or 0. A second one
 * of the same kind ends the process. SIGHUP that is ignored, as nohup does, stays ignored. */
int zn_cli_stop(void *self);

/* Whether somebody has asked this process to stop; any thread may call it. */
bool zn_cli_is_asked(void);

/* Writes out what was printed; where nobody reads it any more, zn_cli_stop returns SIGPIPE from now on. */
void zn_cli_flush(FILE *out);

/* Whether whoever started this process wants the signal ignored. */
bool zn_cli_is_ignored(int signal);

#endif
