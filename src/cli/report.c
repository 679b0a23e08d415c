/* `zinc report`: one HTML page of a run. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "zinc/report.h"

struct report_flags {
    const char *output, *log, *trace;
};

#define AT(field) offsetof(struct report_flags, field)

static const struct zn_option flags[] = {
    {.name = "--output", .kind = ZN_OPTION_STRING, .offset = AT(output), .value = "FILE.html",
     .otherwise = "OUTPUT_DIR/report.html; ./runs.html of several runs", .help = "The page to write."},
    {.name = "--log", .kind = ZN_OPTION_STRING, .offset = AT(log), .value = "FILE",
     .otherwise = "OUTPUT_DIR/metrics.jsonl", .help = "The log, where `zinc train --log` put it elsewhere."},
    {.name = "--trace", .kind = ZN_OPTION_STRING, .offset = AT(trace), .value = "FILE",
     .otherwise = "the one that run.json names", .help = "The time line that `zinc train --trace` wrote."},
};

static const struct zn_command command = {
    .name = "zinc report",
    .summary = "one self-contained HTML page of a run, or of several",
    .usage = "OUTPUT_DIR… [--output FILE.html]",
    .example = "zinc report ./zinc-out --output run.html",
    .options = flags,
    .n_options = sizeof flags / sizeof flags[0],
    .takes_words = true,
};

static void note(void *self, const char *text)
{
    (void)self;
    fprintf(stderr, "zinc report: %s\n", text);
}

static zn_status report(const struct report_flags *f, const struct zn_words *words)
{
    if (words->n == 0)
        return zn_fail(ZN_ERR_USAGE, "give the output folder of a run of `zinc train`, or several");
    const struct zn_report_options options = {.folder = words->word[0], .others = words->word + 1, .n_others = words->n - 1,
                                              .log = f->log, .trace = f->trace, .output = f->output, .note = note};
    ZN_TRY(zn_report(&options));
    size_t n = strlen(options.folder);
    if (f->output)
        printf("wrote %s\n", f->output);
    else if (words->n > 1)
        printf("wrote runs.html\n");
    else
        printf("wrote %s%sreport.html\n", options.folder, options.folder[n - 1] == '/' ? "" : "/");
    return ZN_OK;
}

int zn_cli_report(int argc, char **argv)
{
    struct report_flags f = {0};
    struct zn_options given;
    int code = zn_cli_begin(&command, argc, argv, &f, &given);
    if (code < 0)
        code = zn_cli_end(&command, report(&f, &given.words));
    zn_options_fini(&given, &f);
    return code;
}
