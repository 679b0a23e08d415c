/* The hooks of the tape: parameter values, and where their gradients go.
 *
 * The first part of a parameter's gradient in a step is written in place; a further one (a tied
 * parameter's second use, the next micro-batch) is written into the slot and then added. An
 * operator may have several gradients open at once (weight and bias): they lie side by side. */
#include "base/size.h"
#include "zero/engine_private.h"

static zn_status acquire(void *self, const zn_param *param, zn_addr *address)
{
    zn_engine *e = self;
    *address = state_at(&e->parameters, e->units.place_of[param->index]);
    return ZN_OK;
}

static void release(void *self, const zn_param *param)
{
    (void)self;
    (void)param;
}

static zn_status open_gradient(void *self, const zn_param *param, zn_addr *address)
{
    zn_engine *e = self;
    unsigned char *state = &e->gradient_state[param->index];
    if (*state == GRADIENT_EMPTY) {
        *state = GRADIENT_WRITING;
        *address = state_at(&e->gradients, e->units.place_of[param->index]);
        return ZN_OK;
    }
    *state = GRADIENT_ADDING;
    size_t begin = e->slot_used;
    e->slot_used += zn_round_up((size_t)param->n_elements * sizeof(float), ZN_BLOCK_ALIGNMENT);
    e->slot_open++;
    if (e->slot_used > e->slot_bytes) {
        if (e->plan)
            return zn_fail(ZN_ERR_INTERNAL, "the gradient of '%s' does not fit the planned slot",
                           param->name);
        e->slot_bytes = e->slot_used;
    }
    /* While recording there is no slot yet, and on sim any address serves. */
    *address = (e->plan ? e->slot.address : e->gradients.address) + begin;
    e->slot_address[param->index] = *address;
    return ZN_OK;
}

static zn_status close_gradient(void *self, const zn_param *param)
{
    zn_engine *e = self;
    unsigned char *state = &e->gradient_state[param->index];
    bool adds = *state == GRADIENT_ADDING;
    *state = GRADIENT_FILLED;
    if (!adds)
        return ZN_OK;
    if (--e->slot_open == 0)
        e->slot_used = 0;
    zn_addr sum = state_at(&e->gradients, e->units.place_of[param->index]);
    return zn_run_add(e->device, &(struct zn_add_args){.y = sum,
                                                       .a = sum,
                                                       .b = e->slot_address[param->index],
                                                       .n_elements = param->n_elements});
}

static zn_addr constant(void *self, const zn_constant *c)
{
    const zn_engine *e = self;
    return e->constants[c->index].address;
}

const struct zn_param_hooks zn_engine_hooks = {acquire, release, open_gradient, close_gradient,
                                               constant};
