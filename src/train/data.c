/* From paths to a row of tokens and a list of examples. Files that have to be encoded and follow one another make one cache. */
#include "train/data.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"
#include "base/rng.h"
#include "text/byte_text.h"
#include "text/encode.h"
#include "text/stop.h"

static const char *const packings[] = {
    [ZN_PACKING_BEST_FIT] = "best-fit", [ZN_PACKING_NONE] = "none", [ZN_PACKING_STREAM] = "stream"};

zn_status zn_packing_parse(const char *name, zn_packing *packing)
{
    for (int i = 0; i < 3; i++) {
        if (strcmp(name ? name : "best-fit", packings[i]) == 0) {
            *packing = (zn_packing)i;
            return ZN_OK;
        }
    }
    return zn_fail(ZN_ERR_USAGE, "--packing: '%s' is not one of best-fit, none, stream", name);
}

const char *zn_packing_name(zn_packing packing)
{
    return packings[packing];
}

zn_status zn_packing_check(const char *given, bool truncate, bool has_examples)
{
    bool is_stream = given && strcmp(given, "stream") == 0;
    if (has_examples || (!truncate && (!given || is_stream)))
        return ZN_OK;
    if (truncate && is_stream)
        return zn_fail(ZN_ERR_USAGE, "--truncate-rows does not go with --packing stream, which cuts rows anywhere");
    return zn_fail(ZN_ERR_USAGE, "%s%s: the data hold no rows that are examples (prompts with completions, or messages); "
                   "text and token files are always a stream", truncate ? "--truncate-rows" : "--packing ",
                   truncate ? "" : given);
}

struct opening {
    const struct zn_run *run;
    const struct zn_data_options *options;
    bool bytes;
    int64_t vocabulary;
    int32_t config_end, end_of_text; /* as config.json says, and as it is; -1: none */
    zn_tokenizer *tokenizer; /* opened when it is needed */
    struct zn_data data;
};

/* The tokenizer's end of text goes before that of config.json. */
static zn_status open_tokenizer(struct opening *o)
{
    if (o->tokenizer || o->bytes)
        return ZN_OK;
    ZN_TRY(zn_tokenizer_open(o->options->folder, &o->tokenizer));
    if (zn_tokenizer_eos(o->tokenizer) >= 0)
        o->end_of_text = zn_tokenizer_eos(o->tokenizer);
    return ZN_OK;
}

/* ---- Encoding ---- */

struct progress {
    const struct zn_run *run;
    zn_cache_writer *writers[ZN_N_CACHE_PARTS];
};

static zn_status put_tokens(void *self, const int32_t *ids, const uint8_t *counts, size_t n)
{
    struct progress *p = self;
    return zn_cache_writer_append(p->writers[ZN_CACHE_DOCUMENTS], ids, counts, n);
}

static zn_status put_example(void *self, const int32_t *ids, const uint8_t *counts, size_t n)
{
    struct progress *p = self;
    zn_cache_writer_begin_example(p->writers[ZN_CACHE_EXAMPLES]);
    return zn_cache_writer_append(p->writers[ZN_CACHE_EXAMPLES], ids, counts, n);
}

static void tell_progress(void *self, uint64_t n_bytes)
{
    struct progress *p = self;
    zn_progress_set(p->run->listener.progress, (int64_t)n_bytes);
}

static zn_status sum_bytes(const struct zn_data_file *files, size_t n_files, uint64_t *sum)
{
    *sum = 0;
    for (size_t i = 0; i < n_files; i++) {
        int fd;
        uint64_t n_bytes;
        ZN_TRY(zn_file_open(files[i].path, &fd, &n_bytes));
        close(fd);
        *sum += n_bytes;
    }
    return ZN_OK;
}

/* The ranks of this node wait for the one that encodes: it takes their threads, too. */
static int encoding_threads(const struct zn_run *run)
{
    int64_t all = (int64_t)run->threads * zn_comm_n_local(run->comm);
    int most = run->machine.n_logical > run->threads ? run->machine.n_logical : run->threads;
    return all < most ? (int)all : most;
}

static void note_row(void *self, const char *text)
{
    const struct opening *o = self;
    zn_run_note(o->run, "%s", text);
}

/* What a person should know of the rows that were encoded. */
static zn_status tell_rows(struct opening *o, zn_encoder *encoder)
{
    struct zn_stop stop;
    zn_status status = zn_stop_init(&stop, o->run->config, o->options->folder, o->end_of_text);
    if (status == ZN_OK)
        zn_encoder_tell(encoder, stop.ids, stop.n, note_row, o);
    zn_stop_fini(&stop);
    return status;
}

