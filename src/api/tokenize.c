/* Files to a token file, for programs. */
#include <stdlib.h>
#include <unistd.h>

#include "base/files.h"
#include "base/json.h"
#include "base/machine.h"
#include "base/progress.h"
#include "formats/tokens.h"
#include "text/encode.h"
#include "text/stop.h"
#include "zinc/data.h"

struct work {
    const zn_tokenizer *tokenizer;
    const struct zn_tokenize_options *options;
    zn_token_writer *writer;
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
    zn_progress_set(((struct work *)self)->options->progress, (int64_t)n_bytes);
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
    zn_progress_begin(w->options->progress, "encoding the data", "bytes", (int64_t)w->n_bytes);
    zn_status status = zn_encode_files(encoder, files->file, files->n, &sink);
    zn_progress_end(w->options->progress);
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

static void tell_note(void *self, const char *text)
{
    const struct zn_tokenize_options *o = self;
    if (o->note)
        o->note(o->self, text);
}

/* What a person should know of the rows that were encoded. */
static zn_status tell_rows(const struct work *w, zn_encoder *encoder, int32_t otherwise)
{
    struct zn_stop stop;
    zn_json *config;
    struct zn_tokenize_options listener = *w->options;
    ZN_TRY(load_config(w->options->model, &config));
    zn_status status = zn_stop_init(&stop, config, w->options->model, otherwise);
    if (status == ZN_OK)
        zn_encoder_tell(encoder, stop.ids, stop.n, tell_note, &listener);
    zn_stop_fini(&stop);
    zn_json_destroy(config);
    return status;
}

static zn_status choose_threads(int wanted, int *n_threads)
{
    struct zn_machine machine;
    ZN_TRY(zn_machine_read("", &machine));
    ZN_TRY(zn_machine_check_threads(&machine, wanted));
    *n_threads = wanted > 0 ? wanted : machine.n_cores;
    return ZN_OK;
}

static zn_status write_file(struct work *w, const struct zn_data_files *files)
{
    const struct zn_tokenize_options *o = w->options;
    struct zn_encoder_options options = {.tokenizer = w->tokenizer, .rows = {.map = o->map, .n_map = o->n_map}};
    zn_encoder *encoder;
    ZN_TRY(choose_threads(o->threads, &options.n_threads));
    ZN_TRY(check_files(files, &w->n_bytes));
    ZN_TRY(end_of_text(o->model, w->tokenizer, &options.end_of_text));
    int64_t n_ids = zn_tokenizer_n_ids(w->tokenizer);
    if (options.end_of_text >= n_ids)
        n_ids = (int64_t)options.end_of_text + 1;
    ZN_TRY(zn_encoder_create(&options, &encoder));
    zn_status status = zn_token_writer_create(o->output, n_ids, &w->writer);
    if (status == ZN_OK)
        status = encode_files(encoder, files, w);
    if (status == ZN_OK)
        status = zn_token_writer_finish(w->writer);
    if (status == ZN_OK)
        status = tell_rows(w, encoder, options.end_of_text);
    zn_token_writer_destroy(w->writer);
    zn_encoder_destroy(encoder);
    return status;
}

zn_status zn_tokenizer_write_file(const zn_tokenizer *tokenizer, const struct zn_tokenize_options *options, struct zn_tokenized *result)
{
    struct work work = {.tokenizer = tokenizer, .options = options};
    struct zn_data_files files = {0};
    if (options->size != sizeof *options || result->size != sizeof *result)
        return zn_fail(ZN_ERR_USAGE, "zn_tokenizer_write_file: size of its options or of its result is not sizeof");
    zn_status status = zn_data_files_list(options->inputs, options->n_inputs, &files);
    if (status == ZN_OK)
        status = write_file(&work, &files);
    if (status == ZN_OK)
        *result = (struct zn_tokenized){
            .size = sizeof *result, .n_tokens = work.n_tokens, .n_files = files.n, .n_bytes = work.n_bytes};
    zn_data_files_fini(&files);
    return status;
}

zn_status zn_data_check_map(const char *const *map, size_t n_map)
{
    return zn_row_options_check(&(struct zn_row_options){.map = map, .n_map = n_map});
}
