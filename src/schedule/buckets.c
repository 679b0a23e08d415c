/* Buckets of a trace. */
#include "schedule/buckets.h"

#include <stdlib.h>

static zn_status add_bucket(struct buckets *b, int unit)
{
    if (b->n == b->capacity) {
        int capacity = b->capacity ? 2 * b->capacity : 64;
        struct bucket *grown = realloc(b->buckets, (size_t)capacity * sizeof *grown);
        if (!grown)
            return zn_fail(ZN_ERR_MEMORY, "no memory for the plan of gradients");
        b->buckets = grown;
        b->capacity = capacity;
    }
    b->buckets[b->n++] = (struct bucket){.unit = unit, .is_first = b->n_of_unit[unit]++ == 0};
    return ZN_OK;
}

/* `last`: by unit, its open or last bucket. A bucket ends with its segment. */
static zn_status find_buckets(const zn_units *units, const struct zn_pass_trace *pass, struct buckets *b, int *last, bool *is_open)
{
    int first_open = 0;
    for (int i = 0; i < pass->n_points; i++) {
        const struct zn_point *point = &pass->points[i];
        if (point->kind == ZN_POINT_BACKWARD_END) {
            for (; first_open < b->n; first_open++)
                is_open[b->buckets[first_open].unit] = false;
        }
        if (point->kind != ZN_POINT_OPEN && point->kind != ZN_POINT_CLOSE)
            continue;
        int unit = units->parts[point->index].unit;
        if (point->kind == ZN_POINT_OPEN && !is_open[unit]) {
            last[unit] = b->n;
            is_open[unit] = true;
            ZN_TRY(add_bucket(b, unit));
        }
        if (point->kind == ZN_POINT_CLOSE)
            b->buckets[last[unit]].n_closes++;
    }
    for (int u = 0; u < units->n_units; u++)
        if (b->n_of_unit[u] > 0)
            b->buckets[last[u]].is_last = true;
    return ZN_OK;
}

zn_status buckets_of_trace(const zn_units *units, const struct zn_pass_trace *pass, struct buckets *b)
{
    size_t n = (size_t)units->n_units + 1;
    int *last = calloc(n, sizeof *last);
    bool *is_open = calloc(n, sizeof *is_open);
    *b = (struct buckets){.n_of_unit = calloc(n, sizeof *b->n_of_unit)};
    zn_status status = last && is_open && b->n_of_unit ? find_buckets(units, pass, b, last, is_open)
                                                       : zn_fail(ZN_ERR_MEMORY, "no memory for the plan of gradients");
    free(last);
    free(is_open);
    return status;
}

void buckets_fini(struct buckets *b)
{
    free(b->buckets);
    free(b->n_of_unit);
    *b = (struct buckets){0};
}
