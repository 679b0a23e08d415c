/* The engine from inside, for the files of this folder. */
#ifndef ZN_ZERO_ENGINE_PRIVATE_H
#define ZN_ZERO_ENGINE_PRIVATE_H

#include "base/exact.h"
#include "zero/engine.h"

/* One large buffer: private to the rank, or shared with the others of its node. */
struct region {
    zn_tier tier;
    zn_kind kind;
    zn_addr address;
    size_t n_bytes;
    bool is_shared;
    struct zn_shared shared;
};

/* A range of the rank's swap space. */
struct extent {
    uint64_t offset;
    size_t n_bytes;
    zn_kind kind;
};

/* A part's gradient in the present step. */
enum gradient_state {
    GRADIENT_EMPTY,   /* nothing of it was written */
    GRADIENT_WRITING, /* being written in its place */
    GRADIENT_ADDING,  /* a further piece is being written beside it, to be added */
    GRADIENT_WRITTEN
};

/* The way of a unit's gradient from where it was written to where it stays. */
enum flight { FLIGHT_NONE, FLIGHT_REDUCING, FLIGHT_WRITING, FLIGHT_UPDATING };

/* An update of own elements: with gradients × grad_scale. */
struct update {
    zn_device *device; /* that computes it */
    zn_addr gradient;  /* of the one unit that is updated; 0: where gradients stay */
    double lr;
    float grad_scale;
    bool publishes; /* each unit goes to the others at once */
    bool backwards; /* from the last chunk to the first */
    bool delayed;   /* with the pending gradients, into `next` */
};

struct unit_state {
    struct zn_engine *engine; /* for the updater */
    struct update update;     /* under way in backward */
    bool open;      /* an episode of writing is under way */
    int episode;    /* its number in the pass; -1: it has none in this step */
    int n_closes;   /* gradients written in it */
    int n_learned, last_learned; /* recording: its episodes so far, and the last */
    bool reduced;   /* the own partition holds sums over ranks of this step */
    bool in_slot;   /* what is written now goes to the slot */
    bool in_again;  /* … to the place of second uses */
    bool arrived;   /* gradients that leave: the host has some of this step's */
    bool storing;   /* … and takes in more: `stored` will be set */
    int half, before;      /* … in this half of its buffers, which that unit used before, or -1 */
    bool adds, final;      /* … what it does with it */
    zn_event taken, stored; /* … it has it in memory; and where it stays */
    bool absent;    /* gradients on NVMe: no segment used it in this step, it is zero */
    zn_addr slot;   /* of the present episode */
    size_t slot_offset;
    int64_t slot_block;
    zn_addr prior; /* gradients on NVMe: what was summed before, to be added to; or 0 */
    int64_t prior_block;
    enum flight flight;
    int64_t since;      /* the moment at which it entered the present part of its way */
    zn_event done;      /* of its last reduction, gather of gradients, or write */
    zn_event prior_read;
    zn_event written; /* the device has written what is reduced or stored next */
    zn_event updated;   /* the rank's own new parameters are where they are read from */
    bool marked;        /* … or will be: nothing of the update is left to be issued */
    zn_event published; /* those of all ranks are there */
    bool publishing;
    bool update_absent; /* `absent`, of the gradients that the update under way, or the delayed one, takes */
};

/* The rank's own elements are updated in chunks: pieces of a unit's own range. */
struct chunk {
    int unit;
    int64_t first, n; /* among all own elements */
};

/* A buffer of the pipeline through which chunks on NVMe go. */
enum { PIPELINE_SLOTS = 4, PIPELINE_AHEAD = 2, CHUNK_ELEMENTS = 1 << 18 };
enum { READ_STATES, READ_GRAD, READ_PARAM, WRITE_STATES, WRITE_PARAM, N_TRANSFERS };

struct slot {
    zn_addr states, grad, param; /* 0 where that is not on NVMe */
    int chunk;                   /* whose states it holds, or -1 */
    int64_t visit;
    zn_event done[N_TRANSFERS];
    bool pending[N_TRANSFERS];
    zn_event computed; /* what was computed in it last */
    int marks;         /* the unit that is updated when what is under way in it has ended, or -1 */
};

/* An update of chunks first … first+n-1, or the other way round: `at` are done, `started` are being read. */
struct sweep {
    struct update update;
    int first, n, at, started;
    struct slot *ahead[PIPELINE_AHEAD + 1];
};

