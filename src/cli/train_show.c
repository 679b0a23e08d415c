/* What is shown of a training run. */
#include "cli/train_show.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "base/text.h"
#include "cli/settings.h"
#include "cli/signals.h"
#include "show/live.h"
#include "show/panel.h"
#include "show/words.h"

struct train_screen {
    struct zn_terminal terminal;
    zn_progress *progress;
    struct zn_panel panel; /* guarded by the live part's lock */
    zn_live *live;
    bool is_verbose, has_failed;
    const struct zn_words *notes; /* NULL once they are told */
};

static void show_notes(train_screen *screen)
{
    for (size_t i = 0; screen->notes && i < screen->notes->n; i++)
        zn_live_note(screen->live, "%s", screen->notes->word[i]);
    screen->notes = NULL;
}

static void show_note(void *self, const char *text)
{
    train_screen *screen = self;
    show_notes(screen);
    zn_live_note(screen->live, "%s", text);
}

static void show_failure(void *self, const char *text, bool speaks)
{
    train_screen *screen = self;
    screen->has_failed = true;
    if (!speaks)
        return;
    show_notes(screen);
    zn_live_note(screen->live, "%s", text);
}

/* ---- The plan ---- */

static void add_writes(zn_text *t, const struct zn_plan_report *p)
{
    char text[ZN_SIZE_TEXT];
    zn_text_add(t, "  writes: model %s; ", zn_size_text(p->model_bytes, text));
    zn_size_text(p->checkpoint_bytes, text);
    if (p->keep == 0)
        zn_text_add(t, "no checkpoints, as --keep is 0\n");
    else if (p->checkpoint_every == 0)
        zn_text_add(t, "a checkpoint, %s, %s\n", text, p->saves_at_end ? "at the end" : "only when it is stopped (--save all: at the end)");
    else
        zn_text_add(t, "checkpoints %s each, every %lld steps%s, %lld kept\n", text, (long long)p->checkpoint_every,
                    p->saves_at_end ? " and at the end" : "", (long long)p->keep);
}

static void add_bytes(zn_text *t, const struct zn_plan_report *p, size_t sum[3])
{
    static const char *const kinds[] = {"parameters", "gradients", "optimizer", "activations", "buffers"};
    char text[ZN_SIZE_TEXT];
    zn_text_add(t, "  %-12s %12s %12s %12s\n", "", "device", "host", "nvme");
    for (int k = 0; k < 5; k++) {
        zn_text_add(t, "  %-12s", kinds[k]);
        for (int tier = 0; tier < 3; tier++) {
            zn_text_add(t, " %12s", zn_size_text(p->bytes[k][tier], text));
            sum[tier] += p->bytes[k][tier];
        }
        zn_text_add(t, "\n");
    }
    zn_text_add(t, "  %-12s", "planned");
    for (int tier = 0; tier < 3; tier++)
        zn_text_add(t, " %12s", zn_size_text(sum[tier], text));
}

static void add_plan(zn_text *t, const struct zn_plan_report *p)
{
    char text[ZN_SIZE_TEXT];
    size_t sum[3] = {0};
    zn_text_add(t, "%s, %.1f M parameters, ", p->architecture, (double)p->n_parameters / 1e6);
    if (p->n_adapters > 0)
        zn_text_add(t, "%.3g M of them in adapters, ", (double)p->n_adapters / 1e6);
    zn_text_add(t, "%s; %lld steps of %lld tokens", p->precision, (long long)p->steps, (long long)p->tokens_per_step);
    if (p->ranks > 1)
        zn_text_add(t, "; %d ranks, stage %d", p->ranks, p->stage);
    if (p->device)
        zn_text_add(t, "; %s", p->device);
    zn_text_add(t, "; %d threads%s, %s%s%s", p->threads, p->ranks > 1 ? " each" : "", p->isa,
                strcmp(p->recompute, "off") == 0 ? "" : ", activations recomputed", p->vertical ? ", vertical" : "");
    if (strncmp(p->recompute, "keep=", 5) == 0)
        zn_text_add(t, " but for %s segments", p->recompute + 5);
    if (p->tile_bytes)
        zn_text_add(t, ", tiles of %s", zn_size_text(p->tile_bytes, text));
    zn_text_add(t, "\n");
    add_bytes(t, p, sum);
    if (p->device) {
        zn_text_add(t, "\n  memory of %s: %s", p->device, zn_size_text(sum[0], text));
        zn_text_add(t, " of %s", zn_size_text(p->device_limit, text));
    }
    zn_text_add(t, "\n  memory of this process: %s", zn_size_text((p->shares_memory ? sum[0] : 0) + sum[1] + p->process_bytes, text));
    zn_text_add(t, " of %s\n", zn_size_text(p->memory_limit, text));
    if (p->schedule_reason)
        zn_text_add(t, "  schedule: %s, as %s\n", p->vertical ? "vertical" : "horizontal", p->schedule_reason);
    add_writes(t, p);
}

static void show_plan(void *self, const struct zn_plan_report *p)
{
    train_screen *screen = self;
    zn_text text;
    show_notes(screen);
    zn_text_init(&text);
    add_plan(&text, p);
    if (zn_text_status(&text) == ZN_OK)
        zn_live_print(screen->live, "%s", text.data);
    zn_text_fini(&text);
    zn_live_lock(screen->live);
    zn_panel_plan(&screen->panel, p);
    zn_live_unlock(screen->live);
}

