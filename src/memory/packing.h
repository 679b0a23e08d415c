/* Places for blocks that live at different times, for this folder. */
#ifndef ZN_MEMORY_PACKING_H
#define ZN_MEMORY_PACKING_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct block {
    size_t n_bytes, offset;
    int64_t first, last; /* points, both included */
};

/* Sets the offsets: the larger first, each at the lowest place where nothing that lives with it lies. *peak is
 * the end of the highest. Points are below n_points. */
zn_status pack_blocks(struct block *blocks, int64_t n_blocks, int64_t n_points, size_t *peak);

#endif
