/* What the files about gradients share: pass_reductions.c, which says where they are written and when they are summed, and
 * pass_offload.c, which takes the sums to where they stay. */
#ifndef ZN_SCHEDULE_GRADIENTS_H
#define ZN_SCHEDULE_GRADIENTS_H

#include "schedule/passes.h"

/* The way of a unit's gradient from where it was written to where it stays. */
enum progress { IDLE, REDUCING, STORING, UPDATING };

struct unit_gradient {
    bool is_open;     /* a bucket is being written */
    int bucket;       /* its number in the pass; -1: the unit has none in this step */
    int n_closes;     /* gradients written in it */
    bool is_reduced;  /* the own partition holds sums over ranks of this step */
    bool in_slot;     /* what is written now goes to the slot … */
    bool in_tied;     /* … or to the place of second uses */
    bool has_arrived; /* the host has some of this step's */
    uint64_t slot;    /* offset of the slot */
    int64_t slot_block;
    bool has_prior; /* gradients on NVMe: what was summed before is read and added to */
    uint64_t prior;
    int64_t prior_block;
    int prior_read; /* its instruction */
    enum progress progress;
    int64_t since; /* how many units were complete when it entered the present part of its way */
    int done;      /* the instruction whose end it waits for, or -1 */
};

static inline const struct zn_placement *placement_of(const struct reduction_pass *p)
{
    return p->ground->placement;
}

static inline const struct zn_unit *gradient_unit(const struct reduction_pass *p, int unit)
{
    return &p->ground->units->units[unit];
}

static inline bool gradients_on_nvme(const struct reduction_pass *p)
{
    return zn_is_swapped(&placement_of(p)->gradients);
}

/* ---- gradient_spans.c ---- */

uint64_t gradient_bytes(const struct reduction_pass *p, int unit);

/* The whole of what is written now. */
struct zn_span gradient_written(const struct reduction_pass *p, int unit);

/* Where sums stay: the own partition, in memory or in the swap. */
struct zn_span gradient_home(const struct reduction_pass *p, int unit);

/* Where the sum over ranks ends. */
struct zn_span gradient_sum(const struct reduction_pass *p, int unit);

struct zn_span gradient_squares(const struct reduction_pass *p, int unit);

int gradient_emit(struct reduction_pass *p, zn_op op, int unit, struct zn_span to, struct zn_span from, int flags);
void gradient_zero(struct reduction_pass *p, int unit, struct zn_span span, int flags);
void gradient_take_squares(struct reduction_pass *p, int unit, struct zn_span sum);

/* Flags of what the device that has the sums computes with them. */
int gradient_on_home(const struct reduction_pass *p);

/* ---- pass_offload.c ---- */

/* Its part of the way begins: `done` is the instruction whose end it waits for, or -1. */
void gradient_enter(struct reduction_pass *p, int unit, enum progress progress, int done);

/* Enters the unit among those under way: it is being reduced. */
void gradient_depart(struct reduction_pass *p, int unit, int done);

/* Emits the unit's update in backward. */
void gradient_update(struct reduction_pass *p, int unit, struct zn_span gradient);

/* A unit is complete: what entered its present part before goes on. */
void gradients_advance(struct reduction_pass *p);

/* The unit's gradient is where it stays. */
void gradient_settle(struct reduction_pass *p, int unit);

#endif
