/* Recording of block lifetimes. */
#include "memory/lifetimes.h"

#include <assert.h>
#include <stdlib.h>

#include "base/size.h"
#include "memory/packing.h"

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

void zn_lifetimes_next_point(zn_lifetimes *l)
{
    l->now++;
}

static zn_status measure_live(zn_lifetimes *l)
{
    size_t n_points = (size_t)l->now + 2;
    int64_t *change = calloc(n_points, sizeof *change);
    if (!change)
        return zn_fail(ZN_ERR_MEMORY, "no memory to pack the arena");
    for (int64_t i = 0; i < l->n_blocks; i++) {
        change[l->blocks[i].first] += (int64_t)l->blocks[i].n_bytes;
        change[l->blocks[i].last + 1] -= (int64_t)l->blocks[i].n_bytes;
    }
    int64_t live = 0;
    for (size_t m = 0; m < n_points; m++) {
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
    ZN_TRY(measure_live(l));
    ZN_TRY(pack_blocks(l->blocks, l->n_blocks, l->now + 1, &l->peak));
    l->packed = true;
    return ZN_OK;
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
