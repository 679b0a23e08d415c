/* The engine from inside, for the files of this folder. */
#ifndef ZN_ZERO_ENGINE_PRIVATE_H
#define ZN_ZERO_ENGINE_PRIVATE_H

#include "zero/engine.h"

/* An update of own elements: with gradients × grad_scale. */
struct update {
    zn_device *device; /* that computes it */
    zn_addr gradient;  /* of the one unit that is updated; 0: where gradients stay */
    double lr;
    float grad_scale;
    bool publishes; /* each unit goes to the others at once */
    bool in_reverse; /* from the last chunk to the first */
    bool delayed;   /* with the pending gradients, into `next` */
};

/* What is under way of a unit from one pass or step to the next. */
struct unit_state {
    struct zn_engine *engine; /* for the thread of updates */
    struct update update;     /* under way in backward */
    zn_event updated;         /* the rank's own new parameters are where they are read from */
    bool marked;              /* … or will be: nothing of the update is left to be issued */
    int first_visit, end_visit; /* of an optimizer pass, that are its own */
    zn_event published;       /* those of all ranks are there */
    bool publishing;
    /* A delayed update whose parameters return in backward. */
    zn_event made, last_read; /* they are in `next`; the device has used the old ones for the last time in the step */
    struct zn_ticket returned; /* the return of the update before: `next` is free after it */
    bool is_returned;          /* that of this update is issued */
    bool update_absent; /* no segment wrote the gradients, on NVMe, that the update takes: they are zero */
    /* Gradient offload (offload.c). */
    zn_event *left;         /* the copy to the host has ended */
    zn_event prior_read;    /* what was stored before is in memory */
    zn_event taken, stored; /* the host has it in memory, and where it stays */
    bool storing;           /* `stored` will be set */
    bool adds, final;       /* to what the host has of this step; it is complete */
    int half;               /* of the buffers */
};

/* The rank's own elements are updated in chunks: pieces of a unit's own range. */
struct chunk {
    int unit;
    int64_t first, n;  /* among all own elements */
    uint64_t swapped; /* where its states are among those on NVMe */
};

/* A buffer of the pipeline through which chunks on NVMe go. */
enum { PIPELINE_AHEAD = 2 };
enum { READ_STATES, READ_GRAD, READ_PARAM, WRITE_STATES, WRITE_PARAM, N_TRANSFERS };

/* What of a chunk a visit needs: its parameters with their masters, the optimizer's states. */
enum { HAS_VALUES = 1, HAS_STATES = 2, HAS_ALL = HAS_VALUES | HAS_STATES };

struct slot {
    zn_addr states, grad, param; /* 0 where that is not on NVMe */
    int chunk;                   /* of which it holds some, or -1 */
    int held;                    /* … HAS_… */
    int64_t visit;
    zn_event done[N_TRANSFERS];
    bool pending[N_TRANSFERS];
    zn_event computed; /* what was computed in it last */
    int marks;         /* the unit that is updated when what is under way in it has ended, or -1 */
};

/* What an optimizer pass does to a chunk at once: all of it, or the steps before and after the work on whole matrices. */
typedef enum visit_kind { VISIT_UPDATE, VISIT_PREPARE, VISIT_APPLY } visit_kind;

struct visit {
    int chunk;
    visit_kind kind;
};

struct pipeline {
    struct chunk *chunks;
    int n_chunks, n_trained; /* those of frozen units come last, and are never updated */
    struct visit *visits;    /* of an optimizer pass over all trained chunks, in order */
    int n_visits;
    struct slot slots[ZN_PIPELINE_BUFFERS];
    int64_t n_visited;
    bool cursor_is_dirty;            /* the first slot is being filled by hand (states.c) */
    unsigned char *chunk_written; /* by chunk: the swap has it */
};

/* Visits first … first+n-1, or the other way round: `at` are done, `started` are being read. */
struct optimizer_pass {
    struct update update;
    int first, n, at, started;
    struct slot *ahead[PIPELINE_AHEAD + 1];
};

