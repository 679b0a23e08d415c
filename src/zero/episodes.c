/* An episode: what a segment writes into one unit. Where it goes: in its place, to a slot, or to the place of second uses. */
#include "zero/gradients.h"

#include <stdlib.h>

#include "base/size.h"

bool is_final(const zn_engine *e, const struct unit_state *us)
{
    return e->last_micro_batch && (us->episode < 0 || e->episodes[us->episode].is_last);
}

static bool is_first(const zn_engine *e, const struct unit_state *us)
{
    return us->episode < 0 || e->episodes[us->episode].is_first;
}

/* Micro-batches come one after the other and add to what is there. */
static bool accumulates(const zn_engine *e)
{
    return e->options.accumulate > 1 && !e->options.vertical;
}

static zn_status open_slot(zn_engine *e, int unit)
{
    const struct zn_unit *u = &e->units.units[unit];
    struct unit_state *us = &e->unit_state[unit];
    ZN_TRY(zn_arena_take(&e->slot_arena, (size_t)u->n_elements * sizeof(float), &us->slot_block,
                         &us->slot_offset));
    us->slot = (e->plan ? e->slots.address : e->ids.address) + us->slot_offset;
    us->prior = 0;
    for (int i = 0; i < u->n_parts; i++)
        e->gradient_state[u->first_part + i] = GRADIENT_EMPTY;
    if (!gradients_on_nvme(e) || gradients_leave(e) || (is_first(e, us) && !accumulates(e)))
        return ZN_OK;
    size_t offset, n_bytes = (size_t)u->partition * sizeof(float);
    ZN_TRY(zn_arena_take(&e->slot_arena, n_bytes, &us->prior_block, &offset));
    if (!us->reduced)
        return ZN_OK;
    us->prior = (e->plan ? e->slots.address : e->ids.address) + offset;
    if (!e->storage)
        return ZN_OK;
    ZN_TRY(zn_device_record(e->device, &us->written));
    zn_event_reset(&us->prior_read);
    return zn_storage_read(e->storage, swap_at(e, unit), pointer_of(us->prior), n_bytes, &us->written, &us->prior_read);
}

static zn_status learn_episode(zn_engine *e, int unit)
{
    if (e->n_episodes == e->episodes_capacity) {
        int capacity = e->episodes_capacity ? 2 * e->episodes_capacity : 64;
        struct zn_episode *grown = realloc(e->episodes, (size_t)capacity * sizeof *grown);
        if (!grown)
            return zn_fail(ZN_ERR_MEMORY, "no memory for the plan of gradients");
        e->episodes = grown;
        e->episodes_capacity = capacity;
    }
    struct unit_state *us = &e->unit_state[unit];
    if (us->n_learned > 0)
        e->episodes[us->last_learned].is_last = false;
    us->last_learned = e->n_episodes;
    e->episodes[e->n_episodes++] = (struct zn_episode){.unit = unit, .is_first = us->n_learned++ == 0, .is_last = true};
    return ZN_OK;
}

/* Where sums are taken once a step, the second use of a unit in a pass has a place of its own, so that what is
 * added to what does not depend on the schedule. */
zn_status start_episode(zn_engine *e, int unit)
{
    struct unit_state *us = &e->unit_state[unit];
    ZN_TRY(updates_await(e)); /* they may still read what is written now */
    ZN_TRY(unit_land(e, unit));
    us->open = true;
    us->absent = false;
    us->n_closes = 0;
    us->episode = e->next_episode++;
    if (e->learning) {
        us->slot = e->ids.address; /* on sim any address serves */
        ZN_TRY(learn_episode(e, unit));
    }
    if (us->episode >= e->n_episodes || e->episodes[us->episode].unit != unit)
        return zn_fail(ZN_ERR_INTERNAL, "the program left its plan at the gradients of unit %d", unit);
    bool second = !writes_slots(e) && !is_first(e, us) && !e->options.reduce_every;
    us->in_again = second && accumulates(e) && !e->learning;
    us->in_slot = !us->in_again && (writes_slots(e) || second);
    return us->in_slot && !e->learning ? open_slot(e, unit) : ZN_OK;
}

/* The place of a part's gradient in the present episode. */
zn_addr place_of(const zn_engine *e, const struct zn_part *part)
{
    const struct unit_state *us = &e->unit_state[part->unit];
    zn_addr offset = (zn_addr)(part->place - e->units.units[part->unit].first) * sizeof(float);
    if (us->in_again)
        return e->plan ? e->again.address + (zn_addr)e->again_at[part->unit] * sizeof(float) + offset : e->ids.address;
    return us->in_slot ? us->slot + offset : whole_at(e, &e->gradients, sizeof(float), part, 0);
}

/* An operator may have several gradients open at once (weight and bias): they lie side by side. */
zn_status open_beside(zn_engine *e, const struct zn_part *part, zn_addr *address)
{
    size_t begin = e->add_used;
    e->add_used += zn_round_up((size_t)part->n_elements * sizeof(float), ZN_BLOCK_ALIGNMENT);
    if (!e->plan && e->add_used > e->add_bytes)
        e->add_bytes = e->add_used;
    if (e->add_used > e->add_bytes)
        return zn_fail(ZN_ERR_INTERNAL, "gradients to add need %zu bytes, planned are %zu", e->add_used, e->add_bytes);
    e->add_open++;
    *address = (e->plan ? e->add.address : e->ids.address) + begin;
    e->add_address[part - e->units.parts] = *address;
    return ZN_OK;
}
