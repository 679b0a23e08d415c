/* What a discrete device launches for each kernel of device/kernels.h: one or more kernels of the common source, or the
 * driver's own filling and copying. */
#ifndef ZN_DEVICE_DISCRETE_LAUNCH_H
#define ZN_DEVICE_DISCRETE_LAUNCH_H

#include "device/kernels.h"

/* The kernels of the source: name, whose arguments it takes, how many of these are addresses, items of a group. */
#define ZN_LAUNCHES(X)                                                                                                            \
    X(copy_rows, copy_rows, 2, 256)                                                                                               \
    X(cast, cast, 2, 256)                                                                                                         \
    X(round, round, 1, 256)                                                                                                       \
    X(fill, fill, 1, 256)                                                                                                         \
    X(fill_normal, fill_normal, 1, 256)                                                                                           \
    X(fill_uniform, fill_uniform, 1, 256)                                                                                         \
    X(add, add, 3, 256)                                                                                                           \
    X(add_scaled, add_scaled, 3, 256)                                                                                             \
    X(mul, mul, 3, 256)                                                                                                           \
    X(rope, rope, 5, 256)                                                                                                         \
    X(embedding_forward, embedding_forward, 5, 256)                                                                               \
    X(embedding_backward, embedding_backward, 5, 256)                                                                             \
    X(gelu_forward, gelu_forward, 2, 256)                                                                                         \
    X(gelu_backward, gelu_backward, 3, 256)                                                                                       \
    X(swiglu_forward, swiglu_forward, 3, 256)                                                                                     \
    X(swiglu_backward, swiglu_backward, 5, 256)                                                                                   \
    X(adam, adam, 5, 256)                                                                                                         \
    X(sgd, sgd, 4, 256)                                                                                                           \
    X(column_sum, column_sum, 3, 256)                                                                                             \
    X(column_sum_end, column_sum, 3, 256)                                                                                         \
    X(layernorm_forward, layernorm_forward, 6, 64)                                                                                \
    X(rmsnorm_forward, rmsnorm_forward, 4, 64)                                                                                    \
    X(layernorm_backward, layernorm_backward, 9, 64)                                                                              \
    X(layernorm_backward_partial, layernorm_backward, 9, 256)                                                                     \
    X(rmsnorm_backward, rmsnorm_backward, 7, 64)                                                                                  \
    X(rmsnorm_backward_partial, rmsnorm_backward, 7, 256)                                                                         \
    X(loss_panel, loss_panel, 5, 64)                                                                                              \
    X(loss_finish, loss_finish, 6, 256)                                                                                           \
    X(loss_finish_sum, loss_finish, 6, 1)                                                                                         \
    X(loss_gradient, loss_gradient, 4, 256)                                                                                       \
    X(pair_loss, pair_loss, 8, 1)                                                                                                 \
    X(sum_squares, sum_squares, 3, 64)                                                                                            \
    X(sum_squares_end, sum_squares, 3, 32)                                                                                        \
    X(gemm, gemm, 4, 64)                                                                                                          \
    X(attention_forward, attention_forward, 6, 32)                                                                                \
    X(attention_backward_delta, attention_backward, 12, 64)                                                                       \
    X(attention_backward, attention_backward, 12, 32)                                                                             \
    X(attention_backward_keys, attention_backward, 12, 32)                                                                        \
    X(attention_backward_sum, attention_backward, 12, 256)

typedef enum zn_launch_kernel {
#define ZN_LAUNCH_ENUM(name, args, n_addresses, items) ZN_LAUNCH_##name,
    ZN_LAUNCHES(ZN_LAUNCH_ENUM)
#undef ZN_LAUNCH_ENUM
        ZN_N_LAUNCHES,
    ZN_LAUNCH_ZERO = ZN_N_LAUNCHES, /* the driver's: args are zn_zero_args */
    ZN_LAUNCH_COPY,                 /* the driver's: args are zn_copy_args */
} zn_launch_kernel;

/* What a driver knows of a kernel of the source. */
struct zn_launch_info {
    const char *name; /* in the source */
    size_t n_bytes;   /* of its arguments */
    int n_addresses, n_items;
};
extern const struct zn_launch_info zn_launch_infos[ZN_N_LAUNCHES];

enum { ZN_MAX_LAUNCHES = 4, ZN_LAUNCH_BYTES = 256 };

struct zn_launch {
    zn_launch_kernel kernel;
    int64_t n_groups;
    _Alignas(8) unsigned char args[ZN_LAUNCH_BYTES];
};

/* The launches of one call, in their order; none where it has nothing to do. What a kernel does not do is refused. */
struct zn_launch_list {
    int n;
    struct zn_launch launches[ZN_MAX_LAUNCHES];
};
zn_status zn_launch_plan(zn_kernel kernel, const void *args, struct zn_launch_list *list);

#endif
