/* From the trace to the plan of gathers. */
#include "schedule/gathers.h"

#include <assert.h>
#include <stdlib.h>

void zn_gathers_init(zn_gathers *trace)
{
    *trace = (zn_gathers){0};
}

void zn_gathers_fini(zn_gathers *trace)
{
    free(trace->units);
    free(trace->members);
    free(trace->gathers);
    free(trace->gather_of);
    *trace = (zn_gathers){0};
}

static zn_status grow(zn_gathers *t)
{
    int capacity = t->capacity ? 2 * t->capacity : 64;
    int *units = realloc(t->units, (size_t)capacity * sizeof *units);
    if (units)
        t->units = units;
    unsigned char *members = realloc(t->members, (size_t)capacity);
    if (members)
        t->members = members;
    if (!units || !members)
        return zn_fail(ZN_ERR_MEMORY, "no memory for the trace");
    t->capacity = capacity;
    return ZN_OK;
}

zn_status zn_gathers_use(zn_gathers *t, int unit, int member, bool turn)
{
    if (turn || t->n_uses == 0 || t->units[t->n_uses - 1] != unit) {
        if (t->n_uses == t->capacity)
            ZN_TRY(grow(t));
        t->members[t->n_uses] = 0;
        t->units[t->n_uses++] = unit;
    }
    t->members[t->n_uses - 1] |= (unsigned char)(1 << member);
    return ZN_OK;
}

/* Of the joined units that are needed. */
static size_t bytes_of(const size_t *n_bytes, int unit, unsigned char members)
{
    size_t n = 0;
    for (int i = 0; members >> i; i++)
        n += members >> i & 1 ? n_bytes[unit + i] : 0;
    return n;
}

static size_t bytes_of_gather(const size_t *n_bytes, const struct zn_gather_plan *g)
{
    return bytes_of(n_bytes, g->unit, g->members);
}

/* Bytes used before each position, and the last gather of each unit: what makes the list in one pass. */
struct listing {
    size_t *before;
    int *last_gather;
};

static zn_status listing_init(struct listing *l, const zn_gathers *t, const size_t *n_bytes)
{
    int n_units = 0;
    for (int i = 0; i < t->n_uses; i++)
        n_units = t->units[i] >= n_units ? t->units[i] + 1 : n_units;
    l->before = calloc((size_t)t->n_uses + 1, sizeof *l->before);
    l->last_gather = calloc((size_t)n_units + 1, sizeof *l->last_gather);
    if (!l->before || !l->last_gather)
        return zn_fail(ZN_ERR_MEMORY, "no memory for the plan of gathers");
    for (int i = 0; i < t->n_uses; i++)
        l->before[i + 1] = l->before[i] + bytes_of(n_bytes, t->units[i], t->members[i]);
    for (int u = 0; u < n_units; u++)
        l->last_gather[u] = -1;
    return ZN_OK;
}

static void listing_fini(struct listing *l)
{
    free(l->before);
    free(l->last_gather);
}

/* The gather that may serve the use at `at` besides those before it, or -1: where other units used in between, which
 * keeping it would hold besides, are few. */
static int reusable(const zn_gathers *t, const struct listing *l, size_t reuse_bytes, int at)
{
    int g = l->last_gather[t->units[at]];
    if (g < 0 || reuse_bytes == 0)
        return -1;
    size_t between = l->before[at] - l->before[t->gathers[g].last_use + 1];
    return between <= reuse_bytes ? g : -1;
}

static zn_status list_gathers(zn_gathers *t, const size_t *n_bytes, size_t reuse_bytes)
{
    struct listing l = {0};
    zn_status status = listing_init(&l, t, n_bytes);
    for (int i = 0; i < t->n_uses && status == ZN_OK; i++) {
        int unit = t->units[i];
        t->gather_of[i] = -1;
        if (bytes_of(n_bytes, unit, t->members[i]) == 0)
            continue;
        int g = reusable(t, &l, reuse_bytes, i);
        if (g < 0) {
            g = t->n_gathers++;
            t->gathers[g] = (struct zn_gather_plan){.unit = unit, .first_use = i, .issue = i};
        }
        t->gathers[g].last_use = i;
        t->gathers[g].members |= t->members[i];
        size_t bytes = bytes_of_gather(n_bytes, &t->gathers[g]);
        t->largest_bytes = bytes > t->largest_bytes ? bytes : t->largest_bytes;
        t->gather_of[i] = l.last_gather[unit] = g;
    }
    listing_fini(&l);
    return status;
}

