/* The rows of the panel. */
#include "show/panel.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "show/live.h"
#include "show/words.h"

enum { MEMORY = 20 }; /* steps that rates and the loss are smoothed over */

void zn_panel_init(struct zn_panel *p)
{
    *p = (struct zn_panel){0};
    zn_clock_init_real(&p->clock);
}

void zn_panel_plan(struct zn_panel *p, const struct zn_plan_report *plan)
{
    p->plan = *plan;
    for (int tier = 0; tier < 3; tier++)
        for (int kind = 0; kind < 5; kind++)
            p->planned[tier] += plan->bytes[kind][tier];
}

void zn_panel_step(struct zn_panel *p, const struct zn_step_report *s)
{
    if (s->evaluated && !s->eval_reason) {
        p->has_eval = true;
        p->eval_loss = s->eval_loss;
    }
    if (s->step == 0)
        return;
    p->last = *s;
    if (!s->skipped) {
        zn_smooth_add(&p->loss, s->loss, MEMORY);
        zn_trend_add(&p->trend, s->loss);
    }
    zn_smooth_add(&p->seconds, s->seconds, MEMORY);
    zn_smooth_add(&p->tokens, (double)s->tokens, MEMORY);
    zn_smooth_add(&p->targets, (double)s->targets, MEMORY);
    zn_smooth_add(&p->read, (double)s->nvme_read_bytes, MEMORY);
    zn_smooth_add(&p->written, (double)s->nvme_write_bytes, MEMORY);
    zn_smooth_add(&p->sent, (double)s->comm_bytes, MEMORY);
    zn_forecast_step(&p->forecast, zn_clock_now(&p->clock), s->seconds, s->steps - s->step);
}

double zn_panel_efficiency(const struct zn_plan_report *plan, double seconds)
{
    return plan->peak_flops > 0 && seconds > 0 ? plan->flops / seconds / plan->peak_flops : -1;
}

ZN_PRINTF(3, 4) static void item(struct zn_canvas *c, zn_style style, const char *format, ...)
{
    char text[2 * ZN_WORDS];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    zn_canvas_item(c, style, text);
}

static void draw_steps(const struct zn_panel *p, struct zn_canvas *c)
{
    char text[ZN_WORDS];
    double share = (double)p->last.step / (double)p->last.steps;
    double left = zn_forecast_left(&p->forecast, zn_clock_now(&p->clock));
    zn_canvas_row(c, "step");
    item(c, ZN_STYLE_BOLD, "%lld of %lld", (long long)p->last.step, (long long)p->last.steps);
    zn_canvas_bar(c, share, c->width < 80 ? 12 : c->width < 140 ? 30 : 50);
    item(c, ZN_STYLE_PLAIN, "%.0f%%", 100 * share);
    if (left >= 0 && p->last.step < p->last.steps)
        item(c, ZN_STYLE_PLAIN, "%s left", zn_words_seconds(left < 1 ? 1 : left, text));
}

static void draw_loss(const struct zn_panel *p, struct zn_canvas *c)
{
    double points[ZN_TREND_POINTS];
    int width = c->width < 80 ? 24 : c->width < 140 ? 40 : 80;
    zn_canvas_row(c, "loss");
    if (p->loss.weight > 0)
        item(c, ZN_STYLE_BOLD, "%.4f", p->loss.value);
    zn_canvas_curve(c, points, zn_trend_points(&p->trend, width, points), width);
    if (p->has_eval)
        item(c, ZN_STYLE_PLAIN, "held-out %.4f", p->eval_loss);
    if (!p->last.skipped)
        item(c, ZN_STYLE_DIM, "norm %.3f", p->last.grad_norm);
    item(c, ZN_STYLE_DIM, "lr %.3g", p->last.lr);
}

