/* `zinc train`: what is shown on the way. Its flags are the settings of training. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include "base/size.h"
#include "cli/settings.h"
#include "cli/signals.h"
#include "settings/file.h"
#include "settings/write.h"
#include "text/jsonl.h"
#include "zinc/train.h"

struct train_flags {
    struct settings_flags common;
    const char *config;
    bool print_config;
};

#define AT(field) offsetof(struct train_flags, field)

/* Beside the settings. */
static const struct zn_option flags[] = {
    RANK_FLAGS,
    {.name = "--config", .kind = ZN_OPTION_STRING, .offset = AT(config), .value = "FILE", .section = ZN_SECTION_OUTPUT,
     .not_in_file = true, .otherwise = "none",
     .help = "Flags from a file in YAML or JSON, as `zinc plan --fit` writes them; those given here stand."},
    {.name = "--print-config", .kind = ZN_OPTION_FLAG, .offset = AT(print_config), .section = ZN_SECTION_OUTPUT,
     .not_in_file = true, .help = "Print the settings and where each comes from, as a file for --config, and do not train."},
};

static zn_status fill(struct zn_options *options, void *target)
{
    const struct train_flags *f = target;
    return f->config ? zn_settings_load(options, target, f->config) : ZN_OK;
}

static const struct zn_command command = {
    .name = "zinc train",
    .summary = "train or fine-tune a model of the hub",
    .usage = "--model DIR --data PATH… [flags]",
    .example = "zinc train --model ./gpt2 --data book.bin --steps 100 --output ./gpt2-book",
    .options = flags,
    .n_options = sizeof flags / sizeof flags[0],
    .hint = zn_cli_hint,
    .fill = fill,
};

/* Where the run is shown, and what was. */
struct screen {
    bool is_terminal;
    bool has_failed; /* which is told, here or on another rank */
};

/* Begins a line in the place of the one that is written over. */
static const char *new_line(const struct screen *screen)
{
    return screen->is_terminal ? "\r\033[K" : "";
}

static void show_note(void *self, const char *text)
{
    (void)self;
    fprintf(stderr, "zinc train: %s\n", text);
    zn_cli_flush(stderr);
}

static void show_failure(void *self, const char *text, bool speaks)
{
    struct screen *screen = self;
    screen->has_failed = true;
    if (speaks)
        fprintf(stderr, "%szinc train: %s\n", new_line(screen), text);
}

static void show_writes(const struct zn_plan_report *p)
{
    char text[ZN_SIZE_TEXT];
    printf("  writes: model %s; ", zn_size_text(p->model_bytes, text));
    zn_size_text(p->checkpoint_bytes, text);
    if (p->keep == 0)
        printf("no checkpoints, as --keep is 0\n");
    else if (p->checkpoint_every == 0)
        printf("%s %s (%s)\n", p->saves_at_end ? "a checkpoint at the end," : "a checkpoint only when it is stopped,", text,
               p->saves_at_end ? "--save all" : "--save all: one at the end, too");
    else
        printf("checkpoints %s each, every %lld steps%s, %lld kept\n", text, (long long)p->checkpoint_every,
               p->saves_at_end ? " and at the end" : "", (long long)p->keep);
}

static void show_plan(void *self, const struct zn_plan_report *p)
{
    (void)self;
    static const char *const kinds[] = {"parameters", "gradients", "optimizer", "activations", "buffers"};
    char text[ZN_SIZE_TEXT];
    size_t sum[3] = {0};
    printf("%s, %.1f M parameters, %s; %lld steps of %lld tokens", p->architecture, (double)p->n_parameters / 1e6,
           p->precision, (long long)p->steps, (long long)p->tokens_per_step);
    if (p->ranks > 1)
        printf("; %d ranks, stage %d", p->ranks, p->stage);
    printf("; %d threads%s, %s%s%s", p->threads, p->ranks > 1 ? " each" : "", p->isa,
           p->recompute ? ", activations recomputed" : "", p->vertical ? ", vertical" : "");
    if (p->tile_bytes)
        printf(", tiles of %s", zn_size_text(p->tile_bytes, text));
    printf("\n  %-12s %12s %12s %12s\n", "", "device", "host", "nvme");
    for (int k = 0; k < 5; k++) {
        printf("  %-12s", kinds[k]);
        for (int tier = 0; tier < 3; tier++) {
            printf(" %12s", zn_size_text(p->bytes[k][tier], text));
            sum[tier] += p->bytes[k][tier];
        }
        putchar('\n');
    }
    printf("  %-12s", "planned");
    for (int tier = 0; tier < 3; tier++)
        printf(" %12s", zn_size_text(sum[tier], text));
    printf("\n  memory of this process: %s", zn_size_text(sum[0] + sum[1] + p->process_bytes, text));
    printf(" of %s\n", zn_size_text(p->memory_limit, text));
    if (p->schedule_reason)
        printf("  schedule: %s, as %s\n", p->vertical ? "vertical" : "horizontal", p->schedule_reason);
    show_writes(p);
    fflush(stdout);
}

