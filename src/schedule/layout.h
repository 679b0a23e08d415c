/* The sizes of all buffers. */
#ifndef ZN_SCHEDULE_LAYOUT_H
#define ZN_SCHEDULE_LAYOUT_H

#include "schedule/compile.h"

/* What the passes measured. */
struct layout_sizes {
    size_t add, slots, gathered, fetched, checkpoint, tied, persistent, exchange;
};

/* Fills the plan's buffers, its manifest and swap_bytes. */
zn_status layout_buffers(const struct zn_engine_options *options, const struct layout_sizes *sizes, zn_engine_plan *plan);

#endif