struct zn_engine {
    zn_device *device;
    zn_device *host; /* computes updates while the device computes backward; may be the same */
    zn_stream *updater; /* on a real machine: the thread of updates that run beside other work; else NULL */
    zn_comm *comm;
    zn_storage *storage; /* NULL when nothing is on NVMe, and while recording */
    int rank, n_ranks;
    const zn_module *module;
    struct zn_engine_options options;
    const zn_engine_plan *plan; /* NULL while recording */
    zn_units units;
    struct unit_state *unit_state;
    int *flying, n_flying; /* units whose gradients are under way, in the order of units */
    zn_tape *tape;
    zn_manifest manifest; /* recording: what was allocated */

    /* Model states in memory. `parameters` holds all units at stages 0–2, the own partitions at stage 3;
     * `persistent` whole units at stage 3. `gradients` all units at stages 0–1 (the sums end in the
     * own partition), else the own partitions. The others hold the first `cached` own elements (all of
     * them unless the optimizer is on NVMe); `master` only where parameters have 16 bits. `pending` is
     * like `gradients`: those of a delayed update. */
    struct region parameters, persistent, gradients, pending, master;
    struct region states[ZN_MAX_OPTIMIZER_STATES]; /* of the optimizer */
    struct region next; /* a delayed update's working parameters, of the own elements */
    struct region again; /* whole units used twice in a pass, summed over ranks once a step: the second use */
    int64_t *persistent_at, *again_at; /* by unit: its first element in `persistent` and `again`, or -1 */
    int64_t cached;

    /* Model states on NVMe. */
    struct extent swap_parameters, swap_next, swap_gradients, swap_pending, swap_states, swap_activations;
    uint64_t swap_bytes;

    struct chunk *chunks;
    int n_chunks;
    struct region pipeline;
    struct slot slots_of_pipeline[PIPELINE_SLOTS];
    int64_t visits;
    bool window_dirty; /* the first slot is being filled by hand (states.c) */
    unsigned char *chunk_written; /* by chunk: the swap has it */

    struct region ids, targets, position_ids, sums, squares, partial, arena, add, slots, gathered, fetched, staging;
    struct region logits, keys_and_values; /* extending a sequence (extend.c) */
    zn_cache cache;
    struct region saved, save_staging, save_landing; /* activation checkpoints (activations.c) */
    struct region landed; /* parameters on their way to a device apart (gathers.c) */
    struct region pack, unpack, widened, earlier; /* gradients on their way to the host (gradients.c) */
    int leaving[2]; /* by half of these: the unit that used it last, or -1 */
    int next_leave;
    struct region *constants;          /* by index */

    /* Recording: owned. The last two take the repeats of a pass that is recorded already. */
    zn_lifetimes *train, *evaluate, *slot_lifetimes, *repeat, *repeat_slots;
    zn_arena slot_arena;
    int64_t moment; /* units completed since the pass began */
    bool last_micro_batch;
    struct zn_episode *episodes; /* recording: owned; else the plan's */
    int n_episodes, episodes_capacity, next_episode;
    bool learning; /* recording: the pass that finds the episodes */

    size_t add_bytes; /* recording: the most that was open at once; else the planned size */
    size_t add_used;
    int add_open;
    zn_addr *add_address;          /* by part, of open gradients */
    unsigned char *gradient_state; /* by part; then, by part, in `again` */

    zn_trace train_trace, evaluate_trace; /* recording */
    zn_trace *recording_trace;            /* of the present pass, or NULL */
    const zn_trace *trace;                /* of the present pass, from the plan */
    int position, next_gather, next_fetch;
    bool turn; /* the next use is the first of backward */
    zn_event *gather_done, *fetch_done; /* by gather of the longest trace */
    zn_event *gather_free; /* … its buffer is: everything before its issue is computed */
    zn_event *fetch_free, *landed_done; /* … the buffer of the fetch is; and NVMe has brought it to the host */
    bool *gather_pending, *fetch_pending;
    int n_gather_events;

    zn_event save_done[2], load_done[2]; /* by half of save_staging */
    bool save_pending[2], load_pending[2];
    zn_event save_ready[2], load_free[2]; /* the device has filled, or emptied, the half */
    zn_event save_left[2], load_left[2];  /* it is in the host's memory, on its way to and from NVMe */
    int64_t loading[2]; /* which checkpoint each half brings, or -1 */
    int next_save;
    int64_t saved_elements, n_saved; /* of each checkpoint, and how many */

    int64_t n_updates;
    struct sweep sweep;     /* over all own elements, under way */
    int n_issued;           /* … issued for so many units */
    bool sweeping;          /* units may still wait for theirs */
    bool sweeping_delayed;  /* it fills `next`, in step with … */
    int64_t n_moments;      /* … the device, which came to a unit so often in this step */
    int last_used;
    int next_publish;       /* the first unit whose new parameters the ranks have not sent each other */
    zn_event before_sweep, swept;
    struct zn_moved moved; /* what was counted last */
    bool turns; /* the next sweep that may turn round does: what is still in the buffers of the pipeline is used first */
    bool has_pending; /* a delayed update */
    double pending_lr;
    float pending_scale;
    double lr;        /* of the present step, for updates in backward */
    float grad_scale;
};

