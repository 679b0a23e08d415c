/* Adagrad (Duchi et al. 2011). Weight decay is added to the gradient. Uses eps. */
#include "device/device.h"
#include "optim/registry.h"

static zn_status update(zn_device *device, const struct zn_update *u)
{
    return zn_run_adagrad(device, &(struct zn_adagrad_args){.param = u->param,
                                                            .grad = u->grad,
                                                            .sum = u->state[0],
                                                            .copy = u->copy,
                                                            .copy_type = u->copy_type,
                                                            .n_elements = u->n_elements,
                                                            .grad_scale = u->grad_scale,
                                                            .lr = (float)u->lr,
                                                            .eps = (float)u->hyperparameters->eps,
                                                            .coupled_decay = (float)u->decay});
}

const zn_optimizer zn_optimizer_adagrad = {.name = "adagrad",
                                           .title = "adagrad",
                                           .n_states = 1,
                                           .state = {{.name = "sum", .type = ZN_F32}},
                                           .granularity = ZN_BY_ELEMENT,
                                           .defaults = {.eps = 1e-10},
                                           .update = update};
