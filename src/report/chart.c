/* Drawing curves. Places on the page are in SVG's units, y downward. */
#include "report/chart.h"

#include <math.h>
#include <stdio.h>

#include "report/html.h"

enum {
    LEFT = 54, RIGHT = 16, TOP = 10, BOTTOM = 40, /* room around the plot */
    X_TICK_WIDTH = 74, Y_TICK_HEIGHT = 38,         /* marks are at least so far apart */
    DECADE_HEIGHT = 70,                            /* room for marks at 2 and 5 */
    MAX_ROUND_POINTS = 100                         /* more of them would be one blot */
};

struct scale {
    double low, high;  /* values; their logarithms when is_log */
    double step;       /* between marks */
    double begin, end; /* on the page */
    bool is_log;
};

static double place(const struct scale *s, double value)
{
    double v = s->is_log ? log10(value) : value;
    return s->begin + (v - s->low) / (s->high - s->low) * (s->end - s->begin);
}

static double mean(const struct zn_curve_bin *bin)
{
    /* Rounding may put the mean of equal values beside them. */
    return fmin(fmax(bin->sum / (double)bin->n, bin->least), bin->greatest);
}

static double middle(const struct zn_curve_bin *bin)
{
    return bin->from + (bin->to - bin->from) / 2;
}

/* ---- Scales ---- */

/* 1, 2 or 5 times a power of ten: at most `most` marks in the span. */
static double round_step(double span, double most)
{
    double raw = span / fmax(most, 1), power = pow(10, floor(log10(raw)));
    static const double round[] = {1, 2, 5};
    for (int i = 0; i < 3; i++)
        if (raw <= round[i] * power * (1 + 1e-9))
            return round[i] * power;
    return 10 * power;
}

static void add_to_range(const zn_curve *c, double *low, double *high)
{
    if (!c || c->n == 0)
        return;
    *low = fmin(*low, c->least.value);
    *high = fmax(*high, c->greatest.value);
}

static void range_of(const struct zn_chart *chart, double *low, double *high)
{
    *low = INFINITY;
    *high = -INFINITY;
    add_to_range(chart->line, low, high);
    add_to_range(chart->points, low, high);
    for (size_t i = 0; i < chart->n_more; i++)
        add_to_range(chart->more[i], low, high);
}

bool zn_chart_is_log(const struct zn_chart *chart)
{
    double low, high;
    range_of(chart, &low, &high);
    return chart->may_be_log && low > 0 && high >= 100 * low && high < INFINITY;
}

static struct scale scale_of_values(const struct zn_chart *chart)
{
    struct scale s = {.begin = chart->height - BOTTOM, .end = TOP};
    range_of(chart, &s.low, &s.high);
    if (s.low > s.high)
        s.low = s.high = 0;
    double most = (s.begin - s.end) / Y_TICK_HEIGHT;
    s.is_log = zn_chart_is_log(chart);
    if (s.is_log) {
        s.low = log10(s.low);
        s.high = log10(s.high);
        double room = 0.04 * (s.high - s.low);
        s.low -= room;
        s.high += room;
        s.step = fmax(round_step(s.high - s.low, most), 1);
        return s;
    }
    if (chart->from_zero)
        s.low = fmin(s.low, 0);
    /* All the same, or so near that marks could not tell them apart. */
    double least_span = 1e-6 * fmax(fabs(s.low), fabs(s.high));
    if (s.high - s.low <= least_span) {
        double room = s.high == 0 && s.low == 0 ? 0.5 : 0.1 * fmax(fabs(s.low), fabs(s.high));
        s.high += room;
        s.low -= chart->from_zero && s.low >= 0 ? 0 : room;
    }
    s.step = round_step(s.high - s.low, most);
    s.low = floor(s.low / s.step + 1e-9) * s.step;
    s.high = ceil(s.high / s.step - 1e-9) * s.step;
    return s;
}

