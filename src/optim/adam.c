/* Adam (Kingma and Ba 2015). Weight decay is added to the gradient. */
#include "optim/adam.h"

#include <math.h>

#include "base/elementary.h"
#include "device/device.h"

struct zn_adam_args zn_adam_args_of(const struct zn_update *u, bool is_decoupled)
{
    const struct zn_hyperparameters *h = u->hyperparameters;
    double t = (double)u->t;
    return (struct zn_adam_args){.param = u->param,
                                 .grad = u->grad,
                                 .exp_avg = u->state[0],
                                 .exp_avg_sq = u->state[1],
                                 .copy = u->copy,
                                 .copy_type = u->copy_type,
                                 .n_elements = u->n_elements,
                                 .grad_scale = u->grad_scale,
                                 .one_minus_beta1 = (float)(1 - h->beta1),
                                 .beta2 = (float)h->beta2,
                                 .one_minus_beta2 = (float)(1 - h->beta2),
                                 .eps = (float)h->eps,
                                 .step_size = (float)(u->lr / (1 - zn_pow_f64(h->beta1, t))),
                                 .root_correction = (float)sqrt(1 - zn_pow_f64(h->beta2, t)),
                                 .keep = is_decoupled ? (float)(1 - u->lr * u->decay) : 1.0f,
                                 .coupled_decay = is_decoupled ? 0.0f : (float)u->decay};
}

static zn_status update(zn_device *device, const struct zn_update *u)
{
    struct zn_adam_args args = zn_adam_args_of(u, false);
    return zn_run_adam(device, &args);
}

const zn_optimizer zn_optimizer_adam = {
    .name = "adam", .title = "adam", .n_states = 2, .state = ZN_ADAM_STATES, .granularity = ZN_BY_ELEMENT, .on_device = true,
    .update = update};
