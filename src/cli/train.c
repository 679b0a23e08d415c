/* `zinc train`: its flags are the settings of training. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"
#include "cli/settings.h"
#include "cli/signals.h"
#include "cli/train_show.h"
#include "settings/file.h"
#include "settings/write.h"
#include "zinc/context.h"
#include "zinc/data.h"
#include "zinc/train.h"

struct train_flags {
    struct settings_flags common;
    const char *config;
    bool print_config, quiet, verbose;
};

#define AT(field) offsetof(struct train_flags, field)

/* Beside the settings. */
/* What people may look for and this build does not have is refused by its name. */
#define NOT_BUILT(flag, what) {.name = flag, .kind = ZN_OPTION_##what, .section = ZN_SECTION_MODEL, .value = "X", .not_built = true}

static const struct zn_option flags[] = {
    RANK_FLAGS,
    {.name = "--config", .kind = ZN_OPTION_STRING, .offset = AT(config), .value = "FILE", .section = ZN_SECTION_OUTPUT,
     .not_in_file = true, .otherwise = "none",
     .help = "Flags from a file in YAML or JSON, as `zinc plan --fit` writes them, or DeepSpeed's ds_config.json; those given here "
             "stand."},
    {.name = "--print-config", .kind = ZN_OPTION_FLAG, .offset = AT(print_config), .section = ZN_SECTION_OUTPUT,
     .not_in_file = true, .help = "Print the settings and where each comes from, as a file for --config, and do not train."},
    {.name = "--quiet", .kind = ZN_OPTION_FLAG, .offset = AT(quiet), .section = ZN_SECTION_OUTPUT, .not_in_file = true,
     .help = "Show warnings and failures alone."},
    {.name = "--verbose", .kind = ZN_OPTION_FLAG, .offset = AT(verbose), .section = ZN_SECTION_OUTPUT, .not_in_file = true,
     .help = "Also show how long each part of the beginning took, and what each step moved."},
    NOT_BUILT("--lora-dropout", DOUBLE), NOT_BUILT("--use-dora", FLAG), NOT_BUILT("--neftune", DOUBLE),
    NOT_BUILT("--dora", FLAG), NOT_BUILT("--sequence-parallel", INT),
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

static zn_status train(const struct train_flags *f, const struct zn_words *notes, bool *has_failed, int argc, char **argv)
{
    char *line;
    train_screen *screen;
    if (f->quiet && f->verbose)
        return zn_fail(ZN_ERR_USAGE, "--quiet does not go with --verbose");
    ZN_TRY(zn_cli_start_ranks(&f->common, argc, argv));
    ZN_TRY(zn_cli_command_line(argc, argv, &line));
    zn_status status = train_screen_create(notes, f->quiet, f->verbose, &screen);
    if (status != ZN_OK) {
        free(line);
        return status;
    }
    const struct zn_train_options options = {.settings = f->common.settings,
                                             .stop = zn_cli_stop,
                                             .listener = train_screen_listener(screen),
                                             .command_line = line};
    status = zn_train(&options);
    *has_failed = train_screen_has_failed(screen);
    train_screen_destroy(screen);
    free(line);
    return status;
}

/* The settings as they are before the run decides the rest. Ranks are known here only where -n gives them or there is one. */
static zn_status print_config(struct train_flags *f, const struct settings_line *line)
{
    const struct zn_words *notes = &line->given.notes;
    if (!zn_context_is_launched())
        ZN_TRY(zn_settings_solve_batch(&f->common.settings, f->common.n_ranks ? f->common.n_ranks : 1));
    ZN_TRY(zn_settings_print(stdout, &f->common.settings, &line->command, f->config));
    if (notes->n > 0)
        printf("\n# ---- %s\n", zn_shown(f->config).text);
    for (size_t i = 0; i < notes->n; i++)
        printf("# %s\n", notes->word[i]);
    return fflush(stdout) == 0 ? ZN_OK : zn_fail(ZN_ERR_IO, "standard output cannot be written");
}

int zn_cli_train(int argc, char **argv)
{
    struct train_flags f = {0};
    struct settings_line line;
    bool has_failed = false;
    int code = zn_cli_begin_settings(&command, ZN_FOR_TRAIN, argc, argv, &f, &line);
    if (code < 0) {
        const struct zn_words *map = &f.common.settings.map;
        zn_status status = zn_data_check_map(map->word, map->n);
        if (status == ZN_OK && f.print_config)
            status = print_config(&f, &line);
        else if (status == ZN_OK)
            status = train(&f, &line.given.notes, &has_failed, argc, argv);
        code = has_failed ? zn_cli_code(status) : zn_cli_end(&command, status);
    }
    zn_options_fini(&line.given, &f);
    return code;
}
