/* Smoothing. */
#include "show/smooth.h"

#include <math.h>

void zn_smooth_add(struct zn_smooth *s, double value, double memory)
{
    double keep = 1 - 1 / memory;
    s->value = (s->value * s->weight * keep + value) / (s->weight * keep + 1);
    s->weight = s->weight * keep + 1;
}

/* The estimate of each step differs a little; what is shown goes a part of the way, and all of it while there are few. */
void zn_forecast_step(struct zn_forecast *f, double now, double seconds, int64_t n_left)
{
    enum { MEMORY = 30 };
    zn_smooth_add(&f->between, f->last > 0 ? now - f->last : seconds, MEMORY);
    double end = now + f->between.value * (double)n_left;
    double part = fmax(1 / f->between.weight, 2.0 / MEMORY);
    f->end = f->last > 0 ? f->end + part * (end - f->end) : end;
    if (n_left == 0)
        f->end = now;
    f->last = now;
}

double zn_forecast_left(const struct zn_forecast *f, double now)
{
    if (f->last <= 0)
        return -1;
    double late = now - (f->last + f->between.value);
    return fmax(f->end - now + fmax(late, 0), 0);
}

static void join_neighbours(struct zn_trend *t)
{
    for (int i = 0; i < t->n / 2; i++)
        t->point[i] = (t->point[2 * i] + t->point[2 * i + 1]) / 2;
    t->n /= 2;
    t->each *= 2;
}

void zn_trend_add(struct zn_trend *t, double value)
{
    if (!isfinite(value))
        return;
    if (t->each == 0)
        t->each = 1;
    if (t->n == 0 || t->n_in_last == t->each) {
        if (t->n == ZN_TREND_POINTS)
            join_neighbours(t);
        t->n++;
        t->n_in_last = 0;
        t->sum = 0;
    }
    t->sum += value;
    t->n_in_last++;
    t->point[t->n - 1] = t->sum / (double)t->n_in_last;
}

int zn_trend_points(const struct zn_trend *t, int width, double *points)
{
    int n = t->n < width ? t->n : width;
    for (int i = 0; i < n; i++) {
        int from = (int)((int64_t)i * t->n / n), to = (int)((int64_t)(i + 1) * t->n / n);
        points[i] = 0;
        for (int k = from; k < to; k++)
            points[i] += t->point[k] / (to - from);
    }
    return n;
}
