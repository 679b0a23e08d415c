/* `-n N`: starting the job's ranks with mpirun. */
#ifndef ZN_CLI_LAUNCH_H
#define ZN_CLI_LAUNCH_H

#include <stdint.h>

#include <stdbool.h>

#include "base/status.h"

/* Runs mpirun with the same command line, whose first word is the subcommand, less `-n` and `--mpirun`, passes signals on so that the ranks can save, and
 * ends the process with its code. mpirun NULL: the one on PATH. Returns only when it cannot be started. */
zn_status zn_launch(int64_t n_ranks, const char *mpirun, int argc, char **argv);

#endif
