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

/* What limits the sight of the queries of one sequence beside causality. */
struct sight {
    int64_t window;              /* 0: none */
    const int32_t *position_ids; /* within the examples of the sequence; NULL: it is one */
};

/* The sight in sequence `batch`. */
static inline struct sight sight_of(int64_t window, const int32_t *position_ids, int64_t batch, int64_t seq_len)
{
    return (struct sight){window, position_ids ? position_ids + batch * seq_len : NULL};
}

/* The first key that a query sees. It never falls from one query to the next. */
static inline int64_t first_key(struct sight sight, int64_t query)
{
    int64_t first = sight.position_ids ? query - sight.position_ids[query] : 0;
    return sight.window > 0 ? attention_max(first, query - sight.window + 1) : first;
}

/* One after the last query, of `seq_len`, that sees a key. */
static inline int64_t end_of_queries(struct sight sight, int64_t key, int64_t seq_len)
{
    int64_t end = sight.window > 0 ? attention_min(seq_len, key + sight.window) : seq_len;
    for (int64_t query = key + 1; sight.position_ids && query < end; query++)
        if (sight.position_ids[query] == 0) /* where the next example begins */
            return query;
    return end;
}

/* The keys a query sees, as columns of a tile of n_keys keys that begins at `tile_key`. */
static inline struct key_range keys_in_tile(struct sight sight, int64_t query, int64_t tile_key, int64_t n_keys)
{
    struct key_range range = {attention_max(first_key(sight, query) - tile_key, 0),
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