/* ---- places.c: what a stage keeps ---- */

bool is_apart(const zn_engine *e);

/* Refuses by name what a device apart has no path for. */
zn_status check_device(const zn_engine *e);

/* Whether this rank holds whole units of the state, or its partitions only. */
bool keeps_parameters(const zn_engine *e);
bool keeps_gradients(const zn_engine *e);
bool keeps_optimizer(const zn_engine *e);

/* A segment's gradients, with their sums taken in place or elsewhere: see gradients.c. */
bool writes_slots(const zn_engine *e);

bool is_on_nvme(zn_tier tier);

/* A device with memory of its own: gradients leave it for the host in backward, and updated parameters return
 * (ZeRO-Offload), or come along the trace (ZeRO-Infinity). On the cpu device host and device are the same memory, and
 * nothing is copied. */
bool gradients_leave(const zn_engine *e);
bool parameters_return(const zn_engine *e);
bool parameters_come(const zn_engine *e);

/* Own partitions pass through a buffer of their own before they are gathered. */
bool fetches_parameters(const zn_engine *e);

/* Whether there is an fp32 master besides the working parameter. */
bool has_master(const zn_engine *e);

/* Parameters of an engine that does not train, in 16 bits: there is no fp32 value of them. */
bool keeps_only_working(const zn_engine *e);

/* The device that has the optimizer's states, and the one that has the gradients. */
zn_device *states_device(const zn_engine *e);
zn_device *gradients_device(const zn_engine *e);

size_t width_of_params(const zn_engine *e);
bool is_frozen(const zn_engine *e, const struct zn_part *part);

/* Own elements: those whose optimizer states this rank keeps, unit after unit. */
int64_t own_first(const zn_engine *e, int unit);
int64_t own_count(const zn_engine *e, int unit);
int64_t own_total(const zn_engine *e);

/* What of a part is own, from the part's first element. */
struct zn_range own_range(const zn_engine *e, const struct zn_part *part);

/* Where own element `at` of a unit (counted from its first) lies in a region of whole units, or of
 * partitions. */
zn_addr own_at(const zn_engine *e, const struct region *region, size_t width, bool whole, int unit, int64_t at);

/* The address of element `first` of a part in a region of whole units. */
zn_addr whole_at(const zn_engine *e, const struct region *region, size_t width, const struct zn_part *part,
                 int64_t first);

/* Pointers for storage and communicator; NULL on sim. */
void *pointer_of(zn_addr address);

/* The start of the own partition of a unit in either kind of region. */
zn_addr partition_at(const zn_engine *e, const struct region *region, size_t width, bool whole, int unit);

/* ---- memory.c, buffers.c ---- */

zn_status region_alloc(zn_engine *e, struct region *region, const char *name, zn_tier tier, zn_kind kind,
                       size_t n_bytes, bool is_shared);
void region_free(zn_engine *e, struct region *region);
zn_status extent_alloc(zn_engine *e, struct extent *extent, const char *name, zn_kind kind, size_t n_bytes);
void extent_free(zn_engine *e, struct extent *extent);

zn_status alloc_states(zn_engine *e);
zn_status alloc_constants(zn_engine *e);
zn_status alloc_buffers(zn_engine *e); /* and, where there is a plan, those that it measured */

/* What the recording measured. */
struct measured {
    size_t arena, add, slots, gathered, fetched, cache;
};
zn_status alloc_planned(zn_engine *e, const struct measured *measured);

/* What was not submitted ends no event: who waits for it hears of the failure instead of waiting for ever. */
static inline zn_status submitted(const zn_engine *e, zn_status status, zn_event *done)
{
    if (status != ZN_OK)
        zn_event_set(done, status, zn_error_message(), zn_clock_now(e->device->clock));
    return status;
}

static inline size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* ---- gradients.c, flights.c, gathers.c: the tape's hooks ---- */

extern const struct zn_param_hooks zn_engine_hooks;

zn_status gradients_start_pass(zn_engine *e);
zn_status gradients_end_pass(zn_engine *e);
zn_status gradients_finish(zn_engine *e); /* all reductions of the step are done */

/* Sums the squares of a unit's own partition into `squares`, part by part. */
zn_status squares_of_unit(zn_engine *e, int unit, zn_addr gradient);

zn_status gathers_init(zn_engine *e);
void gathers_fini(zn_engine *e);
zn_status gathers_start_pass(zn_engine *e, bool trains);
zn_status gathers_acquire(zn_engine *e, const struct zn_part *part, zn_addr *address);

