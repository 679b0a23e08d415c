/* `zinc generate`: text from a model. */
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/placement.h"
#include "zinc/generate.h"

struct generate_flags {
    const char *model, *prompt;
    bool chat, json, byte_tokenizer;
    int64_t max_tokens, top_k, seed, threads;
    double temperature, top_p;
    struct placement_flags place;
};

#define AT(field) offsetof(struct generate_flags, field)

static const struct zn_option flags[] = {
    {.name = "--model", .kind = ZN_OPTION_STRING, .offset = AT(model), .value = "DIR", .required = true,
     .help = "Hub folder: config.json, safetensors, and tokenizer.json unless its vocabulary is that of bytes."},
    {.name = "--prompt", .kind = ZN_OPTION_STRING, .offset = AT(prompt), .value = "TEXT", .required = true,
     .help = "What the text begins with."},
    {.name = "--chat", .kind = ZN_OPTION_FLAG, .offset = AT(chat),
     .help = "The prompt is a message to an assistant: apply the folder's chat template."},
    {.name = "--byte-tokenizer", .kind = ZN_OPTION_FLAG, .offset = AT(byte_tokenizer),
     .help = "Take text as bytes where the folder has no tokenizer."},
    {.name = "--max-tokens", .kind = ZN_OPTION_INT, .offset = AT(max_tokens), .value = "N",
     .initial = "64", .range = "[1, 2147483647]", .help = "New tokens at most; fewer when the model ends its text."},
    {.name = "--temperature", .kind = ZN_OPTION_DOUBLE, .offset = AT(temperature), .value = "X",
     .initial = "0", .range = "[0, inf)", .help = "0 takes the most likely token; above, tokens are drawn at random."},
    {.name = "--top-k", .kind = ZN_OPTION_INT, .offset = AT(top_k), .value = "K", .range = "[1, 2147483647]",
     .otherwise = "all", .help = "Draw among the K most likely tokens."},
    {.name = "--top-p", .kind = ZN_OPTION_DOUBLE, .offset = AT(top_p), .value = "P", .initial = "1",
     .range = "(0, 1]", .help = "Draw among the fewest tokens that together have probability P."},
    {.name = "--seed", .kind = ZN_OPTION_INT, .offset = AT(seed), .value = "N", .initial = "1",
     .range = "[0, 9223372036854775807]", .help = "The same seed draws the same text."},
    {.name = "--threads", .kind = ZN_OPTION_INT, .offset = AT(threads), .value = "N", .range = "[1, 4096]",
     .otherwise = "physical cores ÷ ranks that share them", .help = "Threads of each rank."},
    {.name = "--json", .kind = ZN_OPTION_FLAG, .offset = AT(json),
     .help = "Print one JSON object instead of text."},
    PLACEMENT_FLAGS(AT),
};

static const struct zn_command command = {
    .name = "zinc generate",
    .summary = "text from a model",
    .usage = "--model DIR --prompt TEXT [flags]",
    .example = "zinc generate --model ./SmolLM2-135M-Instruct --chat --prompt \"Name three colours.\"",
    .options = flags,
    .n_options = sizeof flags / sizeof flags[0],
    .hint = zn_cli_hint,
};

/* What a terminal shows while it waits; the text takes its line. */
struct screen {
    bool shows_progress, streams, has_line;
    bool has_failed; /* which is told, here or on another rank */
};

static void clear_line(struct screen *screen)
{
    if (screen->has_line)
        fprintf(stderr, "\r\033[K");
    screen->has_line = false;
}

static void show_text(void *self, const char *bytes, size_t n_bytes)
{
    clear_line(self);
    fwrite(bytes, 1, n_bytes, stdout);
    fflush(stdout);
}

static void show_progress(void *self, const char *what, int64_t done, int64_t total)
{
    struct screen *screen = self;
    fprintf(stderr, "\r\033[K%s %lld%%", what, (long long)(total > 0 ? 100 * (double)done / (double)total : 100));
    screen->has_line = true;
}

static void note(void *self, const char *text)
{
    clear_line(self);
    fprintf(stderr, "zinc generate: %s\n", text);
}

static void show_failure(void *self, const char *text, bool speaks)
{
    struct screen *screen = self;
    screen->has_failed = true;
    if (speaks)
        note(self, text);
}

static void put_json_text(const char *bytes, size_t n_bytes)
{
    putchar('"');
    for (size_t i = 0; i < n_bytes; i++) {
        unsigned char c = (unsigned char)bytes[i];
        if (c == '"' || c == '\\')
            printf("\\%c", c);
        else if (c == '\n')
            fputs("\\n", stdout);
        else if (c < 0x20 || c == 0x7f)
            printf("\\u%04x", c);
        else
            putchar(c);
    }
    putchar('"');
}

static void put_json_ids(const int32_t *ids, size_t n)
{
    putchar('[');
    for (size_t i = 0; i < n; i++)
        printf("%s%d", i ? "," : "", ids[i]);
    putchar(']');
}

static void put_json(const struct zn_generate_result *r)
{
    fputs("{\"text\":", stdout);
    put_json_text(r->text, r->n_bytes);
    fputs(",\"ids\":", stdout);
    put_json_ids(r->ids, r->n_ids);
    fputs(",\"prompt_ids\":", stdout);
    put_json_ids(r->prompt_ids, r->n_prompt_ids);
    puts("}");
}

static zn_status run(const struct generate_flags *f, struct screen *screen)
{
    struct zn_generate_options options;
    struct zn_generate_result result;
    zn_generate_options_init(&options);
    options.model = f->model;
    options.prompt = f->prompt;
    options.chat = f->chat;
    options.byte_tokenizer = f->byte_tokenizer;
    options.max_tokens = f->max_tokens;
    options.temperature = f->temperature;
    options.top_k = f->top_k;
    options.top_p = f->top_p;
    options.seed = (uint64_t)f->seed;
    options.threads = (int)f->threads;
    options.memory_limit = f->place.memory_limit;
    options.offload_param = f->place.off_param;
    options.nvme_paths = f->place.nvme_path.word;
    options.n_nvme_paths = f->place.nvme_path.n;
    options.allow_buffered_swap = f->place.allow_buffered_swap;
    options.listener.self = screen;
    options.listener.note = note;
    options.listener.failed = show_failure;
    options.listener.progress = screen->shows_progress ? show_progress : NULL;
    options.listener.text = screen->streams ? show_text : NULL;
    zn_status status = zn_generate(&options, &result);
    clear_line(screen);
    if (status != ZN_OK)
        return status;
    if (result.is_shown && f->json)
        put_json(&result);
    else if (result.is_shown) {
        if (!screen->streams)
            fwrite(result.text, 1, result.n_bytes, stdout);
        putchar('\n');
    }
    zn_generate_result_fini(&result);
    if (fflush(stdout) != 0 || ferror(stdout))
        return zn_fail(ZN_ERR_IO, "standard output cannot be written");
    return ZN_OK;
}

int zn_cli_generate(int argc, char **argv)
{
    struct generate_flags f = {0};
    struct zn_options given;
    int code = zn_cli_begin(&command, argc, argv, &f, &given);
    if (code < 0) {
        struct screen screen = {.shows_progress = zn_cli_has_terminal(STDERR_FILENO),
                                .streams = !f.json && zn_cli_has_terminal(STDOUT_FILENO)};
        zn_status status = zn_cli_place(&f.place, argc, argv);
        if (status == ZN_OK)
            status = run(&f, &screen);
        code = screen.has_failed ? zn_cli_code(status) : zn_cli_end(&command, status);
    }
    zn_options_fini(&given, &f);
    return code;
}
