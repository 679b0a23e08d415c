/* Reading a trace, and drawing it. Spans are thousands; what is kept of a lane is how busy it was in each slice of the step. */
#include "report/lanes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "report/html.h"
#include "report/page.h"

static const size_t MAX_TRACE = (size_t)256 << 20;

struct span {
    int lane;
    double begin, end; /* microseconds */
};

struct reading {
    struct zn_report_lanes *lanes;
    struct span *spans;
    size_t n_spans;
};

static int compare(const void *a, const void *b)
{
    const struct span *x = a, *y = b;
    if (x->lane != y->lane)
        return x->lane < y->lane ? -1 : 1;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static int lane_of(struct zn_report_lanes *lanes, const char *name)
{
    for (size_t i = 0; i < lanes->n; i++)
        if (strcmp(lanes->lane[i].name, name) == 0)
            return (int)i;
    if (lanes->n == ZN_REPORT_LANES)
        return -1;
    snprintf(lanes->lane[lanes->n].name, sizeof lanes->lane[0].name, "%.31s", name);
    return (int)lanes->n++;
}

/* Spans of rank 0, and its name. */
static zn_status read_event(struct reading *r, zn_json *event)
{
    const char *kind, *name;
    int64_t process;
    double begin, duration;
    ZN_TRY(zn_json_get_string(event, "ph", &kind));
    ZN_TRY(zn_json_get_string(event, "name", &name));
    ZN_TRY(zn_json_get_int(event, "pid", 0, INT64_MAX, &process));
    if (process != 0)
        return ZN_OK;
    if (strcmp(kind, "M") == 0 && strcmp(name, "process_name") == 0) {
        zn_json *args;
        const char *title;
        ZN_TRY(zn_json_get_object(event, "args", &args));
        ZN_TRY(zn_json_get_string(args, "name", &title));
        snprintf(r->lanes->title, sizeof r->lanes->title, "%s", title);
    }
    if (strcmp(kind, "X") != 0)
        return ZN_OK;
    ZN_TRY(zn_json_get_string(event, "cat", &name));
    ZN_TRY(zn_json_get_number(event, "ts", &begin));
    ZN_TRY(zn_json_get_number(event, "dur", &duration));
    int lane = lane_of(r->lanes, name);
    if (lane < 0 || !(begin >= 0 && duration >= 0 && begin + duration < 1e15))
        return ZN_OK;
    r->spans[r->n_spans++] = (struct span){lane, begin, begin + duration};
    if (begin + duration > r->lanes->seconds * 1e6)
        r->lanes->seconds = (begin + duration) / 1e6;
    return ZN_OK;
}

static void add_busy(struct zn_report_lanes *lanes, int lane, double begin, double end)
{
    double slice = lanes->seconds * 1e6 / ZN_REPORT_SLICES;
    lanes->lane[lane].busy += (end - begin) / 1e6;
    for (int i = (int)(begin / slice); i < ZN_REPORT_SLICES && i * slice < end; i++) {
        double from = i * slice > begin ? i * slice : begin, to = (i + 1) * slice < end ? (i + 1) * slice : end;
        if (to > from)
            lanes->lane[lane].share[i] += (float)((to - from) / slice);
    }
}

/* Spans that overlap count once. */
static void sum_spans(struct reading *r)
{
    double end = 0;
    if (r->n_spans)
        qsort(r->spans, r->n_spans, sizeof *r->spans, compare);
    for (size_t i = 0; i < r->n_spans; i++) {
        const struct span *s = &r->spans[i];
        if (i == 0 || s->lane != r->spans[i - 1].lane)
            end = 0;
        double from = s->begin > end ? s->begin : end;
        if (s->end > from)
            add_busy(r->lanes, s->lane, from, s->end);
        end = s->end > end ? s->end : end;
    }
}

static zn_status read_events(struct reading *r, zn_json *root)
{
    zn_json *events, *event;
    ZN_TRY(zn_json_get_array(root, "traceEvents", &events));
    r->spans = calloc(zn_json_n_items(events) + 1, sizeof *r->spans);
    if (!r->spans)
        return zn_fail(ZN_ERR_MEMORY, "no memory for a time line");
    for (size_t i = 0; i < zn_json_n_items(events); i++) {
        ZN_TRY(zn_json_item_object(events, i, &event));
        ZN_TRY(read_event(r, event));
    }
    sum_spans(r);
    return ZN_OK;
}

zn_status zn_report_lanes_read(const char *path, struct zn_report_lanes **lanes)
{
    zn_json *root;
    ZN_TRY(zn_json_load_file(path, MAX_TRACE, &root));
    struct reading r = {.lanes = calloc(1, sizeof *r.lanes)};
    zn_status status = r.lanes ? read_events(&r, root) : zn_fail(ZN_ERR_MEMORY, "no memory for a time line");
    free(r.spans);
    zn_json_destroy(root);
    if (status != ZN_OK) {
        free(r.lanes);
        return status;
    }
    *lanes = r.lanes;
    return ZN_OK;
}

/* ---- Drawing ---- */

enum { ROW = 36, BAR = 15, FOOT = 22, SIDE = 8, WIDE = 920, NARROW = 350 };

static int level_of(float share)
{
    return share > 0.66f ? 3 : share > 0.33f ? 2 : share > 0.01f ? 1 : 0;
}

/* Slices that are alike become one piece; a path for each strength. */
static void add_bar(zn_text *page, const float *share, double width, int y)
{
    static const char *const styles[] = {"", "busy low", "busy mid", "busy"};
    double slice = (width - 2 * SIDE) / ZN_REPORT_SLICES;
    for (int level = 1; level <= 3; level++) {
        zn_text_add(page, "<path class=\"%s\" d=\"", styles[level]);
        for (int i = 0, first; i < ZN_REPORT_SLICES; i++) {
            for (first = i; i < ZN_REPORT_SLICES && level_of(share[i]) == level; i++)
                ;
            if (i > first)
                zn_text_add(page, "M%.1f %dh%.1f", SIDE + first * slice, y, (i - first) * slice);
        }
        zn_text_add(page, "\" />");
    }
    zn_text_add(page, "\n");
}

static void add_svg(zn_text *page, const struct zn_report_lanes *l, int width)
{
    int height = (int)l->n * ROW + FOOT;
    zn_text_add(page, "<svg viewBox=\"0 0 %d %d\" role=\"img\"><title>One step by lane</title>\n", width, height);
    for (size_t i = 0; i < l->n; i++) {
        int top = (int)i * ROW;
        zn_text_add(page, "<text x=\"%d\" y=\"%d\">", SIDE, top + 12);
        html_add(page, l->lane[i].name);
        zn_text_add(page, "</text><text class=\"end\" x=\"%d\" y=\"%d\">%.0f%% busy</text>", width - SIDE, top + 12,
                    l->seconds > 0 ? 100 * l->lane[i].busy / l->seconds : 0);
        zn_text_add(page, "<path class=\"grid\" d=\"M%d %dH%d\" />", SIDE, top + 18 + BAR, width - SIDE);
        add_bar(page, l->lane[i].share, width, top + 18 + BAR / 2);
    }
    zn_text_add(page, "<text x=\"%d\" y=\"%d\">0</text><text class=\"end\" x=\"%d\" y=\"%d\">", SIDE, height - 6, width - SIDE,
                height - 6);
    html_add_duration(page, l->seconds);
    zn_text_add(page, "</text></svg>\n");
}

void report_add_lanes(zn_text *page, const struct zn_report_lanes *lanes)
{
    if (!lanes || lanes->n == 0)
        return;
    zn_text_add(page, "<h2>One step by lane</h2>\n<figure><p class=\"muted\">");
    html_add(page, lanes->title);
    zn_text_add(page, "; the darker, the busier</p>\n<div class=\"on-wide\">\n");
    add_svg(page, lanes, WIDE);
    zn_text_add(page, "</div>\n<div class=\"on-narrow\">\n");
    add_svg(page, lanes, NARROW);
    zn_text_add(page, "</div>\n</figure>\n");
}
