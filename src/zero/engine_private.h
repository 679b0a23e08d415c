/* The engine from inside, for the files of this folder. */
#ifndef ZN_ZERO_ENGINE_PRIVATE_H
#define ZN_ZERO_ENGINE_PRIVATE_H

#include "zero/engine.h"
#include "zero/unit.h"

/* One large buffer. */
struct region {
    zn_kind kind;
    zn_addr address;
    size_t n_bytes;
};

enum gradient_state {
    GRADIENT_EMPTY,  /* nothing of this step is in it */
    GRADIENT_WRITING, /* its first part is being written in place */
    GRADIENT_ADDING, /* a further part is being written into the slot */
    GRADIENT_FILLED
};

struct zn_engine {
    zn_device *device;
    const zn_module *module;
    struct zn_engine_options options;
    const zn_engine_plan *plan; /* NULL while recording */
    zn_units units;
    zn_tape *tape;
    zn_manifest manifest; /* recording: what was allocated */
    struct region parameters, gradients, exp_avg, exp_avg_sq;
    struct region ids, targets, sums, partial, slot, arena;
    struct region *constants; /* by index */
    zn_lifetimes *train, *evaluate, *repeat; /* recording: owned */
    size_t slot_bytes; /* recording: the most that was open at once; else the planned size */
    size_t slot_used;  /* by open gradients */
    int slot_open;
    zn_addr *slot_address;         /* by parameter index, of open gradients */
    unsigned char *gradient_state; /* by parameter index */
    int64_t n_updates;
};

/* The doubles in `sums`. */
enum { SUM_LOSS, SUM_NORM, SUM_EVALUATE, N_SUMS };

zn_addr sum_address(const zn_engine *e, int which);
zn_status sum_read(zn_engine *e, int which, double *value);

/* Element `place` of a state's region. */
static inline zn_addr state_at(const struct region *region, int64_t place)
{
    return region->address + (zn_addr)place * sizeof(float);
}

zn_status region_alloc(zn_engine *e, struct region *region, const char *name, zn_kind kind,
                       size_t n_bytes);

extern const struct zn_param_hooks zn_engine_hooks;

/* The update of all units with gradients × grad_scale. */
zn_status optimizer_update(zn_engine *e, double lr, float grad_scale);

#endif
