/* Recording and first-fit-decreasing packing of block lifetimes. */
#include "memory/lifetimes.h"

#include <assert.h>
#include <stdlib.h>

#include "base/size.h"

struct block {
    size_t n_bytes, offset;
    int64_t first, last; /* moments, both included */
};

struct zn_lifetimes {
    struct block *blocks;
    int64_t n_blocks, capacity;
    int64_t now;
    size_t peak, peak_live;
    bool packed, takes_smaller;
};

zn_status zn_lifetimes_create(zn_lifetimes **lifetimes)
{
    zn_lifetimes *l = calloc(1, sizeof *l);
    if (!l)
        return zn_fail(ZN_ERR_MEMORY, "no memory for the lifetimes of blocks");
    *lifetimes = l;
    return ZN_OK;
}

void zn_lifetimes_destroy(zn_lifetimes *l)
{
    if (!l)
        return;
    free(l->blocks);
    free(l);
}

zn_status zn_lifetimes_add(zn_lifetimes *l, size_t n_bytes, int64_t *block)
{
    assert(!l->packed);
    if (l->n_blocks == l->capacity) {
        int64_t capacity = l->capacity ? 2 * l->capacity : 256;
        struct block *grown = realloc(l->blocks, (size_t)capacity * sizeof *grown);
        if (!grown)
            return zn_fail(ZN_ERR_MEMORY, "no memory for the lifetimes of blocks");
        l->blocks = grown;
        l->capacity = capacity;
    }
    l->blocks[l->n_blocks] = (struct block){
        .n_bytes = zn_round_up(n_bytes, ZN_BLOCK_ALIGNMENT), .first = l->now, .last = l->now};
    *block = l->n_blocks++;
    return ZN_OK;
}

void zn_lifetimes_touch(zn_lifetimes *l, int64_t block)
{
    assert(block >= 0 && block < l->n_blocks);
    l->blocks[block].last = l->now;
}

void zn_lifetimes_next_moment(zn_lifetimes *l)
{
    l->now++;
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

/* Keeps `placed` in order of offset, so that one pass over it finds the first gap. */
static void place(struct block **placed, int64_t n_placed, struct block *b)
{
    size_t end = 0; /* everything alive with b below this is passed */
    for (int64_t i = 0; i < n_placed; i++) {
        const struct block *other = placed[i];
        if (other->last < b->first || other->first > b->last)
            continue;
        if (other->offset >= end + b->n_bytes)
            break;
        if (other->offset + other->n_bytes > end)
            end = other->offset + other->n_bytes;
    }
    b->offset = end;
    int64_t at = n_placed;
    while (at > 0 && placed[at - 1]->offset > end) {
        placed[at] = placed[at - 1];
        at--;
    }
    placed[at] = b;
}

static zn_status measure_live(zn_lifetimes *l)
{
    size_t n_moments = (size_t)l->now + 2;
    int64_t *change = calloc(n_moments, sizeof *change);
    if (!change)
        return zn_fail(ZN_ERR_MEMORY, "no memory to pack the arena");
    for (int64_t i = 0; i < l->n_blocks; i++) {
        change[l->blocks[i].first] += (int64_t)l->blocks[i].n_bytes;
        change[l->blocks[i].last + 1] -= (int64_t)l->blocks[i].n_bytes;
    }
    int64_t live = 0;
    for (size_t m = 0; m < n_moments; m++) {
        live += change[m];
        if ((size_t)live > l->peak_live)
            l->peak_live = (size_t)live;
    }
    free(change);
    return ZN_OK;
}

void zn_lifetimes_allow_smaller(zn_lifetimes *l)
{
    l->takes_smaller = true;
}

zn_status zn_lifetimes_pack(zn_lifetimes *l)
{
    assert(!l->packed);
    size_t n = (size_t)l->n_blocks;
    struct block **order = malloc((n + 1) * sizeof *order), **placed = malloc((n + 1) * sizeof *placed);
    zn_status status = ZN_OK;
    if (!order || !placed)
        status = zn_fail(ZN_ERR_MEMORY, "no memory to pack the arena");
    else
        status = measure_live(l);
    if (status == ZN_OK) {
        for (size_t i = 0; i < n; i++)
            order[i] = &l->blocks[i];
        qsort(order, n, sizeof *order, larger_first);
        for (size_t i = 0; i < n; i++) {
            place(placed, (int64_t)i, order[i]);
            size_t end = order[i]->offset + order[i]->n_bytes;
            if (end > l->peak)
                l->peak = end;
        }
        l->packed = true;
    }
    free(order);
    free(placed);
    return status;
}

int64_t zn_lifetimes_n_blocks(const zn_lifetimes *l)
{
    return l->n_blocks;
}

size_t zn_lifetimes_block_bytes(const zn_lifetimes *l, int64_t block)
{
    return l->blocks[block].n_bytes;
}

bool zn_lifetimes_fits(const zn_lifetimes *l, int64_t block, size_t n_bytes)
{
    size_t planned = l->blocks[block].n_bytes, wanted = zn_round_up(n_bytes, ZN_BLOCK_ALIGNMENT);
    return l->takes_smaller ? wanted <= planned : wanted == planned;
}

size_t zn_lifetimes_offset(const zn_lifetimes *l, int64_t block)
{
    assert(l->packed && block >= 0 && block < l->n_blocks);
    return l->blocks[block].offset;
}

size_t zn_lifetimes_peak(const zn_lifetimes *l)
{
    return l->peak;
}

size_t zn_lifetimes_peak_live(const zn_lifetimes *l)
{
    return l->peak_live;
}
