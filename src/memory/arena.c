/* Recording and following of block lifetimes. */
#include "memory/arena.h"

#include "base/size.h"

void zn_arena_start(zn_arena *arena, zn_lifetimes *lifetimes, bool recording)
{
    *arena = (zn_arena){.lifetimes = lifetimes, .recording = recording};
}

zn_status zn_arena_take(zn_arena *arena, size_t n_bytes, int64_t *block, size_t *offset)
{
    if (arena->recording) {
        ZN_TRY(zn_lifetimes_add(arena->lifetimes, n_bytes, block));
        *offset = arena->next_offset;
        arena->next_offset += zn_round_up(n_bytes, ZN_BLOCK_ALIGNMENT);
        return ZN_OK;
    }
    int64_t next = arena->next_block;
    if (next >= zn_lifetimes_n_blocks(arena->lifetimes) ||
        !zn_lifetimes_fits(arena->lifetimes, next, n_bytes))
        return zn_fail(ZN_ERR_INTERNAL, "the program left its plan at block %lld (%zu bytes)",
                       (long long)next, n_bytes);
    *block = next;
    *offset = zn_lifetimes_offset(arena->lifetimes, next);
    arena->next_block++;
    return ZN_OK;
}

void zn_arena_touch(zn_arena *arena, int64_t block)
{
    if (arena->recording)
        zn_lifetimes_touch(arena->lifetimes, block);
}

void zn_arena_next_point(zn_arena *arena)
{
    if (arena->recording)
        zn_lifetimes_next_point(arena->lifetimes);
}
