/* What the attention kernels share: which keys a query sees, and their tiles.
 *
 * Tiles are long in one direction: forward takes ZN_ATTENTION_TILE queries and up to ATTENTION_LONG
 * keys, backward as many keys and up to ATTENTION_LONG queries. The few products then are large
 * enough for the BLAS, while the causal edge wastes only half of a small square. */
#ifndef ZN_DEVICE_CPU_ATTENTION_H
#define ZN_DEVICE_CPU_ATTENTION_H

#include <stdint.h>

#include "base/status.h"
#include "device/cpu/blas.h"
#include "device/kernels.h"

enum { ATTENTION_LONG = 4 * ZN_ATTENTION_TILE };

struct key_range {
    int64_t from, to; /* empty when to <= from */
};

static inline int64_t attention_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t attention_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The first key that a query sees. */
static inline int64_t first_key(int64_t query, int64_t window)
{
    return window > 0 ? attention_max(0, query - window + 1) : 0;
}

/* The keys a query sees, as columns of a tile of n_keys keys that begins at `tile_key`. */
static inline struct key_range keys_in_tile(int64_t query, int64_t window, int64_t tile_key,
                                            int64_t n_keys)
{
    struct key_range range = {attention_max(first_key(query, window) - tile_key, 0),
                              attention_min(query + 1 - tile_key, n_keys)};
    return range;
}

/* Refuses heads that do not form groups and strides the BLAS cannot hold. */
static inline zn_status attention_check(int64_t heads, int64_t kv_heads, const int64_t *strides,
                                        int n_strides)
{
    if (kv_heads < 1 || heads % kv_heads != 0)
        return zn_fail(ZN_ERR_UNSUPPORTED,
                       "attention: %lld heads do not divide among %lld kv heads", (long long)heads,
                       (long long)kv_heads);
    for (int i = 0; i < n_strides; i++)
        if (!zn_blas_fits(strides[i]))
            return zn_fail(ZN_ERR_UNSUPPORTED,
                           "attention: a row stride does not fit the BLAS's integers");
    return ZN_OK;
}

#endif
