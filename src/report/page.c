/* Title, tiles, charts: the page from its top to its foot. */
#include "report/page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/chart.h"
#include "report/html.h"

enum {
    WIDE = 920, WIDE_HEIGHT = 320, WIDE_POINTS = 560, /* of a chart: its size, and how many points it shows */
    NARROW = 350, NARROW_HEIGHT = 260,
    SMALL = 310, SMALL_HEIGHT = 200, SMALL_POINTS = 160
};

/* A string of run.json; NULL: none. */
static const char *setting(const struct zn_report_facts *f, const char *key)
{
    const char *value;
    if (!f->run || zn_json_type_at(f->run, key) != ZN_JSON_STRING || zn_json_get_string(f->run, key, &value) != ZN_OK)
        return NULL;
    return value;
}

void report_add_last_part(zn_text *page, const char *path)
{
    size_t end = strlen(path), begin;
    while (end > 1 && path[end - 1] == '/')
        end--;
    for (begin = end; begin > 0 && path[begin - 1] != '/'; begin--)
        ;
    char *name = strndup(path + begin, end - begin);
    if (!name)
        page->failed = true;
    else
        html_add(page, name[0] ? name : path);
    free(name);
}

/* Of the path of the model, or of the run's folder. */
static void add_name(zn_text *page, const void *self)
{
    const struct zn_report_facts *f = self;
    const char *path = setting(f, "model");
    report_add_last_part(page, path && path[0] ? path : f->folder);
}

/* ---- How it ended ---- */

static void add_state(zn_text *page, const char *style, const char *word)
{
    zn_text_add(page, "<p><span class=\"state %s\">%s</span>", style, word);
}

static void add_when(zn_text *page, time_t written)
{
    char text[64];
    struct tm tm;
    if (gmtime_r(&written, &tm) && strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &tm) > 0)
        zn_text_add(page, " The log was last written on %s UTC.", text);
}

static void add_cut_short(zn_text *page, const struct zn_report_facts *f)
{
    const struct zn_report_log *log = f->log;
    add_state(page, "short", "Cut short");
    if (log->n_steps == 0)
        zn_text_add(page, "The log has no step yet, of %lld", (long long)f->steps);
    else
        zn_text_add(page, "The log ends at step %lld of %lld", (long long)log->last_step, (long long)f->steps);
    zn_text_add(page, "; a run that still goes on looks the same.");
    if (log->n_skipped_at_end > 0)
        zn_text_add(page, " Steps skipped at its end: %lld.", (long long)log->n_skipped_at_end);
    if (f->checkpoint) {
        zn_text_add(page, " The newest checkpoint is ");
        html_add(page, f->checkpoint);
        zn_text_add(page, ".");
    }
    add_when(page, log->written);
}

static void add_end(zn_text *page, const struct zn_report_facts *f)
{
    const struct zn_report_log *log = f->log;
    if (f->steps < 0) {
        add_state(page, "short", "Unknown end");
        zn_text_add(page, "The last step in the log is %lld; how many there were to be is not known.",
                    (long long)log->last_step);
        add_when(page, log->written);
    } else if (log->last_step < f->steps) {
        add_cut_short(page, f);
    } else if (!f->has_weights) {
        add_state(page, "short", "Not finished");
        zn_text_add(page, "All steps of the run (%lld) are in the log, but the model is not written.", (long long)f->steps);
        add_when(page, log->written);
    } else {
        add_state(page, "done", "Finished");
        zn_text_add(page, "All steps of the run (%lld) are done and the model is written.", (long long)f->steps);
    }
    zn_text_add(page, "</p>\n");
}

/* Lines that were left out are never passed over in silence. */
static void add_faults(zn_text *page, const struct zn_report_log *log)
{
    if (log->n_bad == 0)
        return;
    zn_text_add(page, "<p class=\"muted\">");
    if (log->is_cut && log->n_bad == 1) {
        zn_text_add(page, "The last line of the log is not whole and left out.");
    } else {
        html_add_count(page, (double)log->n_bad);
        zn_text_add(page, " of ");
        html_add_count(page, (double)log->n_lines);
        zn_text_add(page, " lines of the log cannot be read and are left out; the first: ");
        html_add(page, log->fault);
    }
    zn_text_add(page, "</p>\n");
}

/* ---- Tiles ---- */

static void begin_tile(zn_text *page, const char *name)
{
    zn_text_add(page, "<div><dt>%s</dt><dd>", name);
}

static void end_tile(zn_text *page)
{
    zn_text_add(page, "</dd></div>\n");
}

