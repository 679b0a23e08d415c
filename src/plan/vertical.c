/* The rule of `--schedule auto`. In the vertical schedule a parameter is read or gathered once a step each way, and not
 * once a micro-batch; the checkpoints and boundary gradients of all micro-batches are held for it. */
#include "plan/vertical.h"

/* Whether there is anything to fetch more than once. */
static bool saves(const struct zn_engine_options *o, int n_ranks)
{
    return o->accumulate > 1 && (o->offload.parameters != ZN_TIER_DEVICE || (o->stage == 3 && n_ranks > 1));
}

/* Horizontally, stages 2 and 3 cannot reduce once a step. */
static bool must(const struct zn_choices *c, const struct zn_engine_options *o)
{
    return c->reduce_every == 0 && o->stage >= 2;
}

static bool may(const struct zn_choices *c)
{
    return c->keep <= 0 && c->reduce_every != 1;
}

struct zn_schedules zn_schedules_to_try(const struct zn_choices *c, const struct zn_engine_options *o, int n_ranks)
{
    if (!c->any_schedule)
        return (struct zn_schedules){1, {o->vertical}};
    if (may(c) && must(c, o))
        return (struct zn_schedules){1, {true}};
    if (may(c) && saves(o, n_ranks))
        return (struct zn_schedules){2, {true, false}};
    return (struct zn_schedules){1, {false}};
}

const char *zn_schedule_reason(const struct zn_choices *c, const struct zn_engine_options *o, int n_ranks)
{
    if (!c->any_schedule)
        return NULL;
    if (o->vertical && !saves(o, n_ranks))
        return "--reduce last needs it at this stage";
    if (o->vertical)
        return o->offload.parameters != ZN_TIER_DEVICE ? "parameters are read once a step, not once a micro-batch"
                                                       : "parameters are gathered once a step, not once a micro-batch";
    if (o->accumulate == 1)
        return "a step is one micro-batch";
    if (!saves(o, n_ranks))
        return "parameters are neither read nor gathered";
    if (c->keep > 0)
        return c->keep == ZN_KEEP_ALL ? "vertical does not go with --recompute off" : "vertical does not go with --recompute keep";
    return c->reduce_every == 1 ? "vertical does not go with --reduce every" : "vertical does not fit the limit";
}