/* The updates of a step and of the one before (update.c). */
struct updates {
    int64_t n_made;
    struct optimizer_pass pass; /* over all own elements, under way */
    int n_issued;       /* … issued for so many units */
    bool is_running;      /* units may still wait for theirs */
    bool is_delayed_running; /* it fills `next`, in step with … */
    int64_t n_uses;     /* … the device, which came to a unit so often in this step */
    int last_used;
    int next_publish; /* the first unit whose new parameters the ranks have not sent each other */
    zn_event before_pass, pass_ended;
    bool reverses; /* the next optimizer pass runs in reverse where it may: the chunks still in the buffers are then used first */
    struct zn_pending pending; /* a delayed update */
    double lr;                 /* of the present step, for updates in backward */
    float grad_scale;
};

/* The program of a pass, along the tape (executor.c). */
struct executor {
    const struct zn_section *section;
    const struct zn_pass_trace *trace;
    int point;
    zn_event *ready, *done; /* by event of the program: what the device did before it, and its end */
    bool *pending;
    zn_addr activation; /* what the present point saves, loads or gives */
    zn_addr result;     /* where it takes what came of it */
    int64_t n_elements;
    int64_t pass; /* of the step, counted from 0 */
};

/* Work on whole matrices (matrices.c). */
struct matrices {
    int *worker;          /* by part: the rank that works on the matrix of which it is the first; -1: it is none's */
    zn_event ready, done; /* what the device did before a collective, and its end */
};

/* The host's side of gradient offload. */
struct offload_halves {
    int user[2]; /* the unit that used it last, or -1 */
    int next;
};

struct zn_engine {
    zn_device *device;
    zn_device *host;    /* computes updates while the device computes backward; may be the same */
    zn_stream *updater; /* on a real machine: the thread of updates that run beside other work; else NULL */
    zn_comm *world;  /* all ranks */
    zn_comm *comm;   /* those that partition the same parameters */
    zn_comm *tensor; /* those that hold the slices of parameters; NULL: they are whole */
    zn_storage *storage; /* NULL when nothing is on NVMe */
    zn_progress *progress; /* NULL: nobody asks */
    int rank, n_ranks; /* of `comm` */
    int slice;         /* rank in `tensor`, or 0 */
    const zn_module *module;
    struct zn_engine_options options;
    const zn_engine_plan *plan;
    const struct zn_placement *placement; /* the plan's */
    const zn_units *units;                /* the plan's */
    struct zn_buffer buffers[ZN_N_BUFFERS]; /* the plan's, where they lie */
    struct zn_bridge bridge;                /* by which communication reaches a device's memory */
    struct zn_shared shared[ZN_N_BUFFERS];  /* … as the communicator knows them, where other ranks read them */
    struct zn_buffer *tables;               /* of the model, by index */
    zn_tape *tape;
    zn_cache cache;
    struct unit_state *unit_state;
    struct executor executor;
    struct pipeline pipeline;
    struct updates updates;
    struct offload_halves offload;
    struct matrices matrices;
    struct zn_moved moved; /* what was counted last */
};

/* ---- places.c: where an element lies ---- */

/* The device that has the optimizer's states, and the one that has the summed gradients. */
zn_device *states_device(const zn_engine *e);
zn_device *gradients_device(const zn_engine *e);

/* The device that reaches the values of a unit where people write and read them. */
zn_device *values_device(const zn_engine *e, int unit);

size_t width_of_params(const zn_engine *e); /* of a trained unit's working value */
bool is_trained(const zn_engine *e, int unit);

/* Own elements of a unit, among all own elements. */
int64_t own_first(const zn_engine *e, int unit);
int64_t own_count(const zn_engine *e, int unit);

/* What of a part is own, from the part's first element. */
struct zn_range own_range(const zn_engine *e, const struct zn_part *part);

/* Where the working value of own element `at` of a unit (counted from its first) stays, in memory or in the swap. */
zn_addr own_values_at(const zn_engine *e, int unit, int64_t at);
uint64_t own_values_in_swap(const zn_engine *e, int unit, int64_t at);

/* Where own element `at` of a trained unit lies in a buffer of this form. */
zn_addr own_at(const zn_engine *e, zn_buffer_id buffer, size_t width, zn_form form, int unit, int64_t at);

/* Where a span begins in its buffer; in memory, for kernels and for others; and in the swap. */
uint64_t span_offset(const zn_engine *e, const struct zn_span *span);
zn_addr span_address(const zn_engine *e, const struct zn_span *span);
struct zn_extent span_extent(const zn_engine *e, const struct zn_span *span);
uint64_t span_in_swap(const zn_engine *e, const struct zn_span *span);

