/* Signals that ask a run to save and leave: SIGTERM, SIGINT and SIGUSR1, as people, mpirun and Slurm send them. */
#ifndef ZN_CLI_SIGNALS_H
#define ZN_CLI_SIGNALS_H

/* For zn_train_options.stop. The first call begins to catch the signals: before there is something to save they end the
 * process as they always do. `self` is a bool that is false at first. Returns the signal that came, or 0. A second one
 * of the same kind ends the process. */
int zn_cli_stop(void *self);

#endif
