/* First fit, the larger first. A block is compared only with those that lie in the same window of time: windows
 * overlap by half, so every block that lives at most half a window lies whole in one of them. Those that live
 * longer are compared with all. */
#include "memory/packing.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Blocks that were placed, in order of offset. */
struct list {
    struct block **blocks;
    int64_t n;
};

enum { N_SHIFTS = 2 };

struct packing {
    int64_t span;      /* points of a window */
    int64_t n_windows; /* for each of the two shifts */
    struct list *windows;
    struct block **entries; /* of all windows */
    struct list all;
    int64_t n_sorted; /* of `all`; the rest waits to be sorted in */
    struct block **merged;
};

static int64_t window_of(const struct packing *p, int shift, int64_t point)
{
    return (point + shift * (p->span / N_SHIFTS)) / p->span;
}

static struct list *window_at(const struct packing *p, int shift, int64_t window)
{
    return &p->windows[shift * p->n_windows + window];
}

static bool lies_in_one(const struct packing *p, int shift, const struct block *b)
{
    return window_of(p, shift, b->first) == window_of(p, shift, b->last);
}

/* Entries of all windows; *cost is about how many comparisons there will be. */
static int64_t count_entries(const struct packing *p, const struct block *blocks, int64_t n, int64_t n_windows,
                             double *cost)
{
    int64_t sum = 0, n_long = 0;
    for (int64_t i = 0; i < n; i++) {
        for (int shift = 0; shift < N_SHIFTS; shift++)
            sum += window_of(p, shift, blocks[i].last) - window_of(p, shift, blocks[i].first) + 1;
        n_long += !lies_in_one(p, 0, &blocks[i]) && !lies_in_one(p, 1, &blocks[i]);
    }
    double in_window = (double)sum / (double)(N_SHIFTS * n_windows);
    *cost = (double)(n - n_long) * in_window + (double)n_long * (double)n;
    return sum;
}

/* The windows with the fewest comparisons, while their lists stay a small multiple of the blocks. */
static int64_t choose_span(struct packing *p, const struct block *blocks, int64_t n, int64_t n_points)
{
    enum { MOST_ENTRIES = 16 };
    double best = HUGE_VAL, cost;
    int64_t best_span = n_points, best_entries = 0;
    for (p->span = 1; p->span < 2 * n_points; p->span *= 2) {
        int64_t n_entries = count_entries(p, blocks, n, window_of(p, 1, n_points) + 1, &cost);
        if (cost < best && (n_entries <= MOST_ENTRIES * n || p->span >= n_points)) {
            best = cost;
            best_span = p->span;
            best_entries = n_entries;
        }
    }
    p->span = best_span;
    p->n_windows = window_of(p, 1, n_points) + 1;
    return best_entries;
}

/* Gives every window the room that all its blocks will need. */
static void share_entries(struct packing *p, const struct block *blocks, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        for (int shift = 0; shift < N_SHIFTS; shift++)
            for (int64_t w = window_of(p, shift, blocks[i].first); w <= window_of(p, shift, blocks[i].last); w++)
                window_at(p, shift, w)->n++;
    struct block **at = p->entries;
    for (int64_t w = 0; w < N_SHIFTS * p->n_windows; w++) {
        p->windows[w].blocks = at;
        at += p->windows[w].n;
        p->windows[w].n = 0;
    }
}

static void packing_fini(struct packing *p)
{
    free(p->windows);
    free(p->entries);
    free(p->all.blocks);
    free(p->merged);
}

static zn_status packing_init(struct packing *p, const struct block *blocks, int64_t n, int64_t n_points)
{
    *p = (struct packing){0};
    size_t n_entries = (size_t)choose_span(p, blocks, n, n_points), n_lists = N_SHIFTS * (size_t)p->n_windows;
    p->windows = calloc(n_lists, sizeof *p->windows);
    p->entries = calloc(n_entries + 1, sizeof *p->entries);
    p->all.blocks = calloc((size_t)n + 1, sizeof *p->all.blocks);
    p->merged = calloc((size_t)n + 1, sizeof *p->merged);
    if (!p->windows || !p->entries || !p->all.blocks || !p->merged) {
        packing_fini(p);
        return zn_fail(ZN_ERR_MEMORY, "no memory to pack the arena");
    }
    share_entries(p, blocks, n);
    return ZN_OK;
}

