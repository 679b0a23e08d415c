/* Lion (Chen et al. 2023): the sign of an interpolated momentum, with decoupled weight decay. Uses beta1 and beta2. */
#include "device/device.h"
#include "optim/registry.h"

static zn_status update(zn_device *device, const struct zn_update *u)
{
    const struct zn_hyperparameters *h = u->hyperparameters;
    return zn_run_lion(device, &(struct zn_lion_args){.param = u->param,
                                                      .grad = u->grad,
                                                      .exp_avg = u->state[0],
                                                      .copy = u->copy,
                                                      .copy_type = u->copy_type,
                                                      .n_elements = u->n_elements,
                                                      .grad_scale = u->grad_scale,
                                                      .beta1 = (float)h->beta1,
                                                      .one_minus_beta1 = (float)(1 - h->beta1),
                                                      .beta2 = (float)h->beta2,
                                                      .one_minus_beta2 = (float)(1 - h->beta2),
                                                      .lr = (float)u->lr,
                                                      .keep = (float)(1 - u->lr * u->decay)});
}

const zn_optimizer zn_optimizer_lion = {.name = "lion",
                                        .title = "lion",
                                        .n_states = 1,
                                        .state = {{.name = "exp_avg", .type = ZN_F32}},
                                        .granularity = ZN_BY_ELEMENT,
                                        .defaults = {.beta1 = 0.9, .beta2 = 0.99},
                                        .update = update};