/* ---- states.c ---- */

/* Values of own elements from `own` on, and of elements that this rank brings, counted in what it holds of the parameter. */
zn_status read_own(zn_engine *e, zn_state state, int64_t own, float *values, int64_t n);
zn_status read_held(zn_engine *e, const zn_param *p, zn_state state, int64_t first, float *values, int64_t n_values);

/* ---- state_values.c ---- */

/* Whether the unit's elements have it, where there is such a state. */
bool unit_has_state(const zn_engine *e, int unit, zn_state state);

/* Values of a state between fp32 on the host and the type in which the device keeps them. */
zn_status values_write(zn_device *device, zn_addr to, zn_dtype type, const float *values, int64_t n_values);
zn_status values_read(zn_device *device, float *values, zn_addr from, zn_dtype type, int64_t n_values);

/* ---- states.c, quantise.c ---- */

/* fp32 values of a chunk for a while: ZN_CHUNK_ELEMENTS of them. */
zn_addr wide_values(const zn_engine *e);

/* Where the working values of a parameter that this rank brings are, to be changed by hand: those from `first` on, and of at most
 * *n_elements how many follow each other there. */
zn_status working_run(zn_engine *e, const zn_param *param, int64_t first, int64_t *n_elements, zn_addr *address);

/* Elements first … first+n of a parameter by its declaration, in fp32. */
zn_status fill_values(zn_device *device, const zn_param *param, uint64_t seed, int64_t first, int64_t n_elements, zn_addr to);

/* Sets the elements of a quantised parameter that this rank brings by its declaration. */
zn_status quantise_declared(zn_engine *e, const zn_param *param, uint64_t seed);

/* ---- memory.c ---- */

zn_status alloc_buffers(zn_engine *e);
void free_buffers(zn_engine *e);

/* ---- hooks.c ---- */

extern const struct zn_param_hooks zn_engine_hooks;

/* ---- executor.c ---- */

zn_status executor_init(zn_engine *e);
void executor_fini(zn_engine *e); /* waits for what is under way */

/* Goes to the first point of a section; runs what it has after its last. */
zn_status executor_start(zn_engine *e, zn_section_id id);
zn_status executor_end(zn_engine *e);

/* Instructions of the present section. */
zn_status executor_run_range(zn_engine *e, int first, int end);

/* Runs a section that has no points. */
zn_status executor_run(zn_engine *e, zn_section_id id);

/* ---- offload.c, squares.c ---- */

/* The gradient at `sum` leaves the device; `ready` is used for what the device did before, `left` ends with the copy. */
zn_status offload_gradient(zn_engine *e, const struct zn_instr *instr, zn_event *ready, zn_event *left);
zn_status offload_wait(zn_engine *e, int unit); /* the host has stored it */

/* Sums the squares of a unit's own partition, part by part. */
zn_status squares_of_unit(zn_engine *e, int unit, zn_addr gradient);

/* ---- publish.c ---- */

/* What the device does from now on comes after the update of the unit. */
zn_status updates_wait_unit(zn_engine *e, int unit);

/* Submits the gather of a unit's working parameters, where whole units are kept, for when it is updated. */
zn_status publish_unit(zn_engine *e, int unit);

/* The own part is updated, and those of the others have come; the same of all units. */
zn_status publish_wait(zn_engine *e, int unit);
zn_status publish_wait_all(zn_engine *e);

/* ---- update.c ---- */

bool needs_updater(const zn_engine *e);

/* Updates of all own elements go on beside the next forward. */
bool updates_beside(const zn_engine *e);

/* Makes the unit's `updated` pending: an update of it is about to be issued. */
void update_starts(zn_engine *e, int unit);

/* In backward: the update of a unit with the gradient goes on beside the computing; `ready` is used for what the device did
 * before, `done` ends with it. */
zn_status update_in_backward(zn_engine *e, int unit, zn_addr gradient, zn_event *ready, zn_event *done);

/* Along forward: updates of the first n units are issued; of units up to this one the ranks have sent each other their parts. */
zn_status updates_issue(zn_engine *e, int n);
zn_status updates_publish(zn_engine *e, int unit);

/* What the device does from now on comes after all updates. */
zn_status updates_wait(zn_engine *e);

