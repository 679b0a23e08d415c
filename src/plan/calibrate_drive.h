/* Drives, measured with the storage that offload uses: that below the current folder beside computing, any by itself. */
#ifndef ZN_PLAN_THIS_DRIVE_H
#define ZN_PLAN_THIS_DRIVE_H

#include <stddef.h>

#include "base/clock.h"
#include "base/status.h"

/* Memory for it, aligned to pages. */
#define DRIVE_MEMORY_BYTES ((size_t)16 << 20)

/* Some milliseconds of computing on all cores; called by a thread of its own. */
struct drive_work {
    zn_status (*run)(const void *context);
    const void *context;
};

/* Bytes a second, reads and writes mixed, of several requests at once while the cores do that work, and what is free. Both
 * are 0 where there is no drive that swap could be on: a file system in memory or without direct I/O, or too little
 * room. Blocks for a second or so. */
zn_status drive_measure(zn_clock *clock, unsigned char *memory, const struct drive_work *work, double *rate,
                        size_t *free_bytes);

/* Bytes a second of several large requests at once on the drive below a folder. Fails where swap could not be there, with the cause.
 * Blocks for a second or so. */
zn_status drive_measure_alone(zn_clock *clock, const char *folder, double *read_rate, double *write_rate);

#endif
