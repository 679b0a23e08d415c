/* From paths to one row of tokens. Files that have to be encoded and follow one another make one cache. */
#include "train/data.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/files.h"
#include "base/size.h"
#include "formats/encode.h"

static const double SECONDS_BETWEEN_NOTES = 5;

struct opening {
    const struct zn_run *run;
    const char *folder, *cache;
    bool may_encode, bytes;
    int64_t vocabulary;
    int32_t config_end, end_of_text; /* as config.json says, and as it is; -1: none */
    zn_tokenizer *tokenizer; /* opened when it is needed */
    zn_token_source *source;
};

static bool holds(const char *folder, const char *name)
{
    char *path;
    if (zn_path_join(folder, name, &path) != ZN_OK)
        return false;
    bool found = zn_file_exists(path);
    free(path);
    return found;
}

static bool has_tokenizer(const char *folder)
{
    return holds(folder, "tokenizer.json") || holds(folder, "tokenizer.model") || holds(folder, "vocab.json");
}

/* The tokenizer's end of text goes before that of config.json. */
static zn_status open_tokenizer(struct opening *o)
{
    if (o->tokenizer || o->bytes)
        return ZN_OK;
    ZN_TRY(zn_tokenizer_open(o->folder, &o->tokenizer));
    if (zn_tokenizer_eos(o->tokenizer) >= 0)
        o->end_of_text = zn_tokenizer_eos(o->tokenizer);
    return ZN_OK;
}

/* ---- Encoding ---- */

struct progress {
    const struct zn_run *run;
    zn_cache_writer *writer;
    uint64_t n_bytes; /* of all files */
    int64_t n_tokens;
    double next; /* when to say how far it is */
};

static zn_status put_tokens(void *self, const int32_t *ids, const uint8_t *counts, size_t n)
{
    struct progress *p = self;
    p->n_tokens += (int64_t)n;
    return zn_cache_writer_append(p->writer, ids, counts, n);
}

static void say_progress(void *self, uint64_t n_bytes)
{
    struct progress *p = self;
    char done[ZN_SIZE_TEXT], all[ZN_SIZE_TEXT];
    if (zn_clock_now(&p->run->clock) < p->next)
        return;
    p->next = zn_clock_now(&p->run->clock) + SECONDS_BETWEEN_NOTES;
    zn_run_note(p->run, "encoding the data: %s of %s, %lld tokens", zn_size_text((size_t)n_bytes, done),
                zn_size_text((size_t)p->n_bytes, all), (long long)p->n_tokens);
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

static zn_status encode_files(const struct opening *o, const struct zn_data_file *files, size_t n_files,
                              struct progress *p)
{
    const struct zn_encoder_options options = {.tokenizer = o->tokenizer, .vocab_size = o->vocabulary,
                                               .end_of_text = o->end_of_text,
                                               .n_threads = encoding_threads(o->run)};
    const struct zn_token_sink sink = {.self = p, .put = put_tokens, .progress = say_progress};
    zn_encoder *encoder;
    ZN_TRY(sum_bytes(files, n_files, &p->n_bytes));
    ZN_TRY(zn_encoder_create(&options, &encoder));
    p->next = zn_clock_now(&o->run->clock) + SECONDS_BETWEEN_NOTES;
    zn_status status = zn_encode_files(encoder, files, n_files, &sink);
    zn_encoder_destroy(encoder);
    return status;
}

static zn_status make_cache(struct opening *o, const struct zn_data_file *files, size_t n_files,
                            const struct zn_cache_key *key, struct zn_token_cache *cache)
{
    struct progress p = {.run = o->run};
    ZN_TRY(open_tokenizer(o));
    ZN_TRY(zn_cache_writer_create(o->cache, key, o->vocabulary, &p.writer));
    zn_status status = encode_files(o, files, n_files, &p);
    if (status == ZN_OK)
        status = zn_cache_writer_finish(p.writer, cache);
    zn_cache_writer_destroy(p.writer);
    return status;
}

/* ---- Files ---- */

static bool is_encoded(const struct opening *o, const struct zn_data_file *file)
{
    return file->kind == ZN_DATA_JSONL || (file->kind == ZN_DATA_TEXT && !o->bytes);
}

static zn_status add_encoded(struct opening *o, const struct zn_data_file *files, size_t n_files)
{
    const struct zn_cache_options options = {.model_folder = o->folder, .vocab_size = o->vocabulary,
                                             .end_of_text = o->config_end, .bytes = o->bytes};
    struct zn_cache_key key;
    struct zn_token_cache cache = {.ids_fd = -1, .mask_fd = -1};
    bool found = false;
    ZN_TRY(zn_cache_key_of(&options, files, n_files, &key));
    if (o->cache)
        ZN_TRY(zn_token_cache_open(o->cache, &key, &cache, &found));
    if (!found && !o->may_encode)
        return zn_fail(ZN_ERR_IO, "%s: does not hold the tokens of %s that rank 0 has put there; all ranks need the "
                       "same output folder and data files", o->cache, files[0].path);
    if (!found)
        ZN_TRY(make_cache(o, files, n_files, &key, &cache));
    zn_status status = ZN_OK;
    if (cache.n_tokens > 0 && cache.n_counting == 0)
        status = zn_fail(ZN_ERR_INPUT, "%s: no token counts as a target; messages of the role 'assistant' count",
                         files[0].path);
    if (status == ZN_OK)
        status = zn_tokens_add_cache(o->source, files[0].path, &cache);
    if (status != ZN_OK)
        zn_token_cache_close(&cache);
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
            ZN_TRY(zn_tokens_add_file(o->source, &files->file[i]));
        i += n > 0 ? n : 1;
    }
    return ZN_OK;
}

zn_status zn_run_open_data(const struct zn_run *run, const char *folder, const char *const *paths, size_t n_paths,
                           const char *cache, bool may_encode, zn_token_source **source)
{
    int64_t vocabulary = run->model->module->vocabulary;
    struct opening o = {.run = run, .folder = folder, .cache = cache, .may_encode = may_encode,
                        .vocabulary = vocabulary, .bytes = !has_tokenizer(folder),
                        .config_end = vocabulary > 256 ? 256 : -1};
    if (!o.bytes)
        ZN_TRY(zn_config_end_of_text(run->config, &o.config_end));
    o.end_of_text = o.config_end;
    const struct zn_token_source_options options = {.vocab_size = vocabulary, .end_of_text = o.end_of_text,
                                                    .bytes = o.bytes};
    struct zn_data_files files = {0};
    zn_status status = zn_data_files_list(paths, n_paths, &files);
    if (status == ZN_OK)
        status = zn_tokens_create(&options, &o.source);
    if (status == ZN_OK)
        status = add_files(&o, &files);
    if (status == ZN_OK)
        status = zn_tokens_check(o.source, paths, n_paths);
    zn_data_files_fini(&files);
    zn_tokenizer_close(o.tokenizer);
    if (status != ZN_OK) {
        zn_tokens_close(o.source);
        return status;
    }
    *source = o.source;
    return ZN_OK;
}
