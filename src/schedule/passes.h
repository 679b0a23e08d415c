/* The passes: each turns the trace and the placement into instructions, for one idea of the papers. All write one section at a
 * time, point after point, in the order in which zn_compile asks them. */
#ifndef ZN_SCHEDULE_PASSES_H
#define ZN_SCHEDULE_PASSES_H

#include "memory/arena.h"
#include "schedule/buckets.h"
#include "schedule/gathers.h"
#include "schedule/placement.h"
#include "schedule/program.h"

/* What all passes read. */
struct zn_ground {
    const struct zn_placement *placement;
    const zn_units *units;
    const zn_trace *trace;
    int64_t *persistent_at; /* by unit: its first byte in ZN_BUFFER_PERSISTENT, or -1 */
};

/* ---- pass_gathers.c: parameters along the trace (ZeRO stage 3, ZeRO-Infinity) ---- */

struct gather_pass {
    const struct zn_ground *ground;
    const zn_gathers *plan;
    struct zn_writer *writer;
    int position, next_gather, next_fetch;
    bool turns; /* the next use is the first of backward */
    int *gathered, *fetched; /* by gather, for each of up to two units: its instruction, and that of its fetch */
    bool *is_waited_for;     /* by gather */
    int issued;              /* updates of units up to here are asked for */
};

/* The uses of units, for zn_gathers_plan. */
zn_status gathers_of_trace(const struct zn_ground *ground, const struct zn_pass_trace *pass, zn_gathers *gathers);

zn_status gather_pass_start(struct gather_pass *p, const struct zn_ground *ground, const zn_gathers *plan, struct zn_writer *writer);
void gather_pass_fini(struct gather_pass *p);
zn_status gather_pass_acquire(struct gather_pass *p, int part);
void gather_pass_forward_end(struct gather_pass *p, int segment);

/* ---- pass_updates.c: the updates of the step before ---- */

struct update_pass {
    const struct zn_ground *ground;
    struct zn_writer *writer;
    int furthest, last; /* units that were used so far */
    bool *is_used;      /* by unit */
    bool is_awaited;    /* all updates are */
    int *last_use;      /* by unit: the point at which it is acquired last; NULL: none is returned in this section */
    int next_return;
};

/* The end of those units from which on `ahead` further ones that are trained follow the unit: updates are issued so far. */
int updates_ahead(const struct zn_ground *ground, int unit, int ahead);

/* is_last: after this section nothing of the step reads parameters. */
zn_status update_pass_start(struct update_pass *p, const struct zn_ground *ground, struct zn_writer *writer, bool is_last);
void update_pass_fini(struct update_pass *p);

/* The unit is about to be used; its values may be read. */
void update_pass_follow(struct update_pass *p, int unit);
void update_pass_use(struct update_pass *p, int unit);

/* Gradients are about to be written: updates may still read those of the step before. */
void update_pass_backward(struct update_pass *p);

/* A segment's backward has ended. */
void update_pass_backward_end(struct update_pass *p);

/* ---- pass_checkpoints.c: activation checkpoints (ZeRO-R, ZeRO-Infinity) ---- */

struct checkpoint_pass {
    const struct zn_ground *ground;
    struct zn_writer *writer;
    int next_save;
    int stored[2], loaded[2]; /* by half of the buffers: the instruction under way in it, or -1 */
    int loading[2];           /* which checkpoint each half brings, or -1 */
};

void checkpoint_pass_start(struct checkpoint_pass *p, const struct zn_ground *ground, struct zn_writer *writer);
void checkpoint_pass_save(struct checkpoint_pass *p, int index);
void checkpoint_pass_prefetch(struct checkpoint_pass *p, int index);
void checkpoint_pass_load(struct checkpoint_pass *p, int index);
void checkpoint_pass_end(struct checkpoint_pass *p);

/* Bytes of one checkpoint, padded. */
size_t checkpoint_bytes(const struct zn_ground *ground);

/* ---- pass_slices.c: what ranks of a tensor-parallel group exchange along the trace ---- */

void slice_pass_sum(const struct zn_ground *ground, struct zn_writer *writer, int64_t n_elements);
void slice_pass_gather(const struct zn_ground *ground, struct zn_writer *writer, int64_t n_elements);

/* Bytes of the buffer that the largest exchange goes through. */
size_t exchange_bytes(const zn_trace *trace);

/* ---- pass_reductions.c, pass_offload.c: gradients (ZeRO stages 1 and 2, ZeRO-R's buffers; ZeRO-Offload) ---- */

struct unit_gradient;

struct reduction_pass {
    const struct zn_ground *ground;
    const struct buckets *buckets;
    struct zn_writer *writer;
    struct update_pass *updates; /* NULL in the finish */
    struct unit_gradient *units;
    unsigned char *part_state; /* by part; then, by part, in ZN_BUFFER_TIED */
    uint64_t *add_offset;      /* by part, of open gradients that are added */
    int64_t *tied_at;          /* by unit: its first element in ZN_BUFFER_TIED, or -1 */
    int64_t tied_elements;
    int *under_way, n_under_way; /* units whose gradients are, in the order of units */
    zn_arena slots;
    int64_t n_completed; /* units completed since the pass began */
    bool is_last_pass;
    int next_bucket;
    size_t add_used, add_bytes;
    int n_add_open;
};

/* The state goes through the passes of a step: start_pass for each, then finish. */
zn_status reduction_pass_init(struct reduction_pass *p, const struct zn_ground *ground, const struct buckets *buckets);
void reduction_pass_fini(struct reduction_pass *p);
void reduction_pass_start(struct reduction_pass *p, struct zn_writer *writer, struct update_pass *updates, zn_lifetimes *slots,
                          bool records, bool is_last_pass);
zn_status reduction_pass_open(struct reduction_pass *p, int part);
zn_status reduction_pass_close(struct reduction_pass *p, int part);
void reduction_pass_backward_end(struct reduction_pass *p);
void reduction_pass_end(struct reduction_pass *p);
void reduction_pass_finish(struct reduction_pass *p, struct zn_writer *writer);

#endif