/* Submits the gather of a unit's working parameters, where whole units are kept, for when it is updated. */
zn_status publish_unit(zn_engine *e, int unit);

/* Everyone has what was published: it may change again. */
zn_status gathers_wait_published(zn_engine *e);

/* ---- activations.c ---- */

size_t saved_bytes(const zn_engine *e); /* one checkpoint, padded */
zn_status activations_save(zn_engine *e, int64_t index, zn_addr from, int64_t n_elements);
zn_status activations_prefetch(zn_engine *e, int64_t index, int64_t n_elements);
zn_status activations_load(zn_engine *e, int64_t index, zn_addr to, int64_t n_elements);
zn_status activations_end_pass(zn_engine *e);

/* ---- update.c ---- */

bool needs_updater(const zn_engine *e);

/* Updates of all own elements go on beside the next forward. */
bool updates_beside(const zn_engine *e);

/* Makes the unit's `updated` pending: an update of it is about to be issued. */
void update_starts(zn_engine *e, int unit);

/* Along forward: issues updates ahead of this unit, and sends the new parameters of units up to the one after it, where
 * whole units are kept. */
zn_status updates_follow(zn_engine *e, int unit);

/* The unit's update is issued: who waits for it does not wait for ever. */
zn_status updates_reach(zn_engine *e, int unit);

/* What the device does from now on comes after all updates. */
zn_status updates_await(zn_engine *e);

/* Issues what is left of the updates, and blocks until the updater has nothing to do. */
zn_status updates_settle(zn_engine *e);

/* Ends a step with updates in backward. */
zn_status updates_end(zn_engine *e);

/* The delayed update goes on from the beginning of a step, its parameters are used from its end on. */
zn_status update_begin(zn_engine *e);
zn_status update_moment(zn_engine *e, int unit); /* its parameters are about to be used */
zn_status update_finish_delayed(zn_engine *e);

zn_status update_by_verdict(zn_engine *e, const struct zn_step *step, const struct zn_verdict *v);

/* ---- step.c ---- */

/* Starts a pass of the tape that trains, or one that does not. */
zn_status start_pass(zn_engine *e, bool trains);

enum { SUM_LOSS, SUM_EVALUATE, N_SUMS }; /* doubles in `sums` */

zn_addr sum_address(const zn_engine *e, int which);
zn_status sum_read(zn_engine *e, int which, double *value);
zn_status sum_clear(zn_engine *e, int which);

/* ---- verdict.c ---- */

zn_status verdict_reach(zn_engine *e, double loss_scale, struct zn_verdict *verdict);

/* ---- pipeline.c, window.c, sweep.c, optimizer.c ---- */

zn_status pipeline_init(zn_engine *e);
void pipeline_fini(zn_engine *e);

/* Everything written is on its way no more. */
zn_status pipeline_drain(zn_engine *e);

/* Brings a chunk of the swap into the first slot to be read or changed by hand, and back. */
zn_status window_open(zn_engine *e, int chunk, struct slot **slot);
void window_changed(zn_engine *e);
zn_status window_flush(zn_engine *e);

/* Brings the pending gradients of the window's chunk in, or puts them back. Blocks. */
zn_status window_pending(zn_engine *e, bool back);

size_t states_width(const zn_engine *e); /* bytes of an own element's master and optimizer states */
int chunk_of(const zn_engine *e, int64_t own);
bool chunk_needs_slot(const zn_engine *e, int chunk);

/* Where the parts of a chunk lie, from its first element on; 0 for what is not kept. */
struct operands {
    zn_addr param, grad, state[ZN_MAX_OPTIMIZER_STATES];
    zn_addr copy; /* the working value where it is apart from its master, or 0 */
};
struct operands operands_of(const zn_engine *e, int chunk, const struct slot *slot);

/* Working values from masters. */
zn_status narrow_values(zn_engine *e, zn_device *device, zn_addr to, zn_addr from, int64_t n);

/* What the slots have under way ends before what the device does next; units that waited for it are updated then. */
zn_status pipeline_mark(zn_engine *e, zn_device *device);

/* A sweep over all own elements, and its part up to a chunk, or to the end of a unit, from where it stands. */
struct sweep sweep_of_all(const zn_engine *e, const struct update *update);
zn_status sweep_to(zn_engine *e, struct sweep *sweep, int end);
zn_status sweep_through(zn_engine *e, struct sweep *sweep, int unit);

/* The update of one unit's own elements. */
zn_status optimizer_update_unit(zn_engine *e, int unit, const struct update *update);

/* One chunk, whose parts are at these places. */
zn_status update_chunk(zn_engine *e, int chunk, const struct operands *x, const struct update *update);

#endif
