/* Arguments of the optimizers' kernels. Each updates one range of elements and gives every element the same bits whatever the range,
 * in fp32 operations in the order written, without fused multiply-adds. g = grad × grad_scale. copy, when not 0, receives the new
 * parameters in copy_type. */
#ifndef ZN_DEVICE_KERNELS_OPTIMIZER_H
#define ZN_DEVICE_KERNELS_OPTIMIZER_H

#include <stdbool.h>
#include <stdint.h>

#include "memory/address.h"
#include "tensor/dtype.h"

/* Adam. With g [+ coupled_decay·p when coupled]:
 *   decoupled: p ← p × (1 - lr·decay)            (keep = that factor, else 1)
 *   m ← m + (1-beta1)(g - m);  v ← beta2·v + (1-beta2)·g·g
 *   p ← p - step_size × m / (sqrt(v) / root_correction + eps)
 * Moments in bf16 are widened, take part in fp32 as they come out of these lines, and are then stored rounded to nearest even. */
struct zn_adam_args {
    zn_addr param, grad, exp_avg, exp_avg_sq, copy;
    zn_dtype copy_type, state_type; /* of exp_avg and exp_avg_sq: fp32 or bf16 */
    int64_t n_elements;
    float grad_scale, one_minus_beta1, beta2, one_minus_beta2, eps;
    float step_size;       /* lr / (1 - beta1^t) */
    float root_correction; /* sqrt(1 - beta2^t) */
    float keep;            /* 1 - lr·decay, or 1 */
    float coupled_decay;   /* 0 when decoupled */
};

/* Adam whose moments are codes of 8 bits, in blocks of ZN_STATE_BLOCK elements from the first on, with an fp32 scale each. A value is
 * map[code] × scale, by the maps of device/cpu/dynamic_map.h: signed for exp_avg, unsigned for exp_avg_sq. It takes part in fp32 as
 * above; then scale ← the largest |value| of the block, and code ← how many of the 255 bounds (map[i] + map[i+1]) / 2 are below
 * value / scale (0 / 1 where the scale is 0). */
enum { ZN_STATE_BLOCK = 256 };
struct zn_adam_8bit_args {
    struct zn_adam_args adam; /* state_type is not used */
    zn_addr exp_avg_scales, exp_avg_sq_scales;
};

/* g = grad × grad_scale + coupled_decay × p; with momentum: buf ← first ? g : momentum·buf + g,
 * p ← p - lr·buf; without (momentum_buffer = 0): p ← p - lr·g. */
struct zn_sgd_args {
    zn_addr param, grad, momentum_buffer, copy;
    zn_dtype copy_type;
    int64_t n_elements;
    float grad_scale, lr, momentum, coupled_decay;
    bool first;
};

/* Lion: p ← p × keep - lr × sign(beta1·m + (1-beta1)·g);  m ← beta2·m + (1-beta2)·g. The sign of 0 is 0, that of NaN is NaN. */
struct zn_lion_args {
    zn_addr param, grad, exp_avg, copy;
    zn_dtype copy_type;
    int64_t n_elements;
    float grad_scale, beta1, one_minus_beta1, beta2, one_minus_beta2, lr;
    float keep; /* 1 - lr·decay */
};

/* Adagrad. With g = grad × grad_scale + coupled_decay × p: s ← s + g·g;  p ← p - lr × g / (sqrt(s) + eps). */
struct zn_adagrad_args {
    zn_addr param, grad, sum, copy;
    zn_dtype copy_type;
    int64_t n_elements;
    float grad_scale, lr, eps, coupled_decay;
};

#endif
