/* AdamW (Loshchilov and Hutter 2019): Adam whose weight decay is apart from the gradient; with moments in fp32, and, which loses
 * some of their bits, in bf16 and in 8 bits by blocks (Dettmers et al. 2022). */
#include "device/device.h"
#include "optim/adam.h"

static zn_status update(zn_device *device, const struct zn_update *u)
{
    struct zn_adam_args args = zn_adam_args_of(u, true);
    return zn_run_adam(device, &args);
}

const zn_optimizer zn_optimizer_adamw = {
    .name = "adamw", .title = "adamw", .n_states = 2, .state = ZN_ADAM_STATES, .granularity = ZN_BY_ELEMENT, .on_device = true,
    .update = update};

static zn_status update_bf16(zn_device *device, const struct zn_update *u)
{
    struct zn_adam_args args = zn_adam_args_of(u, true);
    args.state_type = ZN_BF16;
    return zn_run_adam(device, &args);
}

const zn_optimizer zn_optimizer_adamw_bf16 = {.name = "adamw-bf16",
                                              .title = "adamw-bf16",
                                              .n_states = 2,
                                              .state = {{.name = "exp_avg", .type = ZN_BF16}, {.name = "exp_avg_sq", .type = ZN_BF16}},
                                              .granularity = ZN_BY_ELEMENT,
                                              .update = update_bf16};

static zn_status update_8bit(zn_device *device, const struct zn_update *u)
{
    return zn_run_adam_8bit(device, &(struct zn_adam_8bit_args){.adam = zn_adam_args_of(u, true),
                                                                .exp_avg_scales = u->scales[0],
                                                                .exp_avg_sq_scales = u->scales[1]});
}

#define BLOCKWISE(name_) {.name = name_, .type = ZN_U8, .block = ZN_STATE_BLOCK, .scales = name_ ZN_SCALES_SUFFIX}

const zn_optimizer zn_optimizer_adamw8bit = {.name = "adamw8bit",
                                             .title = "adamw8bit",
                                             .n_states = 2,
                                             .state = {BLOCKWISE("exp_avg"), BLOCKWISE("exp_avg_sq")},
                                             .granularity = ZN_BY_ELEMENT,
                                             .update = update_8bit};
