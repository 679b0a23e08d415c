/* `zinc generate`: text from a model. */
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/settings.h"
#include "cli/talk.h"
#include "zinc/generate.h"

struct generate_flags {
    struct settings_flags common;
    bool json;
};

/* Beside the settings. */
static const struct zn_option flags[] = {
    RANK_FLAGS,
    {.name = "--json", .kind = ZN_OPTION_FLAG, .offset = offsetof(struct generate_flags, json), .section = ZN_SECTION_OUTPUT,
     .help = "Print JSON instead of text, one object a line."},
};

static const struct zn_command command = {
    .name = "zinc generate",
    .summary = "text from a model",
    .usage = "--model DIR (--prompt TEXT | --prompts FILE | --chat) [flags]",
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

static zn_status check_output(void)
{
    if (fflush(stdout) != 0 || ferror(stdout))
        return zn_fail(ZN_ERR_IO, "standard output cannot be written");
    return ZN_OK;
}

/* What of the text is not on the screen yet. */
static zn_status put_result(const struct generate_flags *f, struct screen *screen, const struct zn_generate_result *r)
{
    clear_line(screen);
    if (r->is_shown && f->json)
        put_json(r);
    else if (r->is_shown) {
        if (!screen->streams)
            fwrite(r->text, 1, r->n_bytes, stdout);
        putchar('\n');
    }
    return check_output();
}

static zn_status answer_prompts(const struct generate_flags *f, struct screen *screen, zn_generator *generator)
{
    for (size_t i = 0; i < zn_generator_n_prompts(generator); i++) {
        struct zn_generate_result result;
        zn_status status = zn_generator_answer(generator, i, &result);
        if (status != ZN_OK) {
            clear_line(screen);
            return status;
        }
        if (i > 0 && result.is_shown && !f->json)
            putchar('\n'); /* an empty line between texts */
        status = put_result(f, screen, &result);
        zn_generate_result_fini(&result);
        ZN_TRY(status);
    }
    return ZN_OK;
}

/* Answers messages until there are no more. */
static zn_status talk(const struct generate_flags *f, struct screen *screen, zn_generator *generator)
{
    struct talk *talk;
    ZN_TRY(talk_open(&talk));
    zn_status status = ZN_OK;
    for (const char *message; status == ZN_OK && (message = talk_next(talk, generator));) {
        struct zn_generate_result result;
        talk_begin_answer();
        status = zn_generator_say(generator, message, &result);
        if (status == ZN_OK) {
            status = put_result(f, screen, &result);
            zn_generate_result_fini(&result);
        } else if (status == ZN_ERR_USAGE || status == ZN_ERR_INPUT) {
            note(screen, zn_error_message()); /* the conversation goes on without it */
            status = ZN_OK;
        }
    }
    talk_close(talk);
    return status;
}

static zn_status run(const struct generate_flags *f, struct screen *screen)
{
    const struct zn_generate_options options = {.settings = f->common.settings,
                                                .listener = {.self = screen,
                                                             .note = note,
                                                             .failed = show_failure,
                                                             .progress = screen->shows_progress ? show_progress : NULL,
                                                             .text = screen->streams ? show_text : NULL,
                                                             .is_stopped = talk_is_stopped}};
    zn_generator *generator;
    zn_status status = zn_generator_create(&options, &generator);
    clear_line(screen);
    if (status != ZN_OK)
        return status;
    status = zn_generator_n_prompts(generator) > 0 ? answer_prompts(f, screen, generator) : talk(f, screen, generator);
    zn_generator_destroy(generator);
    return status;
}

/* Ranks that -n starts have no standard input: the terminal is this process's. */
static zn_status check_ranks(const struct generate_flags *f)
{
    const char *prompt = f->common.settings.prompt;
    if (f->common.n_ranks > 0 && prompt && prompt[0] == '-' && !prompt[1])
        return zn_fail(ZN_ERR_USAGE, "--prompt - with -n: the ranks have no standard input; put the text into a file for --prompts, or "
                                     "leave -n off");
    return ZN_OK;
}

int zn_cli_generate(int argc, char **argv)
{
    struct generate_flags f = {0};
    struct settings_line line;
    int code = zn_cli_begin_settings(&command, ZN_FOR_GENERATE, argc, argv, &f, &line);
    if (code < 0) {
        struct screen screen = {.shows_progress = zn_cli_has_terminal(STDERR_FILENO),
                                .streams = !f.json && zn_cli_has_terminal(STDOUT_FILENO)};
        zn_status status = check_ranks(&f);
        if (status == ZN_OK)
            status = zn_cli_start_ranks(&f.common, argc, argv);
        if (status == ZN_OK)
            status = run(&f, &screen);
        code = screen.has_failed ? zn_cli_code(status) : zn_cli_end(&command, status);
    }
    zn_options_fini(&line.given, &f);
    return code;
}