static zn_status encode_files(struct opening *o, const struct zn_data_file *files, size_t n_files,
                              struct progress *p)
{
    const struct zn_encoder_options options = {.tokenizer = o->tokenizer, .vocab_size = o->vocabulary,
                                               .end_of_text = o->end_of_text,
                                               .n_threads = encoding_threads(o->run), .rows = o->run->rows};
    const struct zn_token_sink sink = {
        .self = p, .put = put_tokens, .put_example = put_example, .progress = tell_progress};
    zn_encoder *encoder;
    uint64_t n_bytes;
    ZN_TRY(sum_bytes(files, n_files, &n_bytes));
    ZN_TRY(zn_encoder_create(&options, &encoder));
    zn_progress_begin(o->run->listener.progress, "encoding the data", "bytes", (int64_t)n_bytes);
    zn_status status = zn_encode_files(encoder, files, n_files, &sink);
    if (status == ZN_OK)
        status = tell_rows(o, encoder);
    zn_encoder_destroy(encoder);
    return status;
}

static void close_caches(struct zn_token_cache *caches)
{
    for (int part = 0; part < ZN_N_CACHE_PARTS; part++)
        zn_token_cache_close(&caches[part]);
}

static zn_status make_caches(struct opening *o, const struct zn_data_file *files, size_t n_files,
                             const struct zn_cache_key *key, struct zn_token_cache *caches)
{
    struct progress p = {.run = o->run};
    ZN_TRY(open_tokenizer(o));
    zn_status status = ZN_OK;
    for (int part = 0; part < ZN_N_CACHE_PARTS && status == ZN_OK; part++)
        status = zn_cache_writer_create(o->options->cache, key, (zn_cache_part)part, o->vocabulary, &p.writers[part]);
    if (status == ZN_OK)
        status = encode_files(o, files, n_files, &p);
    for (int part = 0; part < ZN_N_CACHE_PARTS && status == ZN_OK; part++)
        status = zn_cache_writer_finish(p.writers[part], &caches[part]);
    for (int part = 0; part < ZN_N_CACHE_PARTS; part++)
        zn_cache_writer_destroy(p.writers[part]);
    return status;
}

/* Both parts, or none. */
static zn_status find_caches(const struct opening *o, const struct zn_cache_key *key, struct zn_token_cache *caches,
                             bool *found)
{
    *found = o->options->cache != NULL;
    for (int part = 0; part < ZN_N_CACHE_PARTS && *found; part++)
        ZN_TRY(zn_token_cache_open(o->options->cache, key, (zn_cache_part)part, &caches[part], found));
    if (!*found)
        close_caches(caches);
    return ZN_OK;
}

/* ---- Files ---- */

static bool is_encoded(const struct opening *o, const struct zn_data_file *file)
{
    return file->kind == ZN_DATA_JSONL || (file->kind == ZN_DATA_TEXT && !o->bytes);
}

/* Each cache that was taken over is closed in the list. */
static zn_status add_documents(struct opening *o, const char *name, struct zn_token_cache *cache)
{
    if (cache->n_tokens == 0)
        return ZN_OK;
    ZN_TRY(zn_tokens_add_cache(o->data.stream, name, cache));
    *cache = (struct zn_token_cache){.ids_fd = -1, .mask_fd = -1};
    return ZN_OK;
}

static zn_status add_examples(struct opening *o, const char *name, struct zn_token_cache *cache)
{
    if (o->options->packing == ZN_PACKING_STREAM || cache->n_examples == 0)
        return add_documents(o, name, cache);
    ZN_TRY(zn_examples_add_cache(o->data.examples, cache));
    *cache = (struct zn_token_cache){.ids_fd = -1, .mask_fd = -1};
    return ZN_OK;
}

static zn_status add_encoded(struct opening *o, const struct zn_data_file *files, size_t n_files)
{
    const struct zn_cache_options options = {.model_folder = o->options->folder, .vocab_size = o->vocabulary,
                                             .end_of_text = o->config_end, .bytes = o->bytes,
                                             .map = o->run->rows.map, .n_map = o->run->rows.n_map,
                                             .pairs = o->run->rows.pairs};
    struct zn_cache_key key;
    struct zn_token_cache caches[ZN_N_CACHE_PARTS] = {{.ids_fd = -1, .mask_fd = -1}, {.ids_fd = -1, .mask_fd = -1}};
    const char *name = files[0].path;
    bool found = false;
    ZN_TRY(zn_cache_key_of(&options, files, n_files, &key));
    ZN_TRY(find_caches(o, &key, caches, &found));
    if (!found && !o->options->may_encode)
        return zn_fail(ZN_ERR_IO, "%s: does not hold the tokens of %s that rank 0 has put there; all ranks need the "
                       "same output folder and data files", o->options->cache, name);
    zn_status status = found ? ZN_OK : make_caches(o, files, n_files, &key, caches);
    if (status == ZN_OK)
        status = add_documents(o, name, &caches[ZN_CACHE_DOCUMENTS]);
    if (status == ZN_OK)
        status = add_examples(o, name, &caches[ZN_CACHE_EXAMPLES]);
    close_caches(caches);
    return status;
}

