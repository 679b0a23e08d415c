/* What mpirun says while its job runs. */
#ifndef ZN_CLI_LAUNCH_RELAY_H
#define ZN_CLI_LAUNCH_RELAY_H

#include <sys/types.h>

/* Passes on, line by line, what comes from `fd`, the standard error of mpirun and of all ranks, to this process's; but for
 * mpirun's paragraphs on ranks that ended with a code: the rank that failed has told why, and is heard once. Where no
 * rank said a word they are all there is, and printed. Blocks until mpirun has ended; returns its exit code, 128 and more
 * for a signal. */
int zn_launch_relay(pid_t mpirun, int fd);

#endif
