/* Placement: what a rank keeps of each model state, and in which tier. It is resolved once from the settings; nothing after it asks
 * for a stage or an offload flag. */
#ifndef ZN_SCHEDULE_PLACEMENT_H
#define ZN_SCHEDULE_PLACEMENT_H

#include "schedule/buffer.h"
#include "schedule/options.h"
#include "schedule/unit.h"

typedef enum zn_form {
    ZN_ABSENT,
    ZN_PARTITION, /* this rank's part of each unit */
    ZN_WHOLE
} zn_form;

/* Where a state stays between its uses. */
struct zn_home {
    zn_form form;
    zn_tier tier;
    bool on_host; /* the host's device reads and writes it */
};

/* The optimizer pass updates own elements in chunks; those on NVMe pass through so many buffers. */
enum { ZN_CHUNK_ELEMENTS = 1 << 18, ZN_PIPELINE_BUFFERS = 4 };

struct zn_placement {
    int n_ranks;
    zn_dtype type;              /* of working values of trained units, and of their gradients between ranks */
    zn_dtype activation_type;   /* of what lies between segments */
    zn_dtype frozen_type;       /* … and of the others */
    zn_dtype quantised_type;    /* … but for those that are quantised */
    struct zn_home parameters;  /* working values */
    struct zn_home gradients;   /* sums over ranks; whole: also where they are written */
    struct zn_home states;      /* masters and optimizer states: the own elements; whole: every rank updates everything */
    struct zn_home checkpoints; /* activations between segments; absent: the arena keeps them */
    bool trains, is_discrete;
    bool has_master;            /* an fp32 value besides the working one */
    bool is_delayed;            /* updates may be a step late: pending gradients, next parameters */
    bool gathers_parameters;    /* not kept whole: they come along the trace */
    bool fetches_parameters;    /* … and own partitions through a buffer of their own before that */
    bool copies_parameters;     /* … from the host's memory to a discrete device */
    bool returns_parameters;    /* updated on the host, kept on a discrete device */
    bool offloads_gradients;    /* they leave a discrete device in backward */
    bool reduces_gradients;     /* a gradient is not yet its sum: several ranks, or rounded to 16 bits */
    bool has_slots;             /* each bucket has a place of its own, from where it is reduced */
    bool accumulates;           /* micro-batches one after the other add to the gradients */
    bool reduces_every;
    bool updates_in_backward;
    bool updates_beside;        /* all updates run on the host's device beside the next forward */
    const zn_optimizer *optimizer; /* NULL: nothing is trained */
    size_t persist_bytes;       /* units up to this size stay gathered */
    size_t host_cache;
};

/* Refuses by name what has no path. */
zn_status zn_placement_resolve(const struct zn_engine_options *options, int n_ranks, struct zn_placement *placement);

/* Whether updates run beside other work, so that the host needs a device of its own for them. */
bool zn_placement_wants_host(const struct zn_engine_options *options);

static inline bool zn_is_swapped(const struct zn_home *home)
{
    return home->tier == ZN_TIER_NVME && home->form != ZN_ABSENT;
}

/* Working parameters that are not where the update is computed pass through the optimizer's buffers; in fp32 they return as their
 * masters. */
static inline bool zn_passes_parameters(const struct zn_placement *p)
{
    return zn_is_swapped(&p->parameters) || (p->returns_parameters && p->type != ZN_F32);
}

/* Bytes of a chunk's working values where they pass through the buffers, at most; 0: they do not. */
size_t zn_passed_bytes(const struct zn_placement *p, const zn_units *units);

/* Updates leave parameters that are not yet where they are read from. */
static inline bool zn_may_have_updates_pending(const struct zn_placement *p)
{
    return p->updates_beside || p->updates_in_backward || p->is_delayed;
}

/* A delayed update's new parameters return to a discrete device while backward goes on, each unit's after its last use in the step.
 * Other ranks may still read a rank's own ones then; one rank knows that nobody does. */
static inline bool zn_returns_in_backward(const struct zn_placement *p)
{
    return p->is_delayed && p->returns_parameters && p->n_ranks == 1;
}

/* Ranks that keep whole units send each other what they have updated. */
static inline bool zn_publishes_updates(const struct zn_placement *p)
{
    return p->n_ranks > 1 && p->states.form != ZN_WHOLE;
}

/* Own elements, unit after unit: those whose optimizer states this rank keeps, then those of frozen units. The total is without these. */
int64_t zn_own_first(const struct zn_placement *p, const struct zn_unit *unit);
int64_t zn_own_count(const struct zn_placement *p, const struct zn_unit *unit);
int64_t zn_own_total(const struct zn_placement *p, const zn_units *units);

/* Where the unit's own elements begin among those that have a state of the optimizer, and how many of the first `end` own elements
 * of all units have it. */
int64_t zn_own_first_of_state(const struct zn_placement *p, const struct zn_unit *unit, const struct zn_optimizer_state *state);
int64_t zn_own_with_state(const struct zn_placement *p, const zn_units *units, const struct zn_optimizer_state *state, int64_t end);

/* Bytes of the masters and optimizer states of so many own elements of a unit: a multiple of ZN_PART_ALIGNMENT. */
size_t zn_state_bytes(const struct zn_placement *p, const struct zn_unit *unit, int64_t n_elements);

/* The same of a chunk where it is in the swap, the most of any chunk, and of all own elements from `first` on, which begins a chunk. */
size_t zn_swapped_bytes(const struct zn_placement *p, const struct zn_unit *unit, int64_t n_elements);
size_t zn_swapped_most(const struct zn_placement *p, const zn_units *units);
size_t zn_swapped_total(const struct zn_placement *p, const zn_units *units, int64_t first);

/* Own elements whose optimizer states stay in memory: all of them, or the first chunks that the host cache has room for. */
int64_t zn_own_cached(const struct zn_placement *p, const zn_units *units);

/* All of a trained unit in a buffer of whole units, and the own partition of it in a buffer of either form. */
struct zn_span zn_span_of_unit(const struct zn_unit *unit, zn_buffer_id buffer, size_t width);
struct zn_span zn_span_of_partition(const struct zn_placement *p, const struct zn_unit *unit, zn_buffer_id buffer,
                                    zn_form form, size_t width);

/* Where the working values of a unit are kept between their uses. */
zn_buffer_id zn_buffer_of_values(const struct zn_unit *unit);

/* Where the working values of any unit stay: those of the whole unit, where it is kept whole, and the own partition. */
struct zn_span zn_span_of_values(const zn_units *units, const struct zn_unit *unit);
struct zn_span zn_span_of_own_values(const struct zn_placement *p, const zn_units *units, const struct zn_unit *unit);

#endif
