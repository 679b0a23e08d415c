/* Loss scaling for fp16: gradients are multiplied by a scale so that small ones do not vanish, and
 * the scale follows what overflows. */
#ifndef ZN_ZERO_PRECISION_H
#define ZN_ZERO_PRECISION_H

#include <stdbool.h>
#include <stdint.h>

enum { ZN_DEFAULT_LOSS_SCALE = 65536 };

struct zn_loss_scale_options {
    bool dynamic;
    double initial; /* also the static scale */
    int64_t window; /* good steps until it doubles */
    int64_t hysteresis; /* overflows until it halves */
    double min;
};

typedef struct zn_loss_scale {
    struct zn_loss_scale_options options;
    double scale;
    int64_t step, last_overflow, patience;
} zn_loss_scale;

void zn_loss_scale_init(zn_loss_scale *scale, const struct zn_loss_scale_options *options);

/* After each step. The scale doubles after `window` good steps since the last overflow or growth, and
 * halves, not below `min`, at the `hysteresis`-th overflow since it last grew. */
void zn_loss_scale_update(zn_loss_scale *scale, bool overflow);

/* Whether an overflow now could not lower it further. */
bool zn_loss_scale_is_least(const zn_loss_scale *scale);

#endif
