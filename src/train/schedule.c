/* Warm-up, then constant, linear or cosine. */
#include "train/schedule.h"

#include <stdbool.h>
#include <string.h>

#include "base/elementary.h"

zn_status zn_schedule_parse(const char *name, zn_schedule_kind *kind)
{
    static const char *const names[] = {"constant", "linear", "cosine"};
    for (int i = 0; i < 3; i++) {
        if (strcmp(name, names[i]) == 0) {
            *kind = (zn_schedule_kind)i;
            return ZN_OK;
        }
    }
    return zn_fail(ZN_ERR_USAGE, "--lr-schedule: '%s' is not one of constant, linear, cosine", name);
}

double zn_schedule_lr(const struct zn_schedule *c, int64_t step)
{
    if (step <= c->warmup)
        return c->lr * (double)step / (double)c->warmup;
    if (c->kind == ZN_CONSTANT || c->steps <= c->warmup)
        return c->lr;
    bool has_min = c->min_lr >= 0;
    double min_lr = has_min ? c->min_lr : 0;
    double x = (double)(step - c->warmup) / (double)(c->steps - c->warmup + !has_min);
    double k = c->kind == ZN_LINEAR ? 1 - x : 0.5 * (1 + zn_cos_f64(3.14159265358979323846 * x));
    return min_lr + (c->lr - min_lr) * k;
}
