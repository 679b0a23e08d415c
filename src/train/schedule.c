/* Warm-up, then constant, linear or cosine; and DeepSpeed's schedulers. */
#include "train/schedule.h"

#include <string.h>

#include "base/elementary.h"

static const double PI = 3.14159265358979323846;

zn_status zn_schedule_parse(const char *name, zn_schedule_kind *kind)
{
    static const char *const names[] = {"constant", "linear", "cosine", "WarmupLR", "WarmupDecayLR", "WarmupCosineLR"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(name, names[i]) == 0) {
            *kind = (zn_schedule_kind)i;
            return ZN_OK;
        }
    }
    return zn_fail(ZN_ERR_USAGE, "--lr-schedule: '%s' is not one of constant, linear, cosine, WarmupLR, WarmupDecayLR, "
                   "WarmupCosineLR", name);
}

bool zn_schedule_falls(zn_schedule_kind kind)
{
    return kind != ZN_CONSTANT && kind != ZN_WARMUP_LR;
}

static double between(double low, double high, double part)
{
    return low + (high - low) * part;
}

static double warm_up(const struct zn_schedule *c, int64_t step)
{
    if (step == c->warmup)
        return c->lr;
    if (c->log_warmup)
        return between(c->warmup_min_lr, c->lr, zn_log_f64((double)step) / zn_log_f64((double)c->warmup));
    return c->warmup_min_lr + (c->lr - c->warmup_min_lr) * (double)step / (double)c->warmup;
}

/* DeepSpeed's order of operations, so that no more than the last bits of the logarithm and the cosine can differ. */
static double deepspeed_lr(const struct zn_schedule *c, int64_t step)
{
    int64_t count = step - 2, warmup = c->warmup > 2 ? c->warmup : 2;
    int64_t falling = c->steps > warmup ? c->steps - warmup : 1;
    if (count < 0)
        return c->kind == ZN_WARMUP_COSINE_LR ? 0 : c->warmup_min_lr;
    if (count < warmup && c->log_warmup)
        return between(c->warmup_min_lr, c->lr, 1 / zn_log_f64((double)warmup) * zn_log_f64((double)(count + 1)));
    if (count < warmup)
        return between(c->warmup_min_lr, c->lr, (double)count / (double)warmup);
    if (c->kind == ZN_WARMUP_LR)
        return between(c->warmup_min_lr, c->lr, 1);
    if (c->kind == ZN_WARMUP_DECAY_LR)
        return between(c->warmup_min_lr, c->lr, count < c->steps ? (double)(c->steps - count) / (double)falling : 0);
    double x = (double)(count - warmup + 1) / (double)falling;
    return between(c->min_lr > 0 ? c->min_lr : 0, c->lr, (1 + zn_cos_f64(PI * (x < 1 ? x : 1))) / 2);
}

double zn_schedule_lr(const struct zn_schedule *c, int64_t step)
{
    if (c->kind >= ZN_WARMUP_LR)
        return deepspeed_lr(c, step);
    if (step <= c->warmup)
        return warm_up(c, step);
    if (c->kind == ZN_CONSTANT || c->steps <= c->warmup)
        return c->lr;
    bool has_min = c->min_lr >= 0;
    double min_lr = has_min ? c->min_lr : 0;
    double x = (double)(step - c->warmup) / (double)(c->steps - c->warmup + !has_min);
    x = x < 1 ? x : 1;
    double k = c->kind == ZN_LINEAR ? 1 - x : 0.5 * (1 + zn_cos_f64(PI * x));
    return min_lr + (c->lr - min_lr) * k;
}