static zn_status add_files(struct opening *o, const struct zn_data_files *files)
{
    for (size_t i = 0; i < files->n;) {
        size_t n = 0;
        while (i + n < files->n && is_encoded(o, &files->file[i + n]))
            n++;
        if (n > 0)
            ZN_TRY(add_encoded(o, &files->file[i], n));
        else
            ZN_TRY(zn_tokens_add_file(o->data.stream, &files->file[i]));
        i += n > 0 ? n : 1;
    }
    return ZN_OK;
}

void zn_data_close(struct zn_data *data)
{
    zn_tokens_close(data->stream);
    zn_examples_close(data->examples);
    *data = (struct zn_data){0};
}

static zn_status hash_data(const struct zn_run *run, struct zn_data *data)
{
    uint64_t stream, examples;
    zn_progress_begin(run->listener.progress, "reading the data", NULL, 0);
    ZN_TRY(zn_tokens_hash(data->stream, &stream));
    ZN_TRY(zn_examples_hash(data->examples, &examples));
    data->hash = zn_random_bits(stream, examples);
    return ZN_OK;
}

static bool has_text(const struct zn_data_files *files)
{
    for (size_t i = 0; i < files->n; i++)
        if (files->file[i].kind != ZN_DATA_BIN)
            return true;
    return false;
}

/* Pairs are rows and nothing else. */
static zn_status check_pairs(const struct opening *o, const struct zn_data_files *files)
{
    for (size_t i = 0; i < files->n && o->run->rows.pairs; i++)
        if (files->file[i].kind != ZN_DATA_JSONL)
            return zn_fail(ZN_ERR_INPUT, "%s: --objective dpo takes rows with 'prompt', 'chosen' and 'rejected' (.jsonl, .json)",
                           files->file[i].path);
    return ZN_OK;
}

static zn_status open_all(struct opening *o)
{
    const struct zn_token_source_options options = {.vocab_size = o->vocabulary, .end_of_text = o->end_of_text,
                                                    .bytes = o->bytes};
    struct zn_data_files files = {0};
    zn_status status = zn_data_files_list(o->options->paths, o->options->n_paths, &files);
    if (status == ZN_OK)
        status = check_pairs(o, &files);
    if (status == ZN_OK && (o->run->byte_tokenizer || has_text(&files)))
        status = zn_byte_text_check(o->options->folder, o->vocabulary, o->run->byte_tokenizer);
    if (status == ZN_OK)
        status = zn_tokens_create(&options, &o->data.stream);
    if (status == ZN_OK)
        status = zn_examples_create(&o->data.examples);
    if (status == ZN_OK)
        status = add_files(o, &files);
    if (status == ZN_OK && zn_examples_n(o->data.examples) == 0)
        status = zn_tokens_check(o->data.stream, o->options->paths, o->options->n_paths);
    if (status == ZN_OK)
        status = hash_data(o->run, &o->data);
    zn_data_files_fini(&files);
    return status;
}

zn_status zn_run_open_data(const struct zn_run *run, const struct zn_data_options *options, struct zn_data *data)
{
    int64_t vocabulary = run->model->module->vocabulary;
    bool found;
    ZN_TRY(zn_folder_has_tokenizer(options->folder, &found));
    struct opening o = {.run = run, .options = options, .vocabulary = vocabulary, .bytes = !found,
                        .config_end = vocabulary > 256 ? 256 : -1, .data.n_per_item = run->rows.pairs ? 2 : 1};
    if (!o.bytes)
        ZN_TRY(zn_config_end_of_text(run->config, &o.config_end));
    o.end_of_text = o.config_end;
    zn_status status = open_all(&o);
    zn_tokenizer_close(o.tokenizer);
    if (status != ZN_OK) {
        zn_data_close(&o.data);
        return status;
    }
    *data = o.data;
    return ZN_OK;
}
