/* The drive below the current folder, measured as offload uses it. */
#ifndef ZN_PLAN_THIS_DRIVE_H
#define ZN_PLAN_THIS_DRIVE_H

#include <stddef.h>

#include "base/clock.h"
#include "base/status.h"

/* Memory for it, aligned to pages. */
#define DRIVE_MEMORY_BYTES ((size_t)16 << 20)

/* Bytes a second, reads and writes mixed, of several requests at once, and what is free. Both are 0 where there is no
 * drive that swap could be on: a file system in memory or without direct I/O, or too little room. Blocks for a
 * second or so. */
zn_status drive_measure(zn_clock *clock, unsigned char *memory, double *rate, size_t *free_bytes);

#endif
