/* Which elements of a range have been written: disjoint spans, sorted; writing in order keeps one. */
#ifndef ZN_FORMATS_SPANS_H
#define ZN_FORMATS_SPANS_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct span {
    int64_t from, to;
};

struct spans {
    struct span *list;
    size_t n, capacity;
};

void spans_fini(struct spans *spans);

/* Adds from … to, which may overlap what is there. Nothing changes on failure. */
zn_status spans_add(struct spans *spans, int64_t from, int64_t to);

/* The first part of 0 … n that is missing; from = to when none is. */
struct span spans_missing(const struct spans *spans, int64_t n);

#endif
