/* AdamW (Loshchilov and Hutter 2019): Adam whose weight decay is apart from the gradient. */
#include "optim/adam.h"

static zn_status update(zn_device *device, const struct zn_update *u)
{
    return zn_adam_update(device, u, true);
}

const zn_optimizer zn_optimizer_adamw = {
    .name = "adamw", .title = "adamw", .n_states = 2, .state = ZN_ADAM_STATES, .granularity = ZN_BY_ELEMENT, .update = update};
