/* Lifetimes of the blocks one pass over a program uses, and their places in one contiguous
 * arena (ZeRO-R's M_D: nothing that lives long and nothing that lives short interleave on a heap).
 *
 * While recording, a block is alive from its first to its last touch; packing then gives every
 * block an offset so that blocks alive at the same time never overlap. A later pass asks for
 * the same sizes in the same order and gets the offsets. The order depends on the program
 * alone, so one recording on the sim device serves every real pass. */
#ifndef ZN_MEMORY_LIFETIMES_H
#define ZN_MEMORY_LIFETIMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct zn_lifetimes zn_lifetimes;

enum { ZN_BLOCK_ALIGNMENT = 64 };

zn_status zn_lifetimes_create(zn_lifetimes **lifetimes); /* the caller destroys */
void zn_lifetimes_destroy(zn_lifetimes *lifetimes);

/* Recording. A new block is touched at the present point. */
zn_status zn_lifetimes_add(zn_lifetimes *lifetimes, size_t n_bytes, int64_t *block);
void zn_lifetimes_touch(zn_lifetimes *lifetimes, int64_t block);
void zn_lifetimes_next_point(zn_lifetimes *lifetimes);

/* Passes that follow may ask for smaller blocks: the same program on less data, whose blocks live
 * at the same points. */
void zn_lifetimes_allow_smaller(zn_lifetimes *lifetimes);

/* Ends the recording and places the blocks. */
zn_status zn_lifetimes_pack(zn_lifetimes *lifetimes);

/* After packing. */
int64_t zn_lifetimes_n_blocks(const zn_lifetimes *lifetimes);
size_t zn_lifetimes_block_bytes(const zn_lifetimes *lifetimes, int64_t block);
bool zn_lifetimes_fits(const zn_lifetimes *lifetimes, int64_t block, size_t n_bytes);
size_t zn_lifetimes_offset(const zn_lifetimes *lifetimes, int64_t block);
size_t zn_lifetimes_peak(const zn_lifetimes *lifetimes);      /* what the arena must hold */
size_t zn_lifetimes_peak_live(const zn_lifetimes *lifetimes); /* the least any packing could hold */

#endif
