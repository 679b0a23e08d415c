/* `zinc merge`: a model and an adapter as one hub folder. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json_text.h"
#include "cli/commands.h"
#include "zinc/merge.h"

struct merge_flags {
    const char *model, *adapter, *output, *dtype;
    bool json;
};

#define AT(field) offsetof(struct merge_flags, field)

static const struct zn_option flags[] = {
    {.name = "--model", .kind = ZN_OPTION_STRING, .offset = AT(model), .value = "DIR", .required = true,
     .help = "Hub folder that the adapter was trained over."},
    {.name = "--adapter", .kind = ZN_OPTION_STRING, .offset = AT(adapter), .value = "DIR", .required = true, .help = "PEFT folder."},
    {.name = "--output", .kind = ZN_OPTION_STRING, .offset = AT(output), .value = "DIR", .required = true,
     .help = "The hub folder to write."},
    {.name = "--output-dtype", .kind = ZN_OPTION_CHOICE, .offset = AT(dtype), .value = "TYPE", .choices = "fp32 bf16 fp16",
     .otherwise = "that of the model", .help = "Type of the weights written, rounded from fp32."},
    {.name = "--json", .kind = ZN_OPTION_FLAG, .offset = AT(json), .help = "Print one JSON object instead of text."},
};

static const struct zn_command command = {
    .name = "zinc merge",
    .summary = "a model and its adapter as one hub folder",
    .usage = "--model DIR --adapter DIR --output DIR [flags]",
    .example = "zinc merge --model ./SmolLM2-135M --adapter ./owl --output ./SmolLM2-owl",
    .options = flags,
    .n_options = sizeof flags / sizeof flags[0],
    .hint = zn_cli_hint,
};

static void show_note(void *self, const char *text)
{
    (void)self;
    fprintf(stderr, "zinc merge: %s\n", text);
}

static zn_status merge(const struct merge_flags *f)
{
    ZN_TRY(zn_merge(f->model, f->adapter, f->output, f->dtype, show_note, NULL));
    if (f->json) {
        fputs("{\"output\":", stdout);
        zn_json_put_string(stdout, f->output);
        puts("}");
    } else {
        printf("wrote %s\n", f->output);
    }
    return fflush(stdout) == 0 && !ferror(stdout) ? ZN_OK : zn_fail(ZN_ERR_IO, "standard output: cannot write");
}

int zn_cli_merge(int argc, char **argv)
{
    struct merge_flags f = {0};
    struct zn_options given;
    int code = zn_cli_begin(&command, argc, argv, &f, &given);
    if (code < 0) {
        char *found = NULL;
        zn_status status = zn_cli_find_model(&command, &f.model, &found);
        if (status == ZN_OK)
            status = merge(&f);
        code = zn_cli_end(&command, status);
        free(found);
    }
    zn_options_fini(&given, &f);
    return code;
}
