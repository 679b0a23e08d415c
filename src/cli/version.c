/* `zinc version`: the version, and what this build has; `zinc doctor` tells what the machine has. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "cli/commands.h"
#include "comm/comm.h"
#include "optim/registry.h"
#include "settings/settings.h"
#include "zinc/status.h"

struct version_flags {
    bool json;
};

static const struct zn_option flags[] = {
    {.name = "--json", .kind = ZN_OPTION_FLAG, .offset = offsetof(struct version_flags, json), .help = "One JSON object."},
};

static const struct zn_command command = {
    .name = "zinc version",
    .summary = "the version, and what this build has",
    .usage = "[--json]",
    .example = "zinc version",
    .options = flags,
    .n_options = sizeof flags / sizeof flags[0],
};

#if defined(__x86_64__)
#define KERNELS "plain avx2 avx512"
#else
#define KERNELS "plain"
#endif

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

/* The devices of --device: those that are built, or those that are not. */
static void add_devices(zn_text *text, bool is_built)
{
    const struct zn_setting *device = &zn_settings_table[offsetof(struct zn_origins, device)];
    for (const char *p = device->choices; *p;) {
        size_t n = strcspn(p, " ");
        const char *not_yet = device->not_yet ? device->not_yet : "";
        bool is_missing = false;
        for (const char *q = not_yet; *q;) {
            size_t m = strcspn(q, " ");
            is_missing = is_missing || (m == n && memcmp(p, q, n) == 0);
            q += m + (q[m] == ' ');
        }
        if (is_missing != is_built)
            zn_text_add(text, "%s%.*s", text->n_bytes ? " " : "", (int)n, p);
        p += n + (p[n] == ' ');
    }
}

struct line {
    const char *name, *text;
    bool is_list; /* of words */
};

static void add_json(zn_text *json, const struct line *line)
{
    char word[64];
    if (!line->is_list) {
        zn_text_add_quoted(json, line->text);
        return;
    }
    zn_text_add(json, "[");
    for (const char *p = line->text; *p;) {
        size_t n = strcspn(p, " ");
        snprintf(word, sizeof word, "%.*s", (int)n, p);
        zn_text_add(json, p == line->text ? "" : ", ");
        zn_text_add_quoted(json, word);
        p += n + (p[n] == ' ');
    }
    zn_text_add(json, "]");
}

static zn_status print(const struct version_flags *f)
{
    char mpi[256];
    zn_text built, missing;
    zn_comm_mpi_version(mpi, sizeof mpi);
    zn_text_init(&built);
    zn_text_init(&missing);
    add_devices(&built, true);
    add_devices(&missing, false);
    const struct line lines[] = {{"version", zn_version(), false},
                                 {"compiler", COMPILER, false},
                                 {"kernels", KERNELS, true},
                                 {"devices", built.data ? built.data : "", true},
                                 {"missing_devices", missing.data ? missing.data : "", true},
                                 {"optimizers", ZN_OPTIMIZER_NAMES, true},
                                 {"mpi", mpi, false},
                                 {"storage", "io_uring threads", true}};
    zn_text json;
    zn_text_init(&json);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        if (!f->json)
            printf("%-16s %s\n", lines[i].name, lines[i].text);
        zn_text_add(&json, "%s\"%s\": ", i ? ", " : "{", lines[i].name);
        add_json(&json, &lines[i]);
    }
    zn_status status = zn_text_status(&json);
    if (status == ZN_OK && f->json)
        printf("%s}\n", json.data);
    zn_text_fini(&json);
    zn_text_fini(&built);
    zn_text_fini(&missing);
    return status;
}

int zn_cli_version(int argc, char **argv)
{
    struct version_flags f = {0};
    struct zn_options options;
    int code = zn_cli_begin(&command, argc, argv, &f, &options);
    if (code < 0)
        code = zn_cli_end(&command, print(&f));
    zn_options_fini(&options, &f);
    return fflush(stdout) == 0 ? code : ZN_EXIT_FAILED;
}
