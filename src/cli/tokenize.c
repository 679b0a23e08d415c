/* `zinc tokenize`: text to token files, and single texts to ids and back. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"
#include "base/json_text.h"
#include "base/machine.h"
#include "base/size.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "text/encode.h"
#include "formats/tokens.h"
#include "text/stop.h"

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

struct work {
    zn_token_writer *writer;
    struct cli_progress progress;
    uint64_t n_bytes; /* of all files */
    int64_t n_tokens;
};

static zn_status put_tokens(void *self, const int32_t *ids, const uint8_t *counts, size_t n)
{
    struct work *w = self;
    (void)counts;
    w->n_tokens += (int64_t)n;
    return zn_token_writer_append(w->writer, ids, (int64_t)n);
}

static void tell_progress(void *self, uint64_t n_bytes)
{
    zn_progress_set(((struct work *)self)->progress.progress, (int64_t)n_bytes);
}

static zn_status check_files(const struct zn_data_files *files, uint64_t *sum)
{
    for (size_t i = 0; i < files->n; i++) {
        int fd;
        uint64_t n_bytes;
        if (files->file[i].kind == ZN_DATA_BIN)
            return zn_fail(ZN_ERR_INPUT, "%s: is a token file already", files->file[i].path);
        ZN_TRY(zn_file_open(files->file[i].path, &fd, &n_bytes));
        close(fd);
        *sum += n_bytes;
    }
    return ZN_OK;
}

static zn_status encode_files(zn_encoder *encoder, const struct zn_data_files *files, struct work *w)
{
    const struct zn_token_sink sink = {.self = w, .put = put_tokens, .progress = tell_progress};
    zn_status status = cli_progress_begin(&w->progress, "zinc tokenize");
    if (status == ZN_OK) {
        zn_progress_begin(w->progress.progress, "encoding the data", "bytes", (int64_t)w->n_bytes);
        status = zn_encode_files(encoder, files->file, files->n, &sink);
    }
    cli_progress_end(&w->progress);
    return status;
}

/* The folder's config.json; an empty object where it has none. */
static zn_status load_config(const char *folder, zn_json **config)
{
    char *path;
    ZN_TRY(zn_path_join(folder, "config.json", &path));
    zn_status status = zn_file_exists(path) ? zn_json_load_file(path, 16 << 20, config)
                                            : zn_json_load_buffer("{}", 2, path, config);
    free(path);
    return status;
}

/* That of the tokenizer's configuration, else of the model's; -1: neither has one. */
static zn_status end_of_text(const char *folder, const zn_tokenizer *tokenizer, int32_t *id)
{
    zn_json *config;
    *id = zn_tokenizer_eos(tokenizer);
    if (*id >= 0)
        return ZN_OK;
    ZN_TRY(load_config(folder, &config));
    zn_status status = zn_config_end_of_text(config, id);
    zn_json_destroy(config);
    return status;
}

static void show_note(void *self, const char *text)
{
    (void)self;
    fprintf(stderr, "zinc tokenize: %s\n", text);
}

/* What a person should know of the rows that were encoded. */
static zn_status tell_rows(const char *folder, zn_encoder *encoder, int32_t otherwise)
{
    struct zn_stop stop;
    zn_json *config;
    ZN_TRY(load_config(folder, &config));
    zn_status status = zn_stop_init(&stop, config, folder, otherwise);
    if (status == ZN_OK)
        zn_encoder_tell(encoder, stop.ids, stop.n, show_note, NULL);
    zn_stop_fini(&stop);
    zn_json_destroy(config);
    return status;
}

static zn_status write_file(const struct tokenize_flags *f, const zn_tokenizer *tokenizer, int n_threads,
                            const struct zn_data_files *files)
{
    struct zn_encoder_options options = {.tokenizer = tokenizer, .n_threads = n_threads,
                                         .rows = {.map = f->map.word, .n_map = f->map.n}};
    struct work w = {0};
    zn_encoder *encoder;
    ZN_TRY(check_files(files, &w.n_bytes));
    ZN_TRY(end_of_text(f->model, tokenizer, &options.end_of_text));
    int64_t n_ids = zn_tokenizer_n_ids(tokenizer);
    if (options.end_of_text >= n_ids)
        n_ids = (int64_t)options.end_of_text + 1;
    ZN_TRY(zn_encoder_create(&options, &encoder));
    zn_status status = zn_token_writer_create(f->output, n_ids, &w.writer);
    if (status == ZN_OK)
        status = encode_files(encoder, files, &w);
    if (status == ZN_OK)
        status = zn_token_writer_finish(w.writer);
    if (status == ZN_OK)
        status = tell_rows(f->model, encoder, options.end_of_text);
    zn_token_writer_destroy(w.writer);
    zn_encoder_destroy(encoder);
    if (status != ZN_OK)
        return status;
    if (f->json) {
        fputs("{\"output\":", stdout);
        zn_json_put_string(stdout, f->output);
        printf(",\"tokens\":%lld,\"files\":%zu,\"bytes\":%llu}\n", (long long)w.n_tokens, files->n,
               (unsigned long long)w.n_bytes);
    } else {
        printf("wrote %s: %lld tokens from %zu files\n", f->output, (long long)w.n_tokens, files->n);
    }
    return print_done();
}

static zn_status write_files(const struct tokenize_flags *f, const zn_tokenizer *tokenizer, int n_threads,
                             const struct zn_words *inputs)
{
    struct zn_data_files files = {0};
    zn_status status = zn_data_files_list(inputs->word, inputs->n, &files);
    if (status == ZN_OK)
        status = write_file(f, tokenizer, n_threads, &files);
    zn_data_files_fini(&files);
    return status;
}

/* ---- The command ---- */

static zn_status check_usage(const struct tokenize_flags *f, const struct zn_words *inputs)
{
    int n = (f->text != NULL) + f->from_stdin + (f->decode.n > 0) + (inputs->n > 0);
    ZN_TRY(zn_row_options_check(&(struct zn_row_options){.map = f->map.word, .n_map = f->map.n}));
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
        status = write_files(f, tokenizer, n_threads, inputs);
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