static struct scale scale_of_steps(const struct zn_chart *chart)
{
    struct scale s = {.low = INFINITY, .high = -INFINITY, .begin = LEFT, .end = chart->width - RIGHT};
    for (size_t k = 0; k <= chart->n_more; k++) {
        const zn_curve *c = k ? chart->more[k - 1] : chart->line;
        for (size_t i = 0; i < c->n_bins; i++) {
            s.low = fmin(s.low, c->bin[i].from);
            s.high = fmax(s.high, c->bin[i].to);
        }
    }
    if (s.low > s.high)
        s.low = 0, s.high = 1;
    else if (s.low <= 1 || s.low == s.high) /* the first step is one step from the start */
        s.low -= 1;
    if (s.high - s.low < 2)
        s.high = s.low + 2;
    s.step = fmax(round_step(s.high - s.low, (s.end - s.begin) / X_TICK_WIDTH), 1);
    return s;
}

/* ---- Axes ---- */

static void add_value_mark(zn_text *page, const struct zn_chart *chart, double at, const char *text)
{
    zn_text_add(page, "<path class=\"grid\" d=\"M%d %.1fH%d\" /><text class=\"end\" x=\"%d\" y=\"%.1f\">%s</text>\n", LEFT,
                at, chart->width - RIGHT, LEFT - 7, at + 4, text);
}

static void add_log_marks(zn_text *page, const struct zn_chart *chart, const struct scale *y)
{
    static const double digits[] = {1, 2, 5};
    char text[HTML_TICK_TEXT];
    bool is_fine = y->begin - y->end >= DECADE_HEIGHT * (y->high - y->low);
    for (double k = floor(y->low / y->step); k * y->step <= y->high; k++) {
        for (int i = 0; i < (is_fine ? 3 : 1); i++) {
            double value = digits[i] * pow(10, k * y->step), power = log10(value);
            if (power >= y->low && power <= y->high)
                add_value_mark(page, chart, place(y, value), html_tick_text(value, value, value, text));
        }
    }
}

static void add_value_marks(zn_text *page, const struct zn_chart *chart, const struct scale *y)
{
    char text[HTML_TICK_TEXT];
    double greatest = fmax(fabs(y->low), fabs(y->high));
    if (y->is_log) {
        add_log_marks(page, chart, y);
        return;
    }
    for (double k = ceil(y->low / y->step - 1e-9); k * y->step <= y->high + 1e-9 * y->step; k++)
        add_value_mark(page, chart, place(y, k * y->step), html_tick_text(k * y->step, y->step, greatest, text));
}

static void add_step_marks(zn_text *page, const struct zn_chart *chart, const struct scale *x)
{
    char text[HTML_TICK_TEXT];
    int foot = chart->height - BOTTOM;
    zn_text_add(page, "<path class=\"axis\" d=\"M%d %dH%d", LEFT, foot, chart->width - RIGHT);
    double first = ceil(x->low / x->step - 1e-9);
    for (double k = first; k * x->step <= x->high; k++)
        zn_text_add(page, "M%.1f %dv4", place(x, k * x->step), foot);
    zn_text_add(page, "\" />\n");
    for (double k = first; k * x->step <= x->high; k++)
        zn_text_add(page, "<text class=\"mid\" x=\"%.1f\" y=\"%d\">%s</text>", place(x, k * x->step), foot + 17,
                    html_tick_text(k * x->step, x->step, x->high, text));
    zn_text_add(page, "<text class=\"mid name\" x=\"%d\" y=\"%d\">step</text>\n", (LEFT + chart->width - RIGHT) / 2,
                foot + 34);
}

/* ---- Curves ---- */

/* The next run of bins that have values; false at the end. */
static bool next_run(const zn_curve *c, size_t *begin, size_t *end)
{
    *begin = *end;
    while (*begin < c->n_bins && c->bin[*begin].n == 0)
        ++*begin;
    *end = *begin;
    while (*end < c->n_bins && c->bin[*end].n > 0)
        ++*end;
    return *begin < *end;
}

