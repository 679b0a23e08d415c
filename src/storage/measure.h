/* How large blocks should be and how many should be under way: measured on the swap files. */
#ifndef ZN_STORAGE_MEASURE_H
#define ZN_STORAGE_MEASURE_H

#include "storage/engine.h"

/* Without a measurement, for small spaces and where others are no better. */
#define MEASURE_BLOCK_BYTES ((size_t)1 << 20)
enum { MEASURE_DEPTH = 8 };

/* Of what is tried. */
#define MEASURE_MAX_BLOCK_BYTES ((size_t)4 << 20)
enum { MEASURE_MAX_DEPTH = 32 };

/* Spaces below this are not worth it. */
#define MEASURE_MIN_SPACE ((uint64_t)64 << 20)

/* Tunes the idle queue; depths are for each file, at most `max_depth`. What is not 0 is taken as it is,
 * the rest is measured in about 0.3 seconds, longer only where the disk needs that for some MiB. The
 * content of the files is lost. Blocks. */
zn_status measure_blocks(struct block_queue *queue, struct engine *engine, int max_depth, size_t *block_bytes,
                         int *depth);

#endif
