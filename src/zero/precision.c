/* The loss scale's rules are DeepSpeed's, so that a run there and here see the same scales. */
#include "zero/precision.h"

void zn_loss_scale_init(zn_loss_scale *s, const struct zn_loss_scale_options *options)
{
    *s = (zn_loss_scale){.options = *options,
                         .scale = options->initial,
                         .last_overflow = -1,
                         .patience = options->hysteresis};
}

void zn_loss_scale_update(zn_loss_scale *s, bool overflow)
{
    const struct zn_loss_scale_options *o = &s->options;
    if (!o->dynamic)
        return;
    if (overflow) {
        if (s->patience > 1)
            s->patience--;
        else
            s->scale = s->scale / 2 > o->min ? s->scale / 2 : o->min;
        s->last_overflow = s->step;
    } else {
        int64_t good = s->step - s->last_overflow - 1;
        if (good > 0 && good % o->window == 0) {
            s->scale *= 2;
            s->patience = o->hysteresis;
        }
    }
    s->step++;
}

bool zn_loss_scale_is_least(const zn_loss_scale *s)
{
    return !s->options.dynamic || s->scale <= s->options.min;
}
