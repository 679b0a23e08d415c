/* Buckets: what a segment writes into one unit. The trace counts the gradients of each, so a reduction starts with the last of
 * them while backward goes on. */
#ifndef ZN_SCHEDULE_BUCKETS_H
#define ZN_SCHEDULE_BUCKETS_H

#include "schedule/trace.h"
#include "schedule/unit.h"

struct bucket {
    int unit, n_closes;
    bool is_first, is_last; /* of the unit, in the pass */
};

struct buckets {
    struct bucket *buckets;
    int n, capacity;
    int *n_of_unit;
};

/* Those of a training pass. The caller ends them, also after a failure. */
zn_status buckets_of_trace(const zn_units *units, const struct zn_pass_trace *pass, struct buckets *buckets);
void buckets_fini(struct buckets *buckets);

#endif
