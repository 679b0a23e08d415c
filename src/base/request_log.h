/* The requests of one rank to its communicator and its storage, a line each in the order of their submission. For tests: two
 * programs whose requests are the same move the same bytes in the same order.
 *
 * A line begins with the thread that submits: 0 is the one that made the log, others count from 1 in the order of their first
 * requests. Lines of one thread have a fixed order; how those of two threads interleave depends on time. */
#ifndef ZN_BASE_REQUEST_LOG_H
#define ZN_BASE_REQUEST_LOG_H

#include "base/status.h"

typedef struct zn_request_log zn_request_log;

/* Makes the file PREFIX.RANK where the environment has ZINC_REQUEST_LOG=PREFIX; else *log is NULL. */
zn_status zn_request_log_create(int rank, zn_request_log **log);

/* Writes one line before it returns. From any thread. A NULL log takes nothing. */
zn_status zn_request_log_add(zn_request_log *log, const char *format, ...) ZN_PRINTF(2, 3);

void zn_request_log_destroy(zn_request_log *log); /* NULL is legal */

#endif