/* ---- Lists ---- */

static void insert(struct list *list, struct block *b)
{
    int64_t low = 0, high = list->n;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (list->blocks[middle]->offset <= b->offset)
            low = middle + 1;
        else
            high = middle;
    }
    memmove(&list->blocks[low + 1], &list->blocks[low], (size_t)(list->n - low) * sizeof *list->blocks);
    list->blocks[low] = b;
    list->n++;
}

static int lower_first(const void *a, const void *b)
{
    const struct block *x = *(struct block *const *)a, *y = *(struct block *const *)b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Everything placed so far, in order: what is new is sorted and merged. */
static const struct list *sorted(struct packing *p)
{
    struct block **all = p->all.blocks, **fresh = all + p->n_sorted;
    int64_t n = p->all.n, i = 0, j = p->n_sorted;
    if (j == n)
        return &p->all;
    qsort(fresh, (size_t)(n - j), sizeof *fresh, lower_first);
    for (int64_t k = 0; k < n; k++)
        p->merged[k] = j == n || (i < p->n_sorted && all[i]->offset <= all[j]->offset) ? all[i++] : all[j++];
    p->all.blocks = p->merged;
    p->merged = all;
    p->n_sorted = n;
    return &p->all;
}

/* ---- Placing ---- */

static size_t first_gap(const struct list *placed, const struct block *b)
{
    size_t end = 0; /* everything alive with b below this is passed */
    for (int64_t i = 0; i < placed->n; i++) {
        const struct block *other = placed->blocks[i];
        if (other->last < b->first || other->first > b->last)
            continue;
        if (other->offset >= end + b->n_bytes)
            break;
        if (other->offset + other->n_bytes > end)
            end = other->offset + other->n_bytes;
    }
    return end;
}

/* All that live with the block, and others. */
static const struct list *neighbours(struct packing *p, const struct block *b)
{
    for (int shift = 0; shift < N_SHIFTS; shift++)
        if (lies_in_one(p, shift, b))
            return window_at(p, shift, window_of(p, shift, b->first));
    return sorted(p);
}

static void place(struct packing *p, struct block *b)
{
    b->offset = first_gap(neighbours(p, b), b);
    for (int shift = 0; shift < N_SHIFTS; shift++)
        for (int64_t w = window_of(p, shift, b->first); w <= window_of(p, shift, b->last); w++)
            insert(window_at(p, shift, w), b);
    p->all.blocks[p->all.n++] = b;
}

static int larger_first(const void *a, const void *b)
{
    const struct block *x = *(struct block *const *)a, *y = *(struct block *const *)b;
    if (x->n_bytes != y->n_bytes)
        return x->n_bytes > y->n_bytes ? -1 : 1;
    int64_t x_life = x->last - x->first, y_life = y->last - y->first;
    if (x_life != y_life)
        return x_life > y_life ? -1 : 1;
    return x < y ? -1 : x > y; /* blocks lie in one array: their order is that of their birth */
}

zn_status pack_blocks(struct block *blocks, int64_t n_blocks, int64_t n_points, size_t *peak)
{
    size_t n = (size_t)n_blocks, highest = 0;
    struct packing p;
    struct block **order = malloc((n + 1) * sizeof *order);
    if (!order)
        return zn_fail(ZN_ERR_MEMORY, "no memory to pack the arena");
    zn_status status = packing_init(&p, blocks, n_blocks, n_points);
    if (status == ZN_OK) {
        for (size_t i = 0; i < n; i++)
            order[i] = &blocks[i];
        qsort(order, n, sizeof *order, larger_first);
        for (size_t i = 0; i < n; i++) {
            place(&p, order[i]);
            size_t end = order[i]->offset + order[i]->n_bytes;
            highest = end > highest ? end : highest;
        }
        packing_fini(&p);
        *peak = highest;
    }
    free(order);
    return status;
}
