/* A time line from inside, for timeline.c and timeline_write.c. */
#ifndef ZN_BASE_TIMELINE_PRIVATE_H
#define ZN_BASE_TIMELINE_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#include "base/timeline.h"

struct span {
    const char *label;
    double begin, end;
    uint64_t n_bytes;
    int unit;
    zn_track track;
};

struct busy {
    double begin, end;
};

struct zn_timeline {
    _Atomic bool is_on;
    bool keeps_spans;
    pthread_mutex_t lock; /* guards all below */
    struct {
        struct busy *times; /* apart from each other, in order */
        size_t n, capacity;
    } track[ZN_N_TRACKS];
    struct span *spans; /* in the order they were noted */
    size_t n_spans, spans_capacity;
    bool lacks_memory; /* something is missing */
};

#endif
