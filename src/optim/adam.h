/* What AdamW and Adam share, whatever their moments are kept in. */
#ifndef ZN_OPTIM_ADAM_H
#define ZN_OPTIM_ADAM_H

#include "device/kernels.h"
#include "optim/registry.h"

#define ZN_ADAM_STATES {{.name = "exp_avg", .type = ZN_F32}, {.name = "exp_avg_sq", .type = ZN_F32}}

/* The arguments of the kernel; the type of the moments is left at fp32. Uses beta1, beta2 and eps. Decoupled decay shrinks the
 * parameter, coupled decay adds to its gradient. */
struct zn_adam_args zn_adam_args_of(const struct zn_update *update, bool is_decoupled);

#endif
