/* The page of several runs: their curves in one chart, and a card of facts for each. */
#include <stdio.h>
#include <stdlib.h>

#include "report/html.h"
#include "report/page.h"

enum { POINTS = 300 };

static void add_title(zn_text *page, const void *self)
{
    zn_text_add(page, "%zu runs", *(const size_t *)self);
}

static void add_key(zn_text *page, const struct zn_report_facts *run, size_t i)
{
    char style[32];
    snprintf(style, sizeof style, "line c%zu", i);
    zn_text_add(page, "<span class=\"key\"><svg viewBox=\"0 0 22 10\" aria-hidden=\"true\"><path class=\"%s\" d=\"M1 5h20\" /></svg>",
                style);
    report_add_last_part(page, run->folder);
    zn_text_add(page, "</span>");
}

static const zn_curve *curve_of(const struct zn_report_log *log, int which)
{
    const zn_curve *curves[] = {&log->loss, &log->held_out, &log->grad_norm, &log->lr, &log->speed};
    return curves[which];
}

/* One quantity of all runs. */
static void add_chart(zn_text *page, const struct zn_report_facts *runs, size_t n, int which)
{
    static const struct {
        const char *title;
        bool from_zero, may_be_log;
    } charts[] = {{"Loss", false, true}, {"Held-out loss", false, true}, {"Gradient norm", true, true},
                  {"Learning rate", true, false}, {"Tokens a second", true, false}};
    const zn_curve *more[ZN_REPORT_RUNS];
    zn_curve *thin = calloc(n, sizeof *thin);
    int64_t n_values = 0;
    if (!thin) {
        page->failed = true;
        return;
    }
    for (size_t i = 0; i < n; i++) {
        thin[i] = *curve_of(runs[i].log, which);
        zn_curve_thin(&thin[i], POINTS);
        n_values += thin[i].n;
        if (i)
            more[i - 1] = &thin[i];
    }
    if (n_values > 0) {
        zn_text_add(page, "<h2>%s</h2>\n<figure><p class=\"muted\">", charts[which].title);
        for (size_t i = 0; i < n; i++)
            add_key(page, &runs[i], i);
        zn_text_add(page, "</p>\n");
        const struct zn_chart chart = {.title = charts[which].title, .line = &thin[0], .more = more, .n_more = n - 1,
                                       .from_zero = charts[which].from_zero, .may_be_log = charts[which].may_be_log,
                                       .width = 920, .height = which == 0 ? 320 : 240};
        report_add_chart(page, &chart);
        zn_text_add(page, "%s</figure>\n", zn_chart_is_log(&chart) ? "<figcaption>logarithmic axis</figcaption>" : "");
    }
    free(thin);
}

static void add_fact(zn_text *page, const char *name, double value, void (*add)(zn_text *page, double value))
{
    zn_text_add(page, "<div><dt>%s</dt><dd>", name);
    add(page, value);
    zn_text_add(page, "</dd></div>\n");
}

static void add_facts(zn_text *page, const struct zn_report_facts *run)
{
    const struct zn_report_log *log = run->log;
    zn_text_add(page, "<dl class=\"tiles\">\n");
    add_fact(page, "steps", (double)log->last_step, html_add_count);
    if (log->loss.n > 0)
        add_fact(page, "loss", log->loss.last.value, html_add_short);
    if (log->held_out.n > 0)
        add_fact(page, "held-out loss", log->held_out.last.value, html_add_short);
    add_fact(page, "time in steps", log->seconds, html_add_duration);
    if (log->seconds > 0)
        add_fact(page, "tokens/s", log->tokens / log->seconds, html_add_count);
    if (log->resident_bytes >= 0)
        add_fact(page, "memory", log->resident_bytes, html_add_size);
    zn_text_add(page, "</dl>\n");
}

void zn_report_runs(zn_text *page, const struct zn_report_facts *runs, size_t n)
{
    report_begin_page(page, add_title, &n);
    for (int which = 0; which < 5; which++)
        add_chart(page, runs, n, which);
    for (size_t i = 0; i < n; i++) {
        zn_text_add(page, "<h2>");
        add_key(page, &runs[i], i);
        zn_text_add(page, "</h2>\n<p class=\"muted\">");
        html_add(page, runs[i].folder);
        if (runs[i].steps >= 0 && runs[i].log->last_step < runs[i].steps)
            zn_text_add(page, ": cut short at step %lld of %lld, or still going on", (long long)runs[i].log->last_step,
                        (long long)runs[i].steps);
        zn_text_add(page, "</p>\n");
        report_add_origin(page, &runs[i]);
        add_facts(page, &runs[i]);
    }
    zn_text_add(page, "<footer>zinc %s</footer>\n</main>\n</body>\n</html>\n", zn_version());
}
