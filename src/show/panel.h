/* The panel of a training run: where it is, its loss, its speed, its memory, what it moves, and what it does now. */
#ifndef ZN_SHOW_PANEL_H
#define ZN_SHOW_PANEL_H

#include "base/clock.h"
#include "show/canvas.h"
#include "show/smooth.h"
#include "zinc/train.h"

struct zn_panel {
    zn_clock clock;
    struct zn_plan_report plan; /* its strings are not used */
    size_t planned[3];          /* bytes of each tier */
    struct zn_step_report last; /* its strings are not used; step 0: none yet */
    struct zn_smooth loss, seconds, tokens, targets; /* of a step */
    struct zn_smooth read, written, sent;            /* bytes of a step */
    struct zn_trend trend;                           /* of the loss */
    struct zn_forecast forecast;
    double eval_loss;
    bool has_eval;
};

void zn_panel_init(struct zn_panel *panel);
void zn_panel_plan(struct zn_panel *panel, const struct zn_plan_report *plan);
void zn_panel_step(struct zn_panel *panel, const struct zn_step_report *step);

/* Before the first step, what is being done alone. */
void zn_panel_draw(const struct zn_panel *panel, struct zn_canvas *canvas, const struct zn_progress_view *view);

/* The share of the machine's peak that was reached in so many seconds a step; negative: nobody knows. */
double zn_panel_efficiency(const struct zn_plan_report *plan, double seconds);

#endif
