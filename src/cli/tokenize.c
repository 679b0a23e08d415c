/* `zinc tokenize`: text to token files, and single texts to ids and back. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json_text.h"
#include "base/machine.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "zinc/data.h"
#include "zinc/tokenizer.h"

struct tokenize_flags {
    const char *model, *output, *text;
    struct zn_words decode, map;
    int64_t threads;
    bool from_stdin, json;
};

#define AT(field) offsetof(struct tokenize_flags, field)

static const struct zn_option flags[] = {
    {.name = "--model", .kind = ZN_OPTION_STRING, .offset = AT(model), .value = "DIR", .required = true,
     .help = "Hub folder with tokenizer.json.",
     .more = "tokenizer_config.json and config.json name the end of text. ORG/NAME is in the hub's local cache."},
    {.name = "--output", .kind = ZN_OPTION_STRING, .offset = AT(output), .value = "FILE.bin",
     .help = "Token file to write from the inputs.",
     .more = "Inputs are .txt, .jsonl and .json files, or folders of them. The file appears under its name when it is whole."},
    {.name = "--map", .kind = ZN_OPTION_LIST, .offset = AT(map), .value = "NEW=OLD", .otherwise = "none",
     .help = "Read the key OLD of rows as NEW: messages=dialog."},
    {.name = "--text", .kind = ZN_OPTION_STRING, .offset = AT(text), .value = "STRING", .may_be_empty = true,
     .help = "Print the ids of this text, without special tokens around it."},
    {.name = "--stdin", .kind = ZN_OPTION_FLAG, .offset = AT(from_stdin),
     .help = "Print the ids of the text on standard input."},
    {.name = "--decode", .kind = ZN_OPTION_LIST, .offset = AT(decode), .value = "ID",
     .help = "Print the text of these ids, special tokens kept."},
    {.name = "--threads", .kind = ZN_OPTION_INT, .offset = AT(threads), .value = "N", .range = "[1, 4096]",
     .otherwise = "physical cores", .help = "Threads to encode with.",
     .more = "Ids do not depend on it."},
    {.name = "--json", .kind = ZN_OPTION_FLAG, .offset = AT(json),
     .help = "Print one JSON object instead of text."},
};

static const struct zn_command command = {
    .name = "zinc tokenize",
    .summary = "text or JSONL to a token file",
    .usage = "--model DIR INPUT… --output FILE.bin | --text STRING | --stdin | --decode ID…",
    .example = "zinc tokenize --model ./SmolLM2-135M book.txt chats.jsonl --output data.bin",
    .options = flags,
    .n_options = sizeof flags / sizeof flags[0],
    .hint = zn_cli_hint,
    .takes_words = true,
};

/* ---- One text ---- */

static zn_status print_done(void)
{
    if (fflush(stdout) != 0 || ferror(stdout))
        return zn_fail(ZN_ERR_IO, "standard output: %s", strerror(errno));
    return ZN_OK;
}

static zn_status print_ids(const zn_tokenizer *tokenizer, const char *text, size_t n_bytes, bool json)
{
    struct zn_ids ids = {0};
    zn_status status = zn_tokenizer_encode(tokenizer, text, n_bytes, false, &ids);
    if (status == ZN_OK) {
        fputs(json ? "{\"ids\":[" : "", stdout);
        for (size_t i = 0; i < ids.n; i++)
            printf("%s%d", i == 0 ? "" : json ? "," : " ", ids.id[i]);
        puts(json ? "]}" : "");
        status = print_done();
    }
    zn_ids_fini(&ids);
    return status;
}

static zn_status print_stdin(const zn_tokenizer *tokenizer, bool json)
{
    char *text = NULL;
    size_t n = 0, capacity = 0;
    zn_status status = ZN_OK;
    while (status == ZN_OK && !feof(stdin)) {
        if (n == capacity) {
            capacity = 2 * capacity + 65536;
            char *larger = realloc(text, capacity);
            if (!larger) {
                status = zn_fail(ZN_ERR_MEMORY, "standard input: out of memory for %zu bytes", capacity);
                break;
            }
            text = larger;
        }
        n += fread(text + n, 1, capacity - n, stdin);
        if (ferror(stdin))
            status = zn_fail(ZN_ERR_IO, "standard input: %s", strerror(errno));
    }
    if (status == ZN_OK)
        status = print_ids(tokenizer, text, n, json);
    free(text);
    return status;
}

static zn_status read_ids(const struct zn_words *words, struct zn_ids *ids)
{
    for (size_t i = 0; i < words->n; i++) {
        char *end;
        errno = 0;
        long id = strtol(words->word[i], &end, 10);
        if (end == words->word[i] || *end || errno || id < 0 || id > INT32_MAX)
            return zn_fail(ZN_ERR_USAGE, "--decode: '%s' is no id", words->word[i]);
        ZN_TRY(zn_ids_add(ids, (int32_t)id));
    }
    return ZN_OK;
}

