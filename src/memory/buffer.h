/* Buffers: planned pieces of memory or swap, and extents in them.
 *
 * Communication and storage are handed extents, never pointers: whether one is within reach of the host's code is theirs to
 * ask, and what is not (the memory of a discrete device) is refused by name or staged. Nothing above them turns an address into
 * a pointer. */
#ifndef ZN_MEMORY_BUFFER_H
#define ZN_MEMORY_BUFFER_H

#include <stdbool.h>

#include "memory/address.h"
#include "memory/ledger.h"

typedef enum zn_space {
    ZN_SPACE_NOWHERE, /* a simulated world's: addresses without memory */
    ZN_SPACE_HOST,    /* this process can read and write it */
    ZN_SPACE_DEVICE,  /* of a discrete device, out of reach of the host's code */
    ZN_SPACE_SWAP     /* a range of the rank's swap */
} zn_space;

struct zn_buffer {
    const char *name;
    zn_tier tier;
    zn_kind kind;
    size_t n_bytes; /* 0: there is no such buffer */
    bool is_shared; /* other ranks read it */
    bool is_of_slices; /* … those of the tensor-parallel group */
    zn_space space;
    zn_addr base;         /* where it lies in memory … */
    uint64_t swap_offset; /* … or in the swap */
};

/* A piece of memory; `n_bytes` is what there is from its address on. */
struct zn_extent {
    zn_space space;
    zn_addr address;
    size_t n_bytes;
};

static inline struct zn_extent zn_buffer_extent(const struct zn_buffer *buffer, uint64_t offset)
{
    return (struct zn_extent){buffer->space, buffer->base + offset, buffer->n_bytes - offset};
}

/* Plain memory of this process. */
static inline struct zn_extent zn_extent_of(const void *memory, size_t n_bytes)
{
    return (struct zn_extent){ZN_SPACE_HOST, (zn_addr)(uintptr_t)memory, n_bytes};
}

/* For communication, storage and backends of devices: the pointer to n bytes, in a world without memory any. Fails where they are
 * not within reach; `what` names the request. */
zn_status zn_extent_pointer(struct zn_extent extent, size_t n_bytes, const char *what, void **pointer);

#endif
