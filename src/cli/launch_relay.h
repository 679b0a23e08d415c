/* What mpirun says while its job runs. */
#ifndef ZN_CLI_LAUNCH_RELAY_H
#define ZN_CLI_LAUNCH_RELAY_H

#include <stdbool.h>
#include <sys/types.h>

/* Passes on what comes from the two descriptors, standard output and standard error of mpirun and of all ranks, to those of
 * this process. Errors go line by line, but for mpirun's paragraphs on ranks that ended with a code: the rank that failed
 * has told why, and is heard once. Where no rank said a word they are all there is, and printed. Where nobody reads this
 * process's output any more, `unread` is called once, and the rest is dropped. `is_live`: rank 0 draws a live part on standard
 * output; errors go above it. Blocks until mpirun has ended; returns its
 * exit code, 128 and more for a signal. SIGPIPE is ignored by the caller. */
int zn_launch_relay(pid_t mpirun, int output, int errors, bool is_live, void (*unread)(void));

#endif
