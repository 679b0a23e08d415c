/* Where gradients go: written in place or into a slot, summed over ranks into the own partition.
 *
 * Where whole gradients are kept (stages 0 and 1) and summed over ranks once a step, a parameter's
 * gradient is written in its place, and added to by later micro-batches; in the last micro-batch
 * each unit is reduced when the segment that wrote it has ended. Else, and for a unit that is
 * reduced already (the second use of a tied parameter), what a segment writes goes to a slot of
 * the unit's size and is reduced from there. Slots are places in one region, planned by their
 * lifetimes: from the segment that writes to the end of the next, so that a reduction has that
 * long before anyone waits for it (ZeRO's C_B). */
#include "base/size.h"
#include "zero/engine_private.h"

/* With one rank in fp32 a gradient is its own sum. */
static bool needs_reduction(const zn_engine *e)
{
    return e->n_ranks > 1 || e->options.type != ZN_F32;
}

static bool writes_slots(const zn_engine *e)
{
    return needs_reduction(e) && (!keeps_gradients(e) || e->options.reduce_every);
}

zn_status unit_wait(zn_engine *e, int unit)
{
    struct unit_state *us = &e->unit_state[unit];
    if (!us->pending)
        return ZN_OK;
    us->pending = false;
    return zn_event_wait(&us->done, e->device->clock);
}

/* A slot lies where those of the segment before the last one lay: they must be done. */
static zn_status wait_old_slots(zn_engine *e)
{
    for (int u = 0; u < e->units.n_units; u++) {
        if (e->unit_state[u].pending && e->unit_state[u].pending_moment < e->moment - 1)
            ZN_TRY(unit_wait(e, u));
    }
    return ZN_OK;
}

static zn_status open_slot(zn_engine *e, int unit)
{
    const struct zn_unit *u = &e->units.units[unit];
    struct unit_state *us = &e->unit_state[unit];
    ZN_TRY(wait_old_slots(e));
    ZN_TRY(zn_arena_take(&e->slot_arena, (size_t)u->n_elements * sizeof(float), &us->slot_block,
                         &us->slot_offset));
    us->slot = (e->plan ? e->slots.address : e->gradients.address) + us->slot_offset;
    for (int i = 0; i < u->n_params; i++)
        e->gradient_state[u->first_param + i] = GRADIENT_EMPTY;
    return ZN_OK;
}

/* The place of a parameter's gradient in the present segment. */
static zn_addr place_of(const zn_engine *e, const zn_param *p)
{
    int unit = e->units.unit_of[p->index];
    const struct unit_state *us = &e->unit_state[unit];
    if (!us->in_slot)
        return whole_at(e, &e->gradients, sizeof(float), p, 0);
    return us->slot + (zn_addr)(e->units.place_of[p->index] - e->units.units[unit].first) * sizeof(float);
}

/* An operator may have several gradients open at once (weight and bias): they lie side by side. */
static zn_status open_beside(zn_engine *e, const zn_param *p, zn_addr *address)
{
    size_t begin = e->add_used;
    e->add_used += zn_round_up((size_t)p->n_elements * sizeof(float), ZN_BLOCK_ALIGNMENT);
    e->add_open++;
    if (e->add_used > e->add_bytes) {
        if (e->plan)
            return zn_fail(ZN_ERR_INTERNAL, "the gradient of '%s' does not fit the planned buffer", p->name);
        e->add_bytes = e->add_used;
    }
    *address = (e->plan ? e->add.address : e->gradients.address) + begin;
    e->add_address[p->index] = *address;
    return ZN_OK;
}