/* ---- Steps ---- */

static void add_held_out(zn_text *t, const struct zn_step_report *s)
{
    if (s->evaluated && s->eval_reason)
        zn_text_add(t, " held-out loss not finite: %s", s->eval_reason);
    else if (s->evaluated)
        zn_text_add(t, " held-out loss %.4f", s->eval_loss);
}

static void add_moved(zn_text *t, const struct zn_step_report *s)
{
    char text[ZN_SIZE_TEXT];
    if (s->comm_bytes)
        zn_text_add(t, "  sent %s", zn_size_text((size_t)s->comm_bytes, text));
    if (s->nvme_read_bytes)
        zn_text_add(t, "  read %s", zn_size_text((size_t)s->nvme_read_bytes, text));
    if (s->nvme_write_bytes)
        zn_text_add(t, "  written %s", zn_size_text((size_t)s->nvme_write_bytes, text));
}

static void add_step(zn_text *t, const struct zn_step_report *s, bool is_verbose)
{
    char device[ZN_SIZE_TEXT];
    zn_text_add(t, "step %lld/%lld  ", (long long)s->step, (long long)s->steps);
    if (s->skipped)
        zn_text_add(t, "skipped");
    else
        zn_text_add(t, "loss %.4f  norm %.3f", s->loss, s->grad_norm);
    if (s->has_pairs && !s->skipped)
        zn_text_add(t, "  accuracy %.2f  margin %.3f", s->accuracy, s->margin);
    zn_text_add(t, "  lr %.3g  %.0f tokens/s", s->lr, (double)s->tokens / s->seconds);
    if (s->targets < s->tokens)
        zn_text_add(t, " (%.0f trained)", (double)s->targets / s->seconds);
    zn_text_add(t, "  %s", zn_size_text(s->device_bytes, device));
    if (is_verbose)
        add_moved(t, s);
    if (s->evaluated)
        zn_text_add(t, " ");
    add_held_out(t, s);
}

static void show_step(void *self, const struct zn_step_report *s)
{
    train_screen *screen = self;
    zn_text text;
    zn_live_lock(screen->live);
    zn_panel_step(&screen->panel, s);
    zn_live_unlock(screen->live);
    zn_text_init(&text);
    if (s->skipped)
        zn_live_note(screen->live, "step %lld skipped: %s", (long long)s->step, s->reason);
    if (s->step == 0) { /* before the first */
        zn_text_add(&text, "before training:");
        add_held_out(&text, s);
    } else {
        add_step(&text, s, screen->is_verbose);
    }
    if (zn_text_status(&text) == ZN_OK)
        zn_live_print(screen->live, "%s\n", text.data);
    zn_text_fini(&text);
}

static void show_end(void *self, const char *output)
{
    train_screen *screen = self;
    zn_live_print(screen->live, "wrote %s\n", output);
}

static void show_summary(void *self, const char *text)
{
    train_screen *screen = self;
    zn_live_print(screen->live, "%s", text);
}

static void show_saved(void *self, const char *checkpoint, double seconds)
{
    train_screen *screen = self;
    zn_live_print(screen->live, "saved %s in %.1f s\n", checkpoint, seconds);
}

/* ---- The live part ---- */

static void draw(void *self, struct zn_canvas *canvas, const struct zn_progress_view *view)
{
    zn_panel_draw(&((train_screen *)self)->panel, canvas, view);
}

static bool is_stopping(void *self)
{
    (void)self;
    return zn_cli_is_asked();
}

static void flush(void *self, FILE *out)
{
    (void)self;
    zn_cli_flush(out);
}

zn_status train_screen_create(const struct zn_words *notes, bool is_quiet, bool is_verbose, train_screen **screen)
{
    train_screen *s = calloc(1, sizeof *s);
    if (!s)
        return zn_fail(ZN_ERR_MEMORY, "no memory to show a run");
    s->is_verbose = is_verbose;
    s->notes = notes;
    zn_cli_terminal(&s->terminal);
    zn_panel_init(&s->panel);
    zn_status status = zn_progress_create(&s->progress);
    if (status == ZN_OK)
        status = zn_live_create(&(struct zn_live_options){.command = "zinc train", .terminal = &s->terminal, .progress = s->progress,
                                                          .is_quiet = is_quiet, .is_verbose = is_verbose, .self = s, .draw = draw,
                                                          .is_stopping = is_stopping, .flush = flush}, &s->live);
    if (status != ZN_OK) {
        train_screen_destroy(s);
        return status;
    }
    *screen = s;
    return ZN_OK;
}

void train_screen_destroy(train_screen *s)
{
    if (!s)
        return;
    zn_live_destroy(s->live);
    zn_progress_destroy(s->progress);
    zn_terminal_fini(&s->terminal);
    free(s);
}

struct zn_train_listener train_screen_listener(train_screen *screen)
{
    return (struct zn_train_listener){.self = screen, .plan = show_plan, .step = show_step, .note = show_note, .end = show_end,
                                      .saved = show_saved, .summary = show_summary, .failed = show_failure, .progress = screen->progress};
}

bool train_screen_has_failed(const train_screen *screen)
{
    return screen->has_failed;
}
