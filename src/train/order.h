/* The order of the data: sample k of epoch e = k / n is permutation(seed, e) at k mod n. */
#ifndef ZN_TRAIN_ORDER_H
#define ZN_TRAIN_ORDER_H

#include <stdbool.h>
#include <stdint.h>

struct zn_order {
    int64_t n_windows;
    uint64_t seed;
    bool shuffle;
};

/* The window of sample k (from 0, over all epochs). No memory grows with the data: the
 * permutation is computed, not stored. */
int64_t zn_order_window(const struct zn_order *order, int64_t sample);

#endif