static void draw_speed(const struct zn_panel *p, struct zn_canvas *c)
{
    char text[ZN_WORDS];
    double seconds = p->seconds.value, share = zn_panel_efficiency(&p->plan, seconds);
    if (seconds <= 0)
        return;
    zn_canvas_row(c, "speed");
    item(c, ZN_STYLE_BOLD, "%s tokens/s", zn_words_count(p->tokens.value / seconds, text));
    if (p->targets.value < p->tokens.value)
        item(c, ZN_STYLE_PLAIN, "%s trained/s", zn_words_count(p->targets.value / seconds, text));
    item(c, ZN_STYLE_PLAIN, "%s a step", zn_words_seconds(seconds, text));
    if (share >= 0)
        item(c, ZN_STYLE_PLAIN, "%.0f%% of the machine's peak", 100 * share);
}

/* "1.2 of 3.4 GiB". */
static const char *of(size_t used, size_t all, char text[ZN_WORDS])
{
    char a[ZN_SIZE_TEXT], b[ZN_SIZE_TEXT];
    zn_size_text(used, a);
    zn_size_text(all, b);
    char *unit = strchr(a, ' '), *unit_of_all = strchr(b, ' ');
    if (unit && unit_of_all && strcmp(unit, unit_of_all) == 0)
        *unit = '\0';
    snprintf(text, ZN_WORDS, "%s of %s", a, b);
    return text;
}

static void draw_memory(const struct zn_panel *p, struct zn_canvas *c)
{
    static const char *const names[] = {"device", "host", "nvme"};
    const size_t used[] = {p->last.device_bytes, p->last.host_bytes, p->last.nvme_bytes};
    char text[ZN_WORDS];
    zn_canvas_row(c, "memory");
    if (p->plan.memory_limit > 0) {
        zn_canvas_bar(c, (double)p->last.resident_bytes / (double)p->plan.memory_limit, 12);
        item(c, ZN_STYLE_PLAIN, "%s", of(p->last.resident_bytes, p->plan.memory_limit, text));
    }
    for (int tier = 0; tier < 3; tier++)
        if (used[tier] > 0)
            item(c, ZN_STYLE_DIM, "%s %s", names[tier], of(used[tier], p->planned[tier], text));
}

static void draw_traffic(const struct zn_panel *p, struct zn_canvas *c)
{
    char text[ZN_WORDS];
    double seconds = p->seconds.value;
    bool has_drive = p->read.value + p->written.value > 0;
    if (seconds <= 0 || (!has_drive && p->sent.value <= 0))
        return;
    zn_canvas_row(c, "moved");
    if (has_drive) {
        item(c, ZN_STYLE_PLAIN, "drive read %s", zn_words_rate(p->read.value / seconds, text));
        item(c, ZN_STYLE_PLAIN, "written %s", zn_words_rate(p->written.value / seconds, text));
    }
    if (p->sent.value > 0)
        item(c, ZN_STYLE_PLAIN, "between ranks %s", zn_words_rate(p->sent.value / seconds, text));
}

static void draw_now(const struct zn_panel *p, struct zn_canvas *c, const struct zn_progress_view *view)
{
    char text[ZN_WORDS];
    const struct zn_activity *a = &view->now;
    zn_canvas_row(c, "now");
    if (!a->what)
        return;
    if (view->place.step)
        item(c, ZN_STYLE_PLAIN, "step %lld", (long long)view->place.step);
    else
        item(c, ZN_STYLE_PLAIN, "%s", a->what);
    if (view->place.step && p->seconds.value < 1 && a->seconds < 1)
        return; /* too fast to follow */
    if (a->total > 0)
        zn_canvas_bar(c, (double)a->done / (double)a->total, 12);
    if (view->place.step ? zn_words_place(&view->place, text)[0] : zn_words_done(a, text)[0])
        item(c, ZN_STYLE_PLAIN, "%s", text);
    item(c, ZN_STYLE_DIM, "%s", zn_words_seconds(a->seconds, text));
}

void zn_panel_draw(const struct zn_panel *p, struct zn_canvas *c, const struct zn_progress_view *view)
{
    if (p->last.step == 0 && !view->place.step) {
        if (view->now.what)
            zn_live_draw_progress(c, &view->now);
        return;
    }
    if (p->last.step > 0) {
        draw_steps(p, c);
        draw_loss(p, c);
        draw_speed(p, c);
        draw_memory(p, c);
        draw_traffic(p, c);
    }
    draw_now(p, c, view);
}
