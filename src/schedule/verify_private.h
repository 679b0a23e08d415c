/* What the files of the verifier share: verify.c, which sums up, verify_walk.c, which follows the program, and verify_instr.c. */
#ifndef ZN_SCHEDULE_VERIFY_PRIVATE_H
#define ZN_SCHEDULE_VERIFY_PRIVATE_H

#include "schedule/order.h"
#include "schedule/verify.h"

struct verifier {
    const zn_engine_plan *plan;
    struct order order;
    zn_section_id id;
    const struct zn_section *section;
    const struct zn_pass_trace *trace;
    int point, instr;
    bool *is_event_used;
    int *task_of;                              /* by instruction of the section, or -1 */
    int *update_of, *offload_of, *published_by; /* by unit: the task, or -1 */
    int n_issued, n_published;                 /* units whose updates, and gathers after them, are asked for */
    bool are_updates_ended;                    /* those in backward: none is issued after the word that all are */
    struct zn_span *open;                      /* by part: where its gradient is being written */
    struct zn_span use;                        /* what operators read of the unit acquired last … */
    struct content used;                       /* … which is this; nobody's: none is in use */
    int *n_gathers, *n_reductions;             /* by unit, in the section */
    int *n_squares;                            /* … in the step */
    int *n_uses, *n_buckets, *segment_of;      /* by unit, in the trace; and the last segment that wrote a bucket */
};

static inline const struct zn_placement *placement_of(const struct verifier *v)
{
    return &v->plan->placement;
}

static inline struct content unit_content(int unit, const struct zn_span *span)
{
    return (struct content){unit, (int64_t)span->offset};
}

/* ---- verify_instr.c ---- */

/* An instruction by itself. `is_event_used` is by event. */
zn_status verify_instr(const zn_engine_plan *plan, const struct zn_section *section, int index, bool *is_event_used);

/* ---- verify_updates.c ---- */

/* Adds the spans of what units keep between their uses. */
zn_status verify_add_homes(struct verifier *v);

/* Begins a step, or an evaluation: with what the step before left. */
zn_status verify_start(struct verifier *v);

/* The task writes the unit's new parameters, or takes the squares of its gradient; ranks gather what each has updated. */
zn_status verify_update(struct verifier *v, int unit, int task);
zn_status verify_return(struct verifier *v, int unit); /* after what was computed so far */
zn_status verify_squares(struct verifier *v, int unit, int task);
zn_status verify_publish(struct verifier *v, int unit);

/* Whether who waits for the unit's update, or for the gather after it, waits for something that was asked for. */
zn_status verify_is_issued(const struct verifier *v, int unit);
zn_status verify_is_published(const struct verifier *v, int unit);

/* After the finish. */
zn_status verify_finished(const struct verifier *v);

/* ---- verify_walk.c ---- */

/* The section's points and instructions, one after the other. */
zn_status verify_section(struct verifier *v);

#endif