/* Issues what is left of the updates, and blocks until the updater has nothing to do. */
zn_status updates_settle(zn_engine *e);

/* Ends a step with updates in backward. */
zn_status updates_end(zn_engine *e);

/* The delayed update goes on from the beginning of a step, its parameters are used from its end on. */
zn_status update_begin(zn_engine *e);
zn_status update_advance(zn_engine *e, int unit); /* its parameters are about to be used */
zn_status update_return(zn_engine *e, int unit); /* nothing of the step reads its parameters any more */
zn_status update_finish_delayed(zn_engine *e);

zn_status update_by_verdict(zn_engine *e, const struct zn_step *step, const struct zn_verdict *v);

/* ---- step.c ---- */

/* Starts a pass of the tape along a section. */
zn_status start_pass(zn_engine *e, zn_section_id id);

zn_addr sum_address(const zn_engine *e, int which);
/* The loss, and of pairs what is behind it; clears them. */
zn_status sums_take(zn_engine *e, int which, double values[ZN_N_PAIR_SUMS]);
zn_status sums_clear(zn_engine *e, int which);

/* ---- verdict.c ---- */

zn_status verdict_reach(zn_engine *e, double loss_scale, struct zn_verdict *verdict);

/* ---- pipeline.c, cursor.c, optimizer_pass.c, optimizer.c ---- */

zn_status pipeline_init(zn_engine *e);
void pipeline_fini(zn_engine *e);

/* Everything written is on its way no more. */
zn_status pipeline_drain(zn_engine *e);

/* Brings a chunk of the swap into the first slot to be read or changed by hand, and back. */
zn_status cursor_open(zn_engine *e, int chunk, struct slot **slot);
void cursor_changed(zn_engine *e);
zn_status cursor_flush(zn_engine *e);

/* Brings the pending gradients of the cursor's chunk in, or puts them back. Blocks. */
zn_status cursor_pending(zn_engine *e, bool back);

int chunk_of(const zn_engine *e, int64_t own);
bool chunk_has_master(const zn_engine *e, int chunk);
bool chunk_needs_slot(const zn_engine *e, int chunk);

/* Where the parts of a chunk lie, from its first element on; 0 for what is not kept. */
struct operands {
    zn_addr param, grad, state[ZN_MAX_OPTIMIZER_STATES], scales[ZN_MAX_OPTIMIZER_STATES];
    zn_addr copy; /* the working value where it is apart from its master, or 0 */
    zn_addr direction; /* where it is updated by matrix */
};
struct operands operands_of(const zn_engine *e, int chunk, const struct slot *slot);

/* Working values from masters. */
zn_status narrow_values(zn_device *device, zn_addr to, zn_dtype type, zn_addr from, int64_t n);

/* What the slots have under way ends before what the device does next; units that waited for it are updated then. */
zn_status pipeline_mark(zn_engine *e, zn_device *device);

/* An optimizer pass over all own elements, and its part up to a chunk, or to the end of a unit, from where it stands. */
struct optimizer_pass optimizer_pass_over_all(const zn_engine *e, const struct update *update);
zn_status optimizer_pass_to(zn_engine *e, struct optimizer_pass *pass, int end);
zn_status optimizer_pass_through(zn_engine *e, struct optimizer_pass *pass, int unit);

/* The update of one unit's own elements. */
zn_status optimizer_update_unit(zn_engine *e, int unit, const struct update *update);

/* One visit to a chunk, whose parts are at these places. */
zn_status update_chunk(zn_engine *e, const struct visit *visit, const struct operands *x, const struct update *update);

/* ---- matrices.c ---- */

zn_status matrices_init(zn_engine *e);
void matrices_fini(zn_engine *e);

/* Where the direction of own element `at` of a unit that is updated by matrix is. */
zn_addr direction_at(const zn_engine *e, int unit, int64_t at);

/* Whether the visit is the first after the work on whole matrices, which then comes before it. */
bool begins_applying(const zn_engine *e, const struct visit *visit);

/* Transforms the directions of the group's matrices, the unit being its first. Collective; blocks where there are several ranks. */
zn_status transform_matrices(zn_engine *e, int unit, zn_device *device);

/* Whether updates have collectives of their own: they run on the engine's thread, since its requests and theirs have one order. */
bool updates_exchange(const zn_engine *e);

#endif