static zn_status print_text(const zn_tokenizer *tokenizer, const struct zn_words *words, bool json)
{
    struct zn_ids ids = {0};
    char *text = NULL;
    size_t n_bytes;
    zn_status status = read_ids(words, &ids);
    if (status == ZN_OK)
        status = zn_tokenizer_decode(tokenizer, ids.id, ids.n, false, &text, &n_bytes);
    if (status == ZN_OK) {
        fputs(json ? "{\"text\":" : "", stdout);
        if (json)
            zn_json_put_text(stdout, text, n_bytes);
        else
            fwrite(text, 1, n_bytes, stdout);
        puts(json ? "}" : "");
        status = print_done();
    }
    free(text);
    zn_ids_fini(&ids);
    return status;
}

/* ---- Files ---- */

/* Notes wait until the live line is gone; one that there is no memory for is not shown. */
static void keep_note(void *self, const char *text)
{
    char *copy = strdup(text);
    if (!copy || zn_words_add(self, copy) != ZN_OK)
        free(copy);
}

static void show_notes(struct zn_words *notes)
{
    for (size_t i = 0; i < notes->n; i++) {
        fprintf(stderr, "zinc tokenize: %s\n", notes->word[i]);
        free((char *)(uintptr_t)notes->word[i]);
    }
    zn_words_free(notes);
}

static zn_status write_files(const struct tokenize_flags *f, const zn_tokenizer *tokenizer, const struct zn_words *inputs)
{
    struct cli_progress progress = {0};
    struct zn_words notes = {0};
    struct zn_tokenized made = {.size = sizeof made};
    zn_status status = cli_progress_begin(&progress, "zinc tokenize");
    const struct zn_tokenize_options options = {.size = sizeof options,
                                                .model = f->model,
                                                .inputs = inputs->word,
                                                .n_inputs = inputs->n,
                                                .output = f->output,
                                                .map = f->map.word,
                                                .n_map = f->map.n,
                                                .threads = (int)f->threads,
                                                .progress = progress.progress,
                                                .self = &notes,
                                                .note = keep_note};
    if (status == ZN_OK)
        status = zn_tokenizer_write_file(tokenizer, &options, &made);
    cli_progress_end(&progress);
    show_notes(&notes);
    ZN_TRY(status);
    if (f->json) {
        fputs("{\"output\":", stdout);
        zn_json_put_string(stdout, f->output);
        printf(",\"tokens\":%lld,\"files\":%zu,\"bytes\":%llu}\n", (long long)made.n_tokens, made.n_files,
               (unsigned long long)made.n_bytes);
    } else {
        printf("wrote %s: %lld tokens from %zu files\n", f->output, (long long)made.n_tokens, made.n_files);
    }
    return print_done();
}

/* ---- The command ---- */

static zn_status check_usage(const struct tokenize_flags *f, const struct zn_words *inputs)
{
    int n = (f->text != NULL) + f->from_stdin + (f->decode.n > 0) + (inputs->n > 0);
    ZN_TRY(zn_data_check_map(f->map.word, f->map.n));
    if (n != 1)
        return zn_fail(ZN_ERR_USAGE, "give either inputs, --text, --stdin or --decode");
    if (inputs->n > 0 && !f->output)
        return zn_fail(ZN_ERR_USAGE, "inputs need --output FILE.bin");
    if (inputs->n == 0 && f->output)
        return zn_fail(ZN_ERR_USAGE, "--output needs inputs: .txt, .jsonl and .json files or folders of them");
    return ZN_OK;
}

static zn_status choose_threads(int64_t wanted, int *n_threads)
{
    struct zn_machine machine;
    ZN_TRY(zn_machine_read("", &machine));
    ZN_TRY(zn_machine_check_threads(&machine, wanted));
    *n_threads = wanted > 0 ? (int)wanted : machine.n_cores;
    return ZN_OK;
}

static zn_status tokenize(const struct tokenize_flags *f, const struct zn_words *inputs)
{
    zn_tokenizer *tokenizer;
    zn_status status;
    int n_threads;
    ZN_TRY(choose_threads(f->threads, &n_threads));
    ZN_TRY(zn_tokenizer_open(f->model, &tokenizer));
    if (inputs->n == 0) /* parts of files take the threads otherwise */
        zn_tokenizer_set_threads(tokenizer, n_threads);
    if (f->text)
        status = print_ids(tokenizer, f->text, strlen(f->text), f->json);
    else if (f->from_stdin)
        status = print_stdin(tokenizer, f->json);
    else if (f->decode.n > 0)
        status = print_text(tokenizer, &f->decode, f->json);
    else
        status = write_files(f, tokenizer, inputs);
    zn_tokenizer_close(tokenizer);
    return status;
}

int zn_cli_tokenize(int argc, char **argv)
{
    struct tokenize_flags f = {0};
    struct zn_options given;
    int code = zn_cli_begin(&command, argc, argv, &f, &given);
    if (code < 0) {
        char *found = NULL;
        zn_status status = check_usage(&f, &given.words);
        if (status == ZN_OK)
            status = zn_cli_find_model(&command, &f.model, &found);
        if (status == ZN_OK)
            status = tokenize(&f, &given.words);
        code = zn_cli_end(&command, status);
        free(found);
    }
    zn_options_fini(&given, &f);
    return code;
}