static void add_band(zn_text *page, const zn_curve *c, const struct scale *x, const struct scale *y)
{
    zn_text_add(page, "<path class=\"band\" d=\"");
    for (size_t begin, end = 0; next_run(c, &begin, &end);) {
        for (size_t i = begin; i < end; i++)
            zn_text_add(page, "%c%.1f %.1f", i == begin ? 'M' : 'L', place(x, middle(&c->bin[i])),
                        place(y, c->bin[i].greatest));
        for (size_t i = end; i-- > begin;)
            zn_text_add(page, "L%.1f %.1f", place(x, middle(&c->bin[i])), place(y, c->bin[i].least));
        zn_text_add(page, "Z");
    }
    zn_text_add(page, "\" />\n");
}

/* A value between gaps, which would be a line of no length, is a dot: its ends are round. */
static void add_line(zn_text *page, const char *style, const zn_curve *c, const struct scale *x, const struct scale *y)
{
    zn_text_add(page, "<path class=\"%s\" d=\"", style);
    for (size_t begin, end = 0; next_run(c, &begin, &end);) {
        for (size_t i = begin; i < end; i++)
            zn_text_add(page, "%c%.1f %.1f", i == begin ? 'M' : 'L', place(x, middle(&c->bin[i])),
                        place(y, mean(&c->bin[i])));
        if (end == begin + 1)
            zn_text_add(page, "h0");
    }
    zn_text_add(page, "\" />\n");
}

static void add_lines(zn_text *page, const struct zn_chart *chart, const struct scale *x, const struct scale *y)
{
    for (size_t i = 0; i <= chart->n_more; i++) {
        char style[32];
        const zn_curve *c = i ? chart->more[i - 1] : chart->line;
        snprintf(style, sizeof style, "line c%zu", i);
        if (c->n > 0)
            add_line(page, style, c, x, y);
    }
}

static void add_points(zn_text *page, const char *style, const zn_curve *c, const struct scale *x,
                       const struct scale *y)
{
    for (size_t i = 0; i < c->n_bins; i++) {
        const struct zn_curve_bin *bin = &c->bin[i];
        if (bin->n > 0)
            zn_text_add(page, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.2\"><title>step %.0f: %.5g</title></circle>\n",
                        style, place(x, middle(bin)), place(y, mean(bin)), middle(bin), mean(bin));
    }
}

static void add_foot_marks(zn_text *page, const zn_curve *c, const struct scale *x, int foot)
{
    zn_text_add(page, "<path class=\"skipped\" d=\"");
    for (size_t i = 0; i < c->n_bins; i++)
        zn_text_add(page, "M%.1f %dl-4 8h8z", place(x, middle(&c->bin[i])), foot - 8);
    zn_text_add(page, "\" />\n");
}

void zn_chart_add(zn_text *page, const struct zn_chart *chart)
{
    const zn_curve *line = chart->line, *points = chart->points;
    struct scale x = scale_of_steps(chart), y = scale_of_values(chart);
    zn_text_add(page, "<svg viewBox=\"0 0 %d %d\" role=\"img\"><title>%s</title>\n", chart->width, chart->height,
                chart->title);
    if (chart->n_more > 0) {
        add_value_marks(page, chart, &y);
        add_lines(page, chart, &x, &y);
    } else if (line->n == 0 && !(points && points->n > 0)) {
        zn_text_add(page, "<text class=\"mid\" x=\"%d\" y=\"%d\">no values</text>\n", chart->width / 2,
                    chart->height / 2);
    } else {
        add_value_marks(page, chart, &y);
        if (line->width > 1)
            add_band(page, line, &x, &y);
        if (line->n == 1)
            add_points(page, "only", line, &x, &y);
        else
            add_line(page, "line", line, &x, &y);
    }
    if (points && points->n > 0) {
        add_line(page, "held", points, &x, &y);
        if (points->n_bins <= MAX_ROUND_POINTS)
            add_points(page, "point", points, &x, &y);
    }
    if (chart->marks && chart->marks->n > 0)
        add_foot_marks(page, chart->marks, &x, chart->height - BOTTOM);
    add_step_marks(page, chart, &x);
    zn_text_add(page, "</svg>\n");
}