static void show_held_out(const struct zn_step_report *s)
{
    if (s->evaluated && s->eval_reason)
        printf(" held-out loss not finite: %s", s->eval_reason);
    else if (s->evaluated)
        printf(" held-out loss %.4f", s->eval_loss);
}

/* On a terminal one line that is written over; elsewhere a line a step. */
static void show_step(void *self, const struct zn_step_report *s)
{
    const struct screen *screen = self;
    char device[ZN_SIZE_TEXT];
    if (s->step == 0) { /* before the first */
        printf("before training:");
        show_held_out(s);
        putchar('\n');
        fflush(stdout);
        return;
    }
    double rate = (double)s->tokens / s->seconds, trained = (double)s->targets / s->seconds;
    double left = (double)(s->steps - s->step) * s->seconds;
    if (s->skipped)
        fprintf(stderr, "%szinc train: step %lld skipped: %s\n", new_line(screen), (long long)s->step, s->reason);
    printf("%sstep %lld/%lld  ", new_line(screen), (long long)s->step, (long long)s->steps);
    if (s->skipped)
        printf("skipped");
    else
        printf("loss %.4f  norm %.3f", s->loss, s->grad_norm);
    printf("  lr %.3g  %.0f tokens/s", s->lr, rate);
    if (s->targets < s->tokens)
        printf(" (%.0f trained)", trained);
    printf("  %s", zn_size_text(s->device_bytes, device));
    if (screen->is_terminal && s->step < s->steps)
        printf("  %d:%02d:%02d left", (int)(left / 3600), (int)fmod(left / 60, 60), (int)fmod(left, 60));
    if (s->evaluated)
        putchar(' ');
    show_held_out(s);
    if (!screen->is_terminal || s->evaluated || s->step == s->steps)
        putchar('\n');
    zn_cli_flush(stdout);
}

static void show_end(void *self, const char *output)
{
    (void)self;
    printf("wrote %s\n", output);
}

static void show_saved(void *self, const char *checkpoint, double seconds)
{
    printf("%ssaved %s in %.1f s\n", new_line(self), checkpoint, seconds);
    zn_cli_flush(stdout);
}

static zn_status train(const struct train_flags *f, struct screen *screen, int argc, char **argv)
{
    bool catches = false;
    const struct zn_train_options options = {
        .settings = f->common.settings,
        .stop = zn_cli_stop,
        .stop_self = &catches,
        .listener = {screen, show_plan, show_step, show_note, show_end, show_saved, show_failure}};
    ZN_TRY(zn_cli_start_ranks(&f->common, argc, argv));
    return zn_train(&options);
}

int zn_cli_train(int argc, char **argv)
{
    struct train_flags f = {0};
    struct settings_line line;
    struct screen screen = {.is_terminal = zn_cli_has_terminal(STDOUT_FILENO)};
    int code = zn_cli_begin_settings(&command, ZN_FOR_TRAIN, argc, argv, &f, &line);
    if (code < 0) {
        const struct zn_words *map = &f.common.settings.map;
        zn_status status = zn_row_options_check(&(struct zn_row_options){.map = map->word, .n_map = map->n});
        if (status == ZN_OK && f.print_config)
            status = zn_settings_print(stdout, &f.common.settings, &line.command, f.config);
        else if (status == ZN_OK)
            status = train(&f, &screen, argc, argv);
        code = screen.has_failed ? zn_cli_code(status) : zn_cli_end(&command, status);
    }
    zn_options_fini(&line.given, &f);
    return code;
}
