/* Keys and values of the tokens before, so that a sequence can be extended without computing it
 * again.
 *
 * A pass with a cache (zn_tape_use_cache) runs the new tokens of one sequence, which stand after
 * `past` others: embedding and rotary operators count positions from there, and each attention
 * operator, in the order in which a pass runs them, adds its keys and values to its own part of
 * the cache and attends to all that is in it. A pass that learns lifetimes learns the cache's size too:
 * base is then only a number, and n_bytes the result. */
#ifndef ZN_AUTOGRAD_CACHE_H
#define ZN_AUTOGRAD_CACHE_H

#include <stddef.h>
#include <stdint.h>

#include "device/kernels.h"

typedef struct zn_cache {
    zn_addr base;     /* where it begins on the device */
    int64_t capacity; /* positions */
    int64_t past;     /* positions filled before this pass; the caller adds the pass's tokens after it */
    size_t n_bytes;   /* handed out in this pass: after a whole one, the size of the cache */
} zn_cache;

#endif
