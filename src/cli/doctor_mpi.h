/* Whether `-n` works: two ranks are started by mpirun and exchange a number. */
#ifndef ZN_CLI_DOCTOR_MPI_H
#define ZN_CLI_DOCTOR_MPI_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

/* Whether this process is one of the two, and then what it does. Collective; blocks. */
bool doctor_is_rank(void);
zn_status doctor_run_as_rank(void);

/* Starts the two and waits for them. The text is "works", or why it does not and what would help. Blocks. */
bool doctor_try_ranks(char *text, size_t size);

#endif