static void add_parameters(zn_text *page, const struct zn_report_facts *f)
{
    int64_t n;
    const char *architecture = setting(f, "architecture");
    if (!f->run || zn_json_type_at(f->run, "parameters") != ZN_JSON_NUMBER ||
        zn_json_get_int(f->run, "parameters", 0, INT64_MAX, &n) != ZN_OK)
        return;
    begin_tile(page, "parameters");
    html_add_large(page, (double)n);
    if (architecture) {
        zn_text_add(page, "<small>");
        html_add(page, architecture);
        zn_text_add(page, "</small>");
    }
    end_tile(page);
}

static void add_loss_tile(zn_text *page, const char *name, const zn_curve *c)
{
    if (c->n == 0)
        return;
    begin_tile(page, name);
    html_add_short(page, c->last.value);
    zn_text_add(page, "<small>");
    if (c->n > 1) {
        zn_text_add(page, "first ");
        html_add_short(page, c->first.value);
    } else {
        zn_text_add(page, "at step %.0f", c->last.at);
    }
    zn_text_add(page, "</small>");
    end_tile(page);
}

/* A large number, short and in full. */
static void add_amount(zn_text *page, const char *name, double amount)
{
    begin_tile(page, name);
    html_add_large(page, amount);
    zn_text_add(page, "<small>");
    html_add_count(page, amount);
    zn_text_add(page, "</small>");
    end_tile(page);
}

static void add_tiles(zn_text *page, const struct zn_report_facts *f)
{
    const struct zn_report_log *log = f->log;
    zn_text_add(page, "<dl class=\"tiles\">\n");
    add_parameters(page, f);
    begin_tile(page, "steps");
    html_add_count(page, (double)log->last_step);
    if (f->steps >= 0) {
        zn_text_add(page, "<small>of ");
        html_add_count(page, (double)f->steps);
        zn_text_add(page, "</small>");
    }
    end_tile(page);
    add_amount(page, "tokens", log->tokens);
    if (log->targets < log->tokens)
        add_amount(page, "trained tokens", log->targets);
    begin_tile(page, "time in steps");
    html_add_duration(page, log->seconds);
    if (log->seconds > 0) {
        zn_text_add(page, "<small>");
        html_add_count(page, log->tokens / log->seconds);
        zn_text_add(page, " tokens/s</small>");
    }
    end_tile(page);
    add_loss_tile(page, "loss", &log->loss);
    add_loss_tile(page, "held-out loss", &log->held_out);
    zn_text_add(page, "</dl>\n");
}

/* ---- Charts ---- */

static void add_value(zn_text *page, const char *name, const struct zn_curve_point *point, bool with_step)
{
    zn_text_add(page, "<span>%s ", name);
    html_add_short(page, point->value);
    if (with_step)
        zn_text_add(page, " at step %.0f", point->at);
    zn_text_add(page, "</span>");
}

static void add_caption(zn_text *page, const struct zn_chart *chart)
{
    const zn_curve *c = chart->line;
    zn_text_add(page, "<figcaption>");
    if (c->n == 1) {
        add_value(page, "only value", &c->first, true);
    } else if (c->n > 1) {
        add_value(page, "first", &c->first, false);
        add_value(page, "least", &c->least, true);
        add_value(page, "greatest", &c->greatest, true);
        add_value(page, "last", &c->last, false);
    }
    zn_text_add(page, "%s</figcaption>\n", zn_chart_is_log(chart) ? "<span>logarithmic axis</span>" : "");
}

void report_add_key(zn_text *page, const char *style, const char *shape, const char *name)
{
    zn_text_add(page, "<span class=\"key\"><svg viewBox=\"0 0 22 10\" aria-hidden=\"true\"><path class=\"%s\" d=\"%s\" "
                      "/></svg>%s</span>",
                style, shape, name);
}

/* The same curve with fewer points where there is less room. */
void report_add_chart(zn_text *page, const struct zn_chart *chart)
{
    struct zn_chart narrow = *chart;
    narrow.width = NARROW;
    narrow.height = NARROW_HEIGHT;
    zn_text_add(page, "<div class=\"on-wide\">\n");
    zn_chart_add(page, chart);
    zn_text_add(page, "</div>\n<div class=\"on-narrow\">\n");
    zn_chart_add(page, &narrow);
    zn_text_add(page, "</div>\n");
}

