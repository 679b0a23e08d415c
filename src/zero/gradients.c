/* The hooks of the tape: parameter values, and where their gradients go.
 *
 * The first part of a parameter's gradient in a step is written in place; a further one (a tied
 * parameter's second use, the next micro-batch) is written into the slot and then added. */
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
    size_t n_bytes = (size_t)param->n_elements * sizeof(float);
    if (!e->plan) {
        if (n_bytes > e->slot_bytes)
            e->slot_bytes = n_bytes;
        *address = e->gradients.address; /* on sim any address serves */
        return ZN_OK;
    }
    if (n_bytes > e->slot.n_bytes)
        return zn_fail(ZN_ERR_INTERNAL, "the gradient of '%s' is larger than the planned slot",
                       param->name);
    *address = e->slot.address;
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
    zn_addr sum = state_at(&e->gradients, e->units.place_of[param->index]);
    return zn_run_add(e->device, &(struct zn_add_args){.y = sum,
                                                       .a = sum,
                                                       .b = e->slot.address,
                                                       .n_elements = param->n_elements});
}

static zn_addr constant(void *self, const zn_constant *c)
{
    const zn_engine *e = self;
    return e->constants[c->index].address;
}

const struct zn_param_hooks zn_engine_hooks = {acquire, release, open_gradient, close_gradient,
                                               constant};
