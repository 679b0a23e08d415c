/* The trace: what one pass of the tape asks of its hooks, in order. Each acquire, open and close of a gradient, and each save,
 * prefetch and load of an activation checkpoint is a point, and so is what ranks that hold slices of parameters exchange.
 *
 * A trace depends on the model, the batch, recompute, tiles and the order of micro-batches. It does not depend on the stage,
 * the ranks or the tiers of the model states. */
#ifndef ZN_SCHEDULE_TRACE_H
#define ZN_SCHEDULE_TRACE_H

#include <stdint.h>

#include "memory/lifetimes.h"

typedef enum zn_point_kind {
    ZN_POINT_ACQUIRE,      /* the values of a part are about to be read */
    ZN_POINT_OPEN,         /* the gradient of a part is about to be written … */
    ZN_POINT_CLOSE,        /* … and is written */
    ZN_POINT_SAVE,         /* an activation checkpoint leaves the tape … */
    ZN_POINT_PREFETCH,     /* … is wanted soon … */
    ZN_POINT_LOAD,         /* … and comes back */
    ZN_POINT_FORWARD_END,  /* of a segment */
    ZN_POINT_BACKWARD_END,
    ZN_POINT_SUM_SLICES,   /* values of all ranks of a tensor-parallel group are added … */
    ZN_POINT_GATHER_SLICES, /* … or each takes those of all */
    ZN_N_POINT_KINDS
} zn_point_kind;

struct zn_point {
    int32_t kind;  /* zn_point_kind */
    int32_t index; /* of the part, the checkpoint or the segment; of an exchange the elements that a rank gives */
};

/* One pass of the tape. */
struct zn_pass_trace {
    struct zn_point *points;
    int n_points, capacity;
    zn_lifetimes *lifetimes; /* of its activations; NULL: there is no such pass */
};

/* A table that operators read. */
struct zn_table {
    const char *name; /* borrowed */
    size_t n_bytes;
};

typedef struct zn_trace {
    struct zn_pass_trace train, evaluate;
    struct zn_pass_trace reference; /* forward without adapters */
    int n_segments;
    int64_t vocabulary;
    struct zn_table *tables;
    int n_tables;
    size_t cache_bytes; /* keys and values of a sequence that is extended */
    int n_slices; /* ranks that exchange; 0: no point is an exchange */
    int64_t checkpoint_elements, n_checkpoints; /* of the largest activation checkpoint, and how many there are */
} zn_trace;

/* Elements of an activation checkpoint that each of the ranks that share it keeps; the last may have fewer. */
static inline int64_t zn_trace_piece_elements(const zn_trace *trace)
{
    return (trace->checkpoint_elements + trace->n_slices - 1) / trace->n_slices;
}

void zn_trace_fini(zn_trace *trace);

const char *zn_point_name(zn_point_kind kind);

/* The caller records points in order. */
zn_status zn_pass_trace_add(struct zn_pass_trace *pass, zn_point_kind kind, int index);

/* Bytes of arena that the pass that needs most does. */
size_t zn_trace_arena_bytes(const zn_trace *trace);

#endif