static zn_status open_gradient(void *self, const zn_param *p, zn_addr *address)
{
    zn_engine *e = self;
    int unit = e->units.unit_of[p->index];
    struct unit_state *us = &e->unit_state[unit];
    *address = 0;
    if (is_frozen(e, p))
        return ZN_OK;
    if (!us->touched) {
        us->touched = true;
        us->in_slot = writes_slots(e) || us->reduced;
        if (us->in_slot)
            ZN_TRY(open_slot(e, unit));
    }
    unsigned char *state = &e->gradient_state[p->index];
    if (*state == GRADIENT_EMPTY) {
        *state = GRADIENT_WRITING;
        *address = place_of(e, p);
        return ZN_OK;
    }
    *state = GRADIENT_ADDING;
    return open_beside(e, p, address);
}

static zn_status close_gradient(void *self, const zn_param *p)
{
    zn_engine *e = self;
    unsigned char *state = &e->gradient_state[p->index];
    bool adds = *state == GRADIENT_ADDING;
    *state = GRADIENT_WRITTEN;
    if (!adds)
        return ZN_OK;
    if (--e->add_open == 0)
        e->add_used = 0;
    zn_addr sum = place_of(e, p);
    return zn_run_add(e->device, &(struct zn_add_args){.y = sum,
                                                       .a = sum,
                                                       .b = e->add_address[p->index],
                                                       .n_elements = p->n_elements});
}

static zn_status clear(zn_engine *e, zn_addr at, int64_t n_elements)
{
    if (n_elements == 0)
        return ZN_OK;
    return zn_run_zero(e->device, &(struct zn_zero_args){.dst = at, .n_bytes = n_elements * (int64_t)sizeof(float)});
}

/* Zeroes what nobody wrote: unused parameters and, in a slot, the padding. */
static zn_status clear_unwritten(zn_engine *e, int unit, zn_addr base, bool padding)
{
    const struct zn_unit *u = &e->units.units[unit];
    int64_t end = 0;
    for (int i = 0; i < u->n_params; i++) {
        const zn_param *p = &e->module->params[u->first_param + i];
        int64_t begin = e->units.place_of[p->index] - u->first;
        if (padding)
            ZN_TRY(clear(e, base + (zn_addr)end * sizeof(float), begin - end));
        if (e->gradient_state[p->index] == GRADIENT_EMPTY)
            ZN_TRY(clear(e, base + (zn_addr)begin * sizeof(float), p->n_elements));
        end = begin + p->n_elements;
    }
    return padding ? clear(e, base + (zn_addr)end * sizeof(float), u->n_elements - end) : ZN_OK;
}

/* Sums the unit over ranks, from the slot or in place, into the own partition. */
static zn_status reduce_unit(zn_engine *e, int unit)
{
    const struct zn_unit *u = &e->units.units[unit];
    struct unit_state *us = &e->unit_state[unit];
    bool adds = us->reduced;
    us->reduced = true;
    zn_addr whole = e->gradients.address + (zn_addr)u->first * sizeof(float);
    ZN_TRY(clear_unwritten(e, unit, us->in_slot ? us->slot : whole, us->in_slot));
    ZN_TRY(unit_wait(e, unit));
    if (!e->plan || u->n_elements == 0)
        return ZN_OK;
    zn_addr to = partition_at(e, &e->gradients, sizeof(float), keeps_gradients(e), unit);
    struct zn_reduce reduce = {
        .tag = {ZN_COMM_REDUCE_GRAD, unit},
        .from = us->in_slot ? &e->slots.shared : &e->gradients.shared,
        .offset = us->in_slot ? us->slot_offset : (size_t)u->first * sizeof(float),
        .n_elements = u->partition,
        .wire = e->options.type,
        .to = (float *)(uintptr_t)to,
        .adds = adds,
    };
    zn_event_reset(&us->done);
    ZN_TRY(zn_comm_reduce(e->comm, &reduce, &us->done));
    us->pending = true;
    us->pending_moment = e->moment;
    return ZN_OK;
}

