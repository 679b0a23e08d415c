/* SGD, without states; with momentum it has one, and is an optimizer of its own behind the same name. */
#include "device/device.h"
#include "optim/registry.h"

static zn_status update(zn_device *device, const struct zn_update *u)
{
    return zn_run_sgd(device, &(struct zn_sgd_args){.param = u->param,
                                                    .grad = u->grad,
                                                    .momentum_buffer = u->state[0],
                                                    .copy = u->copy,
                                                    .copy_type = u->copy_type,
                                                    .n_elements = u->n_elements,
                                                    .grad_scale = u->grad_scale,
                                                    .lr = (float)u->lr,
                                                    .momentum = (float)u->hyperparameters->momentum,
                                                    .coupled_decay = (float)u->decay,
                                                    .first = u->t == 1});
}

static const zn_optimizer with_momentum = {.name = "sgd",
                                           .title = "sgd with --momentum",
                                           .n_states = 1,
                                           .state = {{.name = "momentum_buffer", .type = ZN_F32}},
                                           .granularity = ZN_BY_ELEMENT,
                                           .on_device = true,
                                           .update = update};

static const zn_optimizer *choose(const struct zn_hyperparameters *hyperparameters)
{
    return hyperparameters->momentum != 0 ? &with_momentum : &zn_optimizer_sgd;
}

const zn_optimizer zn_optimizer_sgd = {
    .name = "sgd", .title = "sgd without --momentum", .granularity = ZN_BY_ELEMENT, .on_device = true, .choose = choose,
    .update = update};
