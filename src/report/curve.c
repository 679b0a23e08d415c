/* Gathering values in bins. */
#include "report/curve.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

static const double MOST = 1e100, LEAST = 1e-100;

void zn_curve_init(zn_curve *curve)
{
    memset(curve, 0, sizeof *curve);
    curve->width = 1;
}

static void join(struct zn_curve_bin *to, const struct zn_curve_bin *from)
{
    to->from = fmin(to->from, from->from);
    to->to = fmax(to->to, from->to);
    to->n_entries += from->n_entries;
    if (from->n == 0)
        return;
    to->least = to->n > 0 ? fmin(to->least, from->least) : from->least;
    to->greatest = to->n > 0 ? fmax(to->greatest, from->greatest) : from->greatest;
    to->sum += from->sum;
    to->n += from->n;
}

static void join_pairs(zn_curve *c)
{
    size_t n = (c->n_bins + 1) / 2;
    for (size_t i = 0; i < n; i++) {
        struct zn_curve_bin pair = c->bin[2 * i];
        if (2 * i + 1 < c->n_bins)
            join(&pair, &c->bin[2 * i + 1]);
        c->bin[i] = pair;
    }
    c->n_bins = n;
    c->width *= 2;
}

static void note_point(zn_curve *c, double at, double value)
{
    struct zn_curve_point point = {.at = at, .value = value};
    if (c->n == 0)
        c->first = c->least = c->greatest = point;
    if (value < c->least.value)
        c->least = point;
    if (value > c->greatest.value)
        c->greatest = point;
    c->last = point;
    c->n++;
}

void zn_curve_add(zn_curve *c, double at, double value)
{
    bool is_value = fabs(value) <= MOST; /* false for NaN */
    if (fabs(value) < LEAST)
        value = 0;
    struct zn_curve_bin entry = {.from = at, .to = at, .n_entries = 1};
    if (is_value) {
        entry.least = entry.greatest = entry.sum = value;
        entry.n = 1;
        note_point(c, at, value);
    }
    if (c->n_bins > 0 && c->bin[c->n_bins - 1].n_entries < c->width) {
        join(&c->bin[c->n_bins - 1], &entry);
        return;
    }
    if (c->n_bins == ZN_CURVE_BINS)
        join_pairs(c);
    c->bin[c->n_bins++] = entry;
}

void zn_curve_thin(zn_curve *curve, size_t most)
{
    while (curve->n_bins > most && curve->n_bins > 1)
        join_pairs(curve);
}

void zn_curve_scale(zn_curve *c, double factor)
{
    struct zn_curve_point *points[] = {&c->first, &c->last, &c->least, &c->greatest};
    for (size_t i = 0; i < c->n_bins; i++) {
        c->bin[i].least *= factor;
        c->bin[i].greatest *= factor;
        c->bin[i].sum *= factor;
    }
    for (int i = 0; i < 4; i++)
        points[i]->value *= factor;
}