static void add_loss_chart(zn_text *page, const struct zn_report_log *log)
{
    zn_curve loss = log->loss;
    zn_curve_thin(&loss, WIDE_POINTS);
    struct zn_chart chart = {.title = "Loss by step",
                             .line = &loss,
                             .points = &log->held_out,
                             .marks = &log->skipped,
                             .may_be_log = true,
                             .width = WIDE,
                             .height = WIDE_HEIGHT};
    zn_text_add(page, "<h2>Loss</h2>\n<figure><p class=\"muted\">");
    report_add_key(page, "line", "M1 5h20", "training, nats a token");
    if (loss.width > 1) {
        char name[128];
        snprintf(name, sizeof name, "least to greatest of %lld steps, the line is their mean",
                 (long long)loss.width);
        report_add_key(page, "band", "M0 0h22v10h-22z", name);
    }
    if (log->held_out.n > 0)
        report_add_key(page, "held", "M1 5h20", "held-out");
    if (log->n_skipped > 0)
        report_add_key(page, "skipped", "M11 1l-4 8h8z", "skipped step");
    zn_text_add(page, "</p>\n");
    report_add_chart(page, &chart);
    add_caption(page, &chart);
    zn_text_add(page, "</figure>\n");
}

static void add_small_charts(zn_text *page, const struct zn_report_log *log)
{
    const struct zn_chart charts[] = {
        {.title = "Gradient norm", .line = &log->grad_norm, .from_zero = true, .may_be_log = true},
        {.title = "Learning rate", .line = &log->lr, .from_zero = true},
        {.title = "Tokens a second", .line = &log->speed, .from_zero = true}};
    zn_text_add(page, "<div class=\"charts\">\n");
    for (size_t i = 0; i < sizeof charts / sizeof charts[0]; i++) {
        struct zn_chart chart = charts[i];
        zn_curve thin = *chart.line;
        zn_curve_thin(&thin, SMALL_POINTS);
        chart.line = &thin;
        chart.width = SMALL;
        chart.height = SMALL_HEIGHT;
        zn_text_add(page, "<figure><h3>%s</h3>\n", chart.title);
        zn_chart_add(page, &chart);
        add_caption(page, &chart);
        zn_text_add(page, "</figure>\n");
    }
    zn_text_add(page, "</div>\n");
}

static void add_skipped(zn_text *page, const struct zn_report_log *log)
{
    if (log->n_skipped == 0)
        return;
    zn_text_add(page, "<h2>Skipped steps</h2>\n<div class=\"table\"><table class=\"reasons\">\n"
                      "<thead><tr><th>step</th><th>because the</th></tr></thead>\n<tbody>\n");
    for (int64_t i = 0; i < log->n_skipped && i < ZN_REPORT_REASONS; i++) {
        zn_text_add(page, "<tr><td>%lld</td><td>", (long long)log->reasons[i].step);
        html_add(page, log->reasons[i].text);
        zn_text_add(page, "</td></tr>\n");
    }
    zn_text_add(page, "</tbody>\n</table></div>\n");
    if (log->n_skipped > ZN_REPORT_REASONS) {
        zn_text_add(page, "<p class=\"muted\">and ");
        html_add_count(page, (double)(log->n_skipped - ZN_REPORT_REASONS));
        zn_text_add(page, " more</p>\n");
    }
}

/* Nothing may be fetched or run, whatever a name in the page tries. */
void report_begin_page(zn_text *page, void (*name)(zn_text *page, const void *self), const void *self)
{
    zn_text_add(page, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\" />\n"
                      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
                      "'unsafe-inline'\" />\n"
                      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\" />\n"
                      "<meta name=\"generator\" content=\"zinc %s\" />\n<title>",
                zn_version());
    name(page, self);
    zn_text_add(page, ": a run of zinc</title>\n<style>\n%s</style>\n</head>\n<body>\n<main>\n<h1>", report_style);
    name(page, self);
    zn_text_add(page, "</h1>\n");
}

void zn_report_page(zn_text *page, const struct zn_report_facts *f)
{
    report_begin_page(page, add_name, f);
    add_end(page, f);
    add_faults(page, f->log);
    report_add_origin(page, f);
    add_tiles(page, f);
    if (f->log->n_steps > 0) {
        add_loss_chart(page, f->log);
        add_small_charts(page, f->log);
        add_skipped(page, f->log);
        report_add_plan(page, f);
        report_add_memory(page, f->log);
        report_add_lanes(page, f->lanes);
        report_add_bytes(page, f);
    }
    report_add_configuration(page, f->run);
    zn_text_add(page, "<footer>zinc %s, from ", zn_version());
    html_add(page, f->folder);
    zn_text_add(page, "</footer>\n</main>\n</body>\n</html>\n");
}
