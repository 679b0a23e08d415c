/* What AdamW and Adam share. */
#ifndef ZN_OPTIM_ADAM_H
#define ZN_OPTIM_ADAM_H

#include "optim/registry.h"

#define ZN_ADAM_STATES {{.name = "exp_avg", .type = ZN_F32}, {.name = "exp_avg_sq", .type = ZN_F32}}

/* Uses beta1, beta2 and eps. Decoupled decay shrinks the parameter, coupled decay adds to its gradient. */
zn_status zn_adam_update(zn_device *device, const struct zn_update *update, bool is_decoupled);

#endif
