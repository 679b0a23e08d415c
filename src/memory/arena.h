/* A contiguous arena that hands out blocks: while recording it writes lifetimes, afterwards it
 * follows them. It deals in offsets; whose memory lies behind them is the caller's matter. */
#ifndef ZN_MEMORY_ARENA_H
#define ZN_MEMORY_ARENA_H

#include <stdbool.h>

#include "memory/lifetimes.h"

typedef struct zn_arena {
    zn_lifetimes *lifetimes; /* borrowed */
    bool recording;
    int64_t next_block;
    size_t next_offset; /* recording: blocks never share addresses */
} zn_arena;

/* Starts a pass over the program. */
void zn_arena_start(zn_arena *arena, zn_lifetimes *lifetimes, bool recording);

/* The next block of the pass. Following a plan, a size that differs from the recorded one (or, where
 * the lifetimes allow smaller ones, exceeds it) is an internal error: the program has left its trace. */
zn_status zn_arena_take(zn_arena *arena, size_t n_bytes, int64_t *block, size_t *offset);

/* Says that the block is read or written at this point. */
void zn_arena_touch(zn_arena *arena, int64_t block);

void zn_arena_next_point(zn_arena *arena);

#endif
