/* Disjoint sorted spans. */
#include "formats/spans.h"

#include <stdlib.h>
#include <string.h>

void spans_fini(struct spans *spans)
{
    free(spans->list);
    *spans = (struct spans){0};
}

/* The first span that ends at or after `at`. */
static size_t find(const struct spans *spans, int64_t at)
{
    size_t low = 0, high = spans->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (spans->list[middle].to < at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

zn_status spans_add(struct spans *spans, int64_t from, int64_t to)
{
    if (from >= to)
        return ZN_OK;
    if (spans->n == spans->capacity) {
        size_t capacity = 2 * spans->capacity + 4;
        struct span *list = realloc(spans->list, capacity * sizeof *list);
        if (!list)
            return zn_fail(ZN_ERR_MEMORY, "out of memory for the record of what was written");
        spans->list = list;
        spans->capacity = capacity;
    }
    /* Spans i … j touch the new one and melt into it. */
    size_t i = find(spans, from), j = i;
    for (; j < spans->n && spans->list[j].from <= to; j++) {
        from = spans->list[j].from < from ? spans->list[j].from : from;
        to = spans->list[j].to > to ? spans->list[j].to : to;
    }
    memmove(&spans->list[i + 1], &spans->list[j], (spans->n - j) * sizeof *spans->list);
    spans->list[i] = (struct span){from, to};
    spans->n = spans->n - (j - i) + 1;
    return ZN_OK;
}

struct span spans_missing(const struct spans *spans, int64_t n)
{
    if (spans->n == 0)
        return (struct span){0, n};
    if (spans->list[0].from > 0)
        return (struct span){0, spans->list[0].from};
    if (spans->list[0].to < n)
        return (struct span){spans->list[0].to, spans->n > 1 ? spans->list[1].from : n};
    return (struct span){n, n};
}