/* Each gather is issued as early as the budget allows: those issued but not yet used hold at most
 * prefetch_bytes. Gathers are issued in order of first use. */
static void choose_issues(zn_gathers *t, const size_t *n_bytes, size_t prefetch_bytes)
{
    for (int g = 0; g < t->n_gathers; g++) {
        struct zn_gather_plan *p = &t->gathers[g];
        size_t ahead = bytes_of_gather(n_bytes, p);
        int h = g;
        while (h > 0 && ahead <= prefetch_bytes) {
            p->issue = t->gathers[h - 1].first_use;
            ahead += bytes_of_gather(n_bytes, &t->gathers[h - 1]);
            h--;
        }
        if (h == 0 && ahead <= prefetch_bytes)
            p->issue = 0;
    }
}

/* Reads run ahead of the gathers by as much again: partitions read but not yet gathered hold at most
 * prefetch_bytes. */
static void choose_fetches(zn_gathers *t, const size_t *n_bytes, const struct zn_gathers_options *o)
{
    for (int g = 0; g < t->n_gathers && o->fetch_ranks > 0; g++) {
        struct zn_gather_plan *p = &t->gathers[g];
        size_t ranks = (size_t)o->fetch_ranks, ahead = bytes_of_gather(n_bytes, p) / ranks;
        int h = g;
        p->fetch = p->issue;
        while (h > 0 && ahead <= o->prefetch_bytes) {
            p->fetch = t->gathers[h - 1].issue;
            ahead += bytes_of_gather(n_bytes, &t->gathers[h - 1]) / ranks;
            h--;
        }
        if (h == 0 && ahead <= o->prefetch_bytes)
            p->fetch = 0;
    }
}

static int begin_of(const struct zn_gather_plan *p, bool fetch)
{
    return fetch ? p->fetch : p->issue;
}

/* A buffer lives from its issue to its last use; that of a fetched partition to the gather's first. */
static int end_of(const struct zn_gather_plan *p, bool fetch)
{
    return fetch ? p->first_use : p->last_use;
}

static zn_status place_buffers(zn_gathers *t, const size_t *n_bytes, size_t share, bool fetch)
{
    zn_lifetimes *lifetimes;
    ZN_TRY(zn_lifetimes_create(&lifetimes));
    zn_status status = ZN_OK;
    int next = 0, oldest = 0;
    for (int i = 0; i < t->n_uses && status == ZN_OK; i++) {
        int64_t block;
        for (; next < t->n_gathers && begin_of(&t->gathers[next], fetch) <= i && status == ZN_OK; next++) {
            status = zn_lifetimes_add(lifetimes, bytes_of_gather(n_bytes, &t->gathers[next]) / share, &block);
            assert(status != ZN_OK || block == next);
        }
        while (oldest < next && end_of(&t->gathers[oldest], fetch) < i)
            oldest++;
        for (int g = oldest; g < next && status == ZN_OK; g++) {
            if (end_of(&t->gathers[g], fetch) >= i)
                zn_lifetimes_touch(lifetimes, g);
        }
        zn_lifetimes_next_point(lifetimes);
    }
    if (status == ZN_OK)
        status = zn_lifetimes_pack(lifetimes);
    for (int g = 0; g < t->n_gathers && status == ZN_OK; g++)
        *(fetch ? &t->gathers[g].fetch_offset : &t->gathers[g].offset) = zn_lifetimes_offset(lifetimes, g);
    if (status == ZN_OK)
        *(fetch ? &t->fetch_bytes : &t->region_bytes) = zn_lifetimes_peak(lifetimes);
    zn_lifetimes_destroy(lifetimes);
    return status;
}

zn_status zn_gathers_plan(zn_gathers *t, const size_t *n_bytes, const struct zn_gathers_options *options)
{
    size_t n = (size_t)t->n_uses + 1;
    free(t->gathers);
    free(t->gather_of);
    t->n_gathers = 0;
    t->largest_bytes = 0;
    t->gathers = calloc(n, sizeof *t->gathers);
    t->gather_of = calloc(n, sizeof *t->gather_of);
    if (!t->gathers || !t->gather_of)
        return zn_fail(ZN_ERR_MEMORY, "no memory for the plan of gathers");
    ZN_TRY(list_gathers(t, n_bytes, options->reuse_bytes));
    choose_issues(t, n_bytes, options->prefetch_bytes);
    choose_fetches(t, n_bytes, options);
    ZN_TRY(place_buffers(t, n_bytes, 1, false));
    return options->fetch_ranks > 0 ? place_buffers(t, n_bytes, (size_t)options->fetch_ranks, true) : ZN_OK;
}
