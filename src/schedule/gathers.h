/* The coordinator of stage 3: which unit is gathered when, and where.
 *
 * The dry run records the order in which operators use units (the trace). From it and a byte
 * budget alone the plan says, for each gather, at which use it is issued, which uses it serves and
 * after which it is released, and packs the buffers of all of them into one region. So the order
 * of collectives and the peak of gathered bytes are known before the run and are the same on
 * every rank, whatever the timing (ZeRO-Infinity's prefetcher, driven by the trace). */
#ifndef ZN_SCHEDULE_GATHERS_H
#define ZN_SCHEDULE_GATHERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memory/lifetimes.h"

struct zn_gather_plan {
    int unit;                /* the first of those that are joined */
    unsigned char members;   /* which of them its uses need: bit 0 the first, bit 1 the next, … */
    int first_use, last_use; /* positions in the trace */
    int issue;               /* position at which it is submitted, ≤ first_use */
    size_t offset;           /* of its buffer in the region */
    int fetch;               /* position at which the own partition is read from NVMe, ≤ issue */
    size_t fetch_offset;     /* of its buffer in the region of fetched partitions */
};

/* The trace of one pass (training, evaluation), and its plan. */
typedef struct zn_gathers {
    int *units; /* in order of use; the same unit never twice in a row */
    unsigned char *members; /* by position: which of the joined units are used */
    int n_uses, capacity;
    struct zn_gather_plan *gathers; /* in order of first use */
    int n_gathers;
    int *gather_of; /* by position */
    size_t region_bytes, fetch_bytes;
    size_t largest_bytes; /* of one gather */
} zn_gathers;

void zn_gathers_init(zn_gathers *trace);
void zn_gathers_fini(zn_gathers *trace);

/* Recording: a use of the unit, or of one that is joined with it (member 1, 2), merged with the one before when it is the same.
 * `turn` starts a new use all the same: the end of forward. */
zn_status zn_gathers_use(zn_gathers *trace, int unit, int member, bool turn);

struct zn_gathers_options {
    size_t prefetch_bytes; /* gathers may run ahead of their use by this much */
    size_t reuse_bytes;    /* a unit stays when at most this much is used before it is again */
    int fetch_ranks; /* partitions of this many ranks are on NVMe and read ahead of the gathers; 0: none */
};

/* Makes the plan. n_bytes is by unit, the gathered size; 0 for units that are always there. */
zn_status zn_gathers_plan(zn_gathers *trace, const size_t *n_bytes,
                        const struct zn_gathers_options *options);

#endif
