/* `zinc eval`: loss and perplexity of a model on data. */
#include <stddef.h>
#include <stdio.h>

#include "base/json_text.h"
#include "cli/progress.h"
#include "cli/settings.h"
#include "zinc/data.h"
#include "zinc/train.h"

struct eval_flags {
    struct settings_flags common;
    bool json;
};

/* Beside the settings. */
static const struct zn_option flags[] = {
    RANK_FLAGS,
    {.name = "--json", .kind = ZN_OPTION_FLAG, .offset = offsetof(struct eval_flags, json), .section = ZN_SECTION_OUTPUT,
     .help = "Print one JSON object instead of text."},
};

static const struct zn_command command = {
    .name = "zinc eval",
    .summary = "loss and perplexity of a model on data",
    .usage = "--model DIR --data PATH… [flags]",
    .example = "zinc eval --model ./SmolLM2-135M --data held-out.bin --json",
    .options = flags,
    .n_options = sizeof flags / sizeof flags[0],
    .hint = zn_cli_hint,
};

struct screen {
    struct cli_progress progress;
    bool has_failed; /* which is told, here or on another rank */
};

static void note(void *self, const char *text)
{
    zn_live_note(((struct screen *)self)->progress.live, "%s", text);
}

static void show_failure(void *self, const char *text, bool speaks)
{
    struct screen *screen = self;
    screen->has_failed = true;
    if (speaks)
        zn_live_note(screen->progress.live, "%s", text);
}

/* JSON has no numbers that are not finite: null stands for them, and the reason says why. */
static void print_json(const struct zn_eval_result *r)
{
    printf("{\"loss\":");
    zn_json_put_number(stdout, r->loss, 9);
    printf(",\"perplexity\":");
    zn_json_put_number(stdout, r->perplexity, 9);
    printf(",\"windows\":%lld,\"examples\":%lld,\"tokens\":%lld,\"targets\":%lld", (long long)r->windows,
           (long long)r->examples, (long long)r->tokens, (long long)r->targets);
    if (r->reason[0]) {
        printf(",\"reason\":");
        zn_json_put_string(stdout, r->reason);
    }
    printf("}\n");
}

static void print_result(const struct zn_eval_result *r, bool as_json)
{
    if (as_json)
        print_json(r);
    else if (!r->reason[0])
        printf("loss %.6f, perplexity %.4f over %lld windows, %lld examples, %lld tokens, %lld targets\n", r->loss,
               r->perplexity, (long long)r->windows, (long long)r->examples, (long long)r->tokens, (long long)r->targets);
}

static zn_status eval(const struct eval_flags *f, struct screen *screen, int argc, char **argv)
{
    const struct zn_words *map = &f->common.settings.map;
    struct zn_eval_result result;
    ZN_TRY(zn_data_check_map(map->word, map->n));
    ZN_TRY(zn_cli_start_ranks(&f->common, argc, argv));
    ZN_TRY(cli_progress_begin(&screen->progress, command.name));
    const struct zn_eval_options options = {
        .settings = f->common.settings,
        .listener = {.self = screen, .note = note, .failed = show_failure, .progress = screen->progress.progress}};
    zn_status status = zn_eval(&options, &result);
    cli_progress_end(&screen->progress);
    ZN_TRY(status);
    if (!result.is_shown)
        return ZN_OK;
    print_result(&result, f->json);
    return result.reason[0] ? zn_fail(ZN_ERR_NUMERIC, "%s", result.reason) : ZN_OK;
}

int zn_cli_eval(int argc, char **argv)
{
    struct eval_flags f = {0};
    struct settings_line line;
    struct screen screen = {0};
    int code = zn_cli_begin_settings(&command, ZN_FOR_EVAL, argc, argv, &f, &line);
    if (code < 0) {
        zn_status status = eval(&f, &screen, argc, argv);
        cli_progress_end(&screen.progress);
        code = screen.has_failed ? zn_cli_code(status) : zn_cli_end(&command, status);
    }
    zn_options_fini(&line.given, &f);
    return code;
}
