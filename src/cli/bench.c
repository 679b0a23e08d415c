/* `zinc bench`: picks the measurement. */
#include "cli/bench.h"

#include <stdio.h>
#include <string.h>

#include "cli/commands.h"

static const struct {
    const char *name;
    const char *summary;
    int (*run)(int argc, char **argv);
} benches[] = {
#define ENTRY(name, summary) {#name, summary, zn_cli_bench_##name},
    ZN_CLI_BENCHES(ENTRY)
#undef ENTRY
};

enum { N_BENCHES = sizeof benches / sizeof benches[0] };

static const struct zn_command command = {
    .name = "zinc bench",
    .summary = "measures, each beside the machine's limit",
    .usage = "WHAT [flags]; `zinc bench WHAT --help` tells more",
    .example = "zinc bench io --nvme-path /mnt/nvme",
    .words = ZN_CLI_BENCH_NAMES,
};

static const char *bench_name(const void *context, size_t i)
{
    (void)context;
    return i < N_BENCHES ? benches[i].name : NULL;
}

static zn_status refuse(const char *word)
{
    const char *near = zn_nearest_name(word, bench_name, NULL);
    return zn_fail(ZN_ERR_USAGE, "unknown measurement %s%s%s; `zinc bench --help` lists them", word,
                   near ? ", did you mean " : "", near ? near : "");
}

static void print_list(void)
{
    printf("\nmeasurements:\n");
    for (size_t i = 0; i < N_BENCHES; i++)
        printf("  %-10s  %s\n", benches[i].name, benches[i].summary);
}

int zn_cli_bench(int argc, char **argv)
{
    struct zn_options options;
    char nothing = 0;
    for (size_t i = 0; argc > 1 && i < N_BENCHES; i++)
        if (strcmp(argv[1], benches[i].name) == 0)
            return benches[i].run(argc - 1, argv + 1);
    if (argc > 1 && argv[1][0] != '-')
        return zn_cli_end(&command, refuse(argv[1]));
    int code = zn_cli_begin(&command, argc, argv, &nothing, &options);
    if (code < 0)
        code = zn_cli_end(&command, zn_fail(ZN_ERR_USAGE, "which one? `zinc bench --help` lists them"));
    else if (options.help == ZN_HELP_TEXT)
        print_list();
    zn_options_fini(&options, &nothing);
    return fflush(stdout) == 0 ? code : ZN_EXIT_FAILED;
}
