/* Best-fit decreasing: items of given sizes into windows of one size, few windows with little room left over. As TRL packs:
 * the longest first, each into the fullest window that has room for it, ties in the order in which items came and
 * windows became that full. A pure function of the sizes: neither seeds nor ranks change it. */
#ifndef ZN_TRAIN_PACKING_H
#define ZN_TRAIN_PACKING_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct zn_packed {
    int64_t n_windows;
    int64_t *first;   /* n_windows + 1: window w holds members first[w] … first[w+1] */
    uint32_t *member; /* items, in the order in which they came into their window */
};

/* Packs the items of sizes above 0; others are in no window. No size is above `room`. The caller calls fini. */
zn_status zn_pack_best_fit(const uint32_t *sizes, int64_t n_items, int64_t room, struct zn_packed *packed);

/* One item a window, in their order. */
zn_status zn_pack_one_each(const uint32_t *sizes, int64_t n_items, struct zn_packed *packed);

void zn_packed_fini(struct zn_packed *packed);

#endif
