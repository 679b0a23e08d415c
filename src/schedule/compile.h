/* From trace and settings to the plan of a run: placement, buffers and the program of a step. Nothing here knows a device, a
 * communicator or a drive. */
#ifndef ZN_SCHEDULE_COMPILE_H
#define ZN_SCHEDULE_COMPILE_H

#include "memory/manifest.h"
#include "schedule/placement.h"
#include "schedule/program.h"

/* What an engine allocates and does. */
typedef struct zn_engine_plan {
    struct zn_placement placement;
    zn_units units;
    zn_trace trace;
    struct zn_buffer buffers[ZN_N_BUFFERS];
    zn_manifest manifest; /* the buffers that there are, and the model's tables */
    zn_program program;
    int64_t *persistent_at; /* by unit: its first byte in ZN_BUFFER_PERSISTENT, or -1 */
    bool *is_used;          /* by unit: a training pass writes gradients of it */
    zn_lifetimes *slots;    /* of gradients on their way to be reduced; NULL where none are */
    size_t largest_gather;  /* bytes of the largest unit that is fetched ahead of its use */
    int64_t cached;         /* own elements whose optimizer states stay in memory */
    uint64_t swap_bytes;    /* of storage a rank needs */
} zn_engine_plan;

/* Takes the trace over, also where it fails. The caller ends the plan. */
zn_status zn_compile(const struct zn_params *params, const struct zn_engine_options *options, int n_ranks, zn_trace *trace,
                     zn_engine_plan *plan);

void zn_engine_plan_fini(zn_engine_plan *plan);

/* Layout of units for these settings: what a trace is recorded over. */
zn_status zn_compile_units(const struct zn_params *params, const struct zn_engine_options *options, int n_ranks, zn_units *units);

#endif
