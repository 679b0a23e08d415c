/* The engine from inside, for the files of this folder. */
#ifndef ZN_ZERO_ENGINE_PRIVATE_H
#define ZN_ZERO_ENGINE_PRIVATE_H

#include "zero/engine.h"

/* One large buffer: private to the rank, or shared with the others of its node. */
struct region {
    zn_kind kind;
    zn_addr address;
    size_t n_bytes;
    bool is_shared;
    struct zn_shared shared;
};

/* A parameter's gradient in the present step. */
enum gradient_state {
    GRADIENT_EMPTY,   /* nothing of it was written */
    GRADIENT_WRITING, /* being written in its place */
    GRADIENT_ADDING,  /* a further part is being written beside it, to be added */
    GRADIENT_WRITTEN
};

struct unit_state {
    bool reduced;      /* the own partition holds sums over ranks of this step */
    bool touched;      /* written in the present segment */
    bool in_slot;      /* what is written now goes to the slot */
    zn_addr slot;      /* of the present segment */
    size_t slot_offset;
    int64_t slot_block;
    zn_event done; /* of its last reduction, or gather of gradients */
    bool pending;  /* that was submitted and not waited for */
    int64_t pending_moment; /* when: a count of segments */
    zn_event published; /* its new parameters are there */
    bool publishing;
};

struct zn_engine {
    zn_device *device;
    zn_comm *comm;
    int rank, n_ranks;
    const zn_module *module;
    struct zn_engine_options options;
    const zn_engine_plan *plan; /* NULL while recording */
    zn_units units;
    struct unit_state *unit_state;
    zn_tape *tape;
    zn_manifest manifest; /* recording: what was allocated */

    /* Model states. `parameters` holds all units at stages 0–2, the own partitions at stage 3;
     * `persistent` whole units at stage 3. `gradients` all units at stages 0–1 (the sums end in the
     * own partition), else the own partitions. The others all units at stage 0, else the own
     * partitions; `master` only where parameters have 16 bits. */
    struct region parameters, persistent, gradients, master, exp_avg, exp_avg_sq;
    int64_t *persistent_at; /* by unit: its first element in `persistent`, or -1 */

    struct region ids, targets, sums, partial, arena, add, slots, gathered, staging;
    struct region *constants; /* by index */

    /* Recording: owned. The last two take the repeats of a pass that is recorded already. */
    zn_lifetimes *train, *evaluate, *slot_lifetimes, *repeat, *repeat_slots;
    zn_arena slot_arena;
    int64_t moment; /* segments since the pass began */
    bool last_micro_batch;

    size_t add_bytes; /* recording: the most that was open at once; else the planned size */
    size_t add_used;
    int add_open;
    zn_addr *add_address;          /* by parameter index, of open gradients */
    unsigned char *gradient_state; /* by parameter index */

    zn_trace train_trace, evaluate_trace; /* recording */
    zn_trace *recording_trace;            /* of the present pass, or NULL */
    const zn_trace *trace;                /* of the present pass, from the plan */
    int position, next_gather;
    bool turn; /* the next use is the first of backward */
    zn_event *gather_done;     /* by gather of the longest trace */
    bool *gather_pending;
    int n_gather_events;

    int64_t n_updates;
};

/* ---- engine.c: what a stage keeps ---- */

/* Whether this rank holds whole units of the state, or its partitions only. */
bool keeps_parameters(const zn_engine *e);
bool keeps_gradients(const zn_engine *e);
bool keeps_optimizer(const zn_engine *e);

/* The address of element `first` of a parameter in a region of whole units, or of own partitions. */
zn_addr whole_at(const zn_engine *e, const struct region *region, size_t width, const zn_param *p,
                 int64_t first);
zn_addr owned_at(const zn_engine *e, const struct region *region, size_t width, const zn_param *p,
                 int64_t first);

/* The start of the own partition of a unit in either kind of region. */
zn_addr partition_at(const zn_engine *e, const struct region *region, size_t width, bool whole, int unit);

/* The range of a parameter the optimizer of this rank updates. */
struct zn_range updated_range(const zn_engine *e, const zn_param *p);

size_t width_of_params(const zn_engine *e);

bool is_frozen(const zn_engine *e, const zn_param *p);

zn_status region_alloc(zn_engine *e, struct region *region, const char *name, zn_kind kind, size_t n_bytes,
                       bool is_shared);

/* ---- gradients.c, gathers.c: the tape's hooks ---- */

extern const struct zn_param_hooks zn_engine_hooks;

zn_status gradients_start_pass(zn_engine *e);
zn_status gradients_finish(zn_engine *e); /* all reductions of the step are done */

zn_status gathers_init(zn_engine *e);
void gathers_fini(zn_engine *e);
zn_status gathers_start_pass(zn_engine *e, bool trains);
zn_status gathers_acquire(zn_engine *e, const zn_param *p, zn_addr *address);

/* Submits the gather of a unit's working parameters after an update or at start, where whole units
 * are kept. */
zn_status publish_unit(zn_engine *e, int unit);

/* Waits for the last request of a unit. */
zn_status unit_wait(zn_engine *e, int unit);

/* ---- step.c ---- */

enum { SUM_LOSS, SUM_NORM, SUM_EVALUATE, N_SUMS }; /* doubles in `sums` */

zn_addr sum_address(const zn_engine *e, int which);
zn_status sum_read(zn_engine *e, int which, double *value);
zn_status sum_clear(zn_engine *e, int which);

/* ---- verdict.c ---- */

zn_status verdict_reach(zn_engine *e, double loss_scale, struct zn_verdict *verdict);

/* ---- optimizer.c ---- */

/* The update of this rank's ranges with gradients × grad_scale, then their way to the others. */
zn_status optimizer_update(zn_engine *e, double lr, float grad_scale);

#endif