static zn_status segment_end(void *self, int segment, bool backward)
{
    zn_engine *e = self;
    if (!backward) {
        e->turn = segment == e->module->n_segments - 1;
        return ZN_OK;
    }
    for (int u = 0; u < e->units.n_units; u++) {
        struct unit_state *us = &e->unit_state[u];
        if (us->touched && (us->in_slot || (needs_reduction(e) && e->last_micro_batch)))
            ZN_TRY(reduce_unit(e, u));
    }
    e->moment++;
    zn_arena_next_moment(&e->slot_arena);
    for (int u = 0; u < e->units.n_units; u++) {
        struct unit_state *us = &e->unit_state[u];
        if (us->touched && us->in_slot)
            zn_arena_touch(&e->slot_arena, us->slot_block);
        us->touched = false;
    }
    return ZN_OK;
}

/* Slots begin again at their first place: those of the pass before must be done. The last
 * micro-batch of a step uses the most of them; the others use the same, or none. */
zn_status gradients_start_pass(zn_engine *e)
{
    for (int u = 0; u < e->units.n_units; u++)
        ZN_TRY(unit_wait(e, u));
    zn_lifetimes *recorded = e->last_micro_batch ? e->slot_lifetimes : e->repeat_slots;
    zn_arena_start(&e->slot_arena, e->plan ? e->plan->slots : recorded, !e->plan);
    return ZN_OK;
}

static zn_status finish_unit(zn_engine *e, int unit)
{
    const struct zn_unit *u = &e->units.units[unit];
    struct unit_state *us = &e->unit_state[unit];
    if (us->reduced)
        return ZN_OK;
    us->in_slot = false;
    if (writes_slots(e)) /* no segment used it in this step */
        return clear(e, partition_at(e, &e->gradients, sizeof(float), keeps_gradients(e), unit), u->partition);
    if (needs_reduction(e))
        return reduce_unit(e, unit);
    return clear_unwritten(e, unit, e->gradients.address + (zn_addr)u->first * sizeof(float), false);
}

/* At stage 0 every rank updates everything and needs all sums. */
static zn_status gather_sums(zn_engine *e, int unit)
{
    const struct zn_unit *u = &e->units.units[unit];
    struct unit_state *us = &e->unit_state[unit];
    if (!keeps_optimizer(e) || e->n_ranks == 1 || !e->plan || u->n_elements == 0)
        return ZN_OK;
    zn_addr whole = e->gradients.address + (zn_addr)u->first * sizeof(float);
    struct zn_gather gather = {
        .tag = {ZN_COMM_GATHER_GRAD, unit},
        .from = &e->gradients.shared,
        .offset = (size_t)(u->first + e->rank * u->partition) * sizeof(float),
        .n_bytes = (size_t)u->partition * sizeof(float),
        .to = (unsigned char *)(uintptr_t)whole,
    };
    zn_event_reset(&us->done);
    ZN_TRY(zn_comm_gather(e->comm, &gather, &us->done));
    us->pending = true;
    return ZN_OK;
}

zn_status gradients_finish(zn_engine *e)
{
    for (int u = 0; u < e->units.n_units; u++)
        ZN_TRY(finish_unit(e, u));
    for (int u = 0; u < e->units.n_units; u++) {
        ZN_TRY(unit_wait(e, u));
        ZN_TRY(gather_sums(e, u));
    }
    for (int u = 0; u < e->units.n_units; u++) {
        ZN_TRY(unit_wait(e, u));
        e->unit_state[u].reduced = false;
    }
    for (int i = 0; i < e->module->n_params; i++)
        e->gradient_state[i] = GRADIENT_EMPTY;
    return ZN_OK;
}

static zn_status acquire(void *self, const zn_param *p, zn_addr *address)
{
    return gathers_acquire(self, p, address);
}

/* A gathered unit is released by the plan, after its last use. */
static void release(void *self, const zn_param *p)
{
    (void)self;
    (void)p;
}

static zn_addr constant(void *self, const zn_constant *c)
{
    const zn_engine *e = self;
    return e->constants[c->index].address;
}

const struct zn_param_hooks zn_engine_hooks = {acquire,        release,  open_gradient,
                                               close_gradient, constant, segment_end};
