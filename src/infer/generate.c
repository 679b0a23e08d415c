/* From a folder and a prompt to text: opening, planning, then token by token. */
#include "zinc/generate.h"

#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "train/agreement.h"
#include "train/binding.h"
#include "infer/codec.h"
#include "train/run.h"
#include "infer/sampler.h"
#include "text/stop.h"

enum {
    CONFIG_BYTES = 16 * 1024 * 1024,
    PASS_TOKENS = 256,                  /* of the prompt, at most */
    TOKENIZER_BYTES = 64 * 1024 * 1024, /* which stays open, and the logits */
};

struct session {
    const struct zn_generate_listener *listener;
    struct zn_settings settings; /* with the folder of the model */
    struct zn_run run;
    struct zn_engine_options engine;
    zn_codec *codec;
    struct zn_stop stop;
    float *logits;
    struct zn_candidate *room;
    int32_t *prompt, *ids; /* ids: the new ones */
    int32_t *drawn;        /* by rank: the next */
    size_t n_prompt, n_ids;
    size_t n_shown; /* bytes of the text that the listener has */
};

void zn_generate_options_init(struct zn_generate_options *options)
{
    *options = (struct zn_generate_options){0};
    zn_settings_init(&options->settings, ZN_FOR_GENERATE);
}

void zn_generate_result_fini(struct zn_generate_result *result)
{
    free(result->text);
    free(result->ids);
    free(result->prompt_ids);
    *result = (struct zn_generate_result){0};
}

static bool is_shown(const struct session *s)
{
    return zn_comm_rank(s->run.comm) == 0;
}

static void progress(const struct session *s, const char *what, int64_t done, int64_t total)
{
    if (s->listener->progress && is_shown(s))
        s->listener->progress(s->listener->self, what, done, total);
}

/* The prompt as ids, and whether it and the answer fit the model. */
static zn_status read_prompt(struct session *s, int64_t vocabulary, int64_t max_positions)
{
    const struct zn_settings *o = &s->settings;
    ZN_TRY(zn_codec_open(s->settings.model, vocabulary, o->byte_tokenizer, &s->codec));
    ZN_TRY(zn_stop_init(&s->stop, s->run.config, s->settings.model, zn_codec_end(s->codec)));
    if (o->chat)
        ZN_TRY(zn_codec_encode_chat(s->codec, o->prompt, &s->prompt, &s->n_prompt));
    else
        ZN_TRY(zn_codec_encode(s->codec, o->prompt, &s->prompt, &s->n_prompt));
    if (s->n_prompt == 0)
        return zn_fail(ZN_ERR_USAGE, "--prompt: the model needs at least one token to begin with");
    if ((int64_t)s->n_prompt > max_positions || o->max_tokens > max_positions - (int64_t)s->n_prompt)
        return zn_fail(ZN_ERR_USAGE,
                       "--max-tokens %lld after a prompt of %zu: the model in %s takes at most %lld in all",
                       (long long)o->max_tokens, s->n_prompt, s->settings.model, (long long)max_positions);
    return ZN_OK;
}

static void warn_unknown(void *self, const char *tensor)
{
    zn_run_note(self, "tensor '%s' of the folder is not used by this model", tensor);
}

static zn_status open_folder(struct session *s)
{
    const struct zn_settings *o = &s->settings;
    char *path;
    zn_model *probe;
    ZN_TRY(zn_path_join(s->settings.model, "config.json", &path));
    zn_status status = zn_json_load_file(path, CONFIG_BYTES, &s->run.config);
    free(path);
    if (status != ZN_OK)
        return status;
    /* Made for one token to learn its limits, then for the sequence. */
    ZN_TRY(zn_model_create(s->run.config, 1, &probe));
    status = read_prompt(s, probe->module->vocabulary, probe->max_positions);
    zn_model_destroy(probe);
    if (status != ZN_OK)
        return status;
    ZN_TRY(zn_model_create(s->run.config, (int64_t)s->n_prompt + o->max_tokens, &s->run.model));
    ZN_TRY(zn_model_files_open(s->settings.model, &s->run.files));
    return zn_weights_check(s->run.model, s->run.files, warn_unknown, &s->run, &s->run.style);
}

static void loaded(void *self, int64_t done, int64_t total)
{
    progress(self, "loading", done, total);
}

static zn_status open_inputs(struct session *s)
{
    const struct zn_settings *o = &s->settings;
    ZN_TRY(zn_settings_check(o, ZN_FOR_GENERATE));
    ZN_TRY(zn_run_find_model(&s->run, &s->settings.model));
    ZN_TRY(open_folder(s));
    ZN_TRY(zn_run_measure(&s->run, (int)o->threads, o->memory_limit));
    size_t vocabulary = (size_t)s->run.model->module->vocabulary;
    s->logits = malloc(vocabulary * sizeof *s->logits);
    s->room = malloc(vocabulary * sizeof *s->room);
    s->ids = malloc((size_t)o->max_tokens * sizeof *s->ids);
    s->drawn = malloc((size_t)zn_comm_n_ranks(s->run.comm) * sizeof *s->drawn);
    if (!s->logits || !s->room || !s->ids || !s->drawn)
        return zn_fail(ZN_ERR_MEMORY, "no memory for %zu logits", vocabulary);
    return ZN_OK;
}

/* All ranks succeed or none. */
static zn_status set_up(struct session *s)
{
    const struct zn_settings *o = &s->settings;
    const struct zn_data none = {0};
    static const char *const here = ".";
    const struct zn_swap_paths swap = {.paths = o->nvme_path.n ? o->nvme_path.word : &here,
                                       .n_paths = o->nvme_path.n ? o->nvme_path.n : 1,
                                       .allow_buffered = o->allow_buffered_swap};
    ZN_TRY(zn_comm_agree(s->run.comm, open_inputs(s)));
    ZN_TRY(zn_run_bind(&s->run, (int)o->threads));
    s->engine = (struct zn_engine_options){.micro_batch = 1,
                                           .seq_len = s->n_prompt < PASS_TOKENS ? (int64_t)s->n_prompt : PASS_TOKENS,
                                           .extends = (int64_t)s->n_prompt + o->max_tokens};
    ZN_TRY(zn_run_plan_parameters(&s->run, &s->engine, o->offload_param,
                                  "fewer --max-tokens help where they or the prompt are many"));
    zn_run_record(&s->run, &s->engine, &s->settings);
    ZN_TRY(zn_agree_on_run(&s->run, o, &s->engine, &none, &none));
    s->run.loaded = loaded;
    s->run.loaded_self = s;
    return zn_run_start(&s->run, &s->engine, &swap, 0);
}

static zn_status read_in(struct session *s)
{
    int64_t n = (int64_t)s->n_prompt, most = s->engine.seq_len;
    for (int64_t at = 0; at < n; at += most) {
        int64_t rows = n - at < most ? n - at : most;
        ZN_TRY(zn_engine_extend(s->run.engine, s->prompt + at, rows, at + rows == n ? s->logits : NULL));
        progress(s, "prompt", at + rows, n);
    }
    return ZN_OK;
}

/* Bytes of the text that no later token can change: a character whose last bytes are missing is
 * U+FFFD at the end until they come. */
static size_t settled(const char *text, size_t n_bytes)
{
    while (n_bytes >= 3 && memcmp(text + n_bytes - 3, "\xef\xbf\xbd", 3) == 0)
        n_bytes -= 3;
    return n_bytes;
}

/* Tells the listener what is new. */
static zn_status show(struct session *s, bool is_last)
{
    if (!s->listener->text || !is_shown(s))
        return ZN_OK;
    char *text;
    size_t n_bytes;
    ZN_TRY(zn_codec_decode(s->codec, s->ids, s->n_ids, &text, &n_bytes));
    size_t end = is_last ? n_bytes : settled(text, n_bytes);
    if (end > s->n_shown) {
        s->listener->text(s->listener->self, text + s->n_shown, end - s->n_shown);
        s->n_shown = end;
    }
    free(text);
    return ZN_OK;
}

/* All ranks go on with the token that rank 0 has drawn. */
static zn_status draw(struct session *s, const struct zn_sampling *sampling, int32_t *id)
{
    int64_t vocabulary = s->run.model->module->vocabulary;
    ZN_TRY(zn_sample(sampling, s->logits, vocabulary, (int64_t)(s->n_prompt + s->n_ids), s->room, id));
    ZN_TRY(zn_comm_exchange(s->run.comm, id, sizeof *id, s->drawn));
    *id = s->drawn[0];
    return ZN_OK;
}

static zn_status write_on(struct session *s)
{
    const struct zn_settings *o = &s->settings;
    const struct zn_sampling sampling = {
        .temperature = o->temperature, .top_k = o->top_k, .top_p = o->top_p, .seed = (uint64_t)o->seed};
    for (;;) {
        int32_t id;
        ZN_TRY(draw(s, &sampling, &id));
        s->ids[s->n_ids++] = id;
        bool is_last = zn_stop_has(&s->stop, id) || (int64_t)s->n_ids == o->max_tokens;
        ZN_TRY(show(s, is_last));
        if (is_last)
            return ZN_OK;
        ZN_TRY(zn_engine_extend(s->run.engine, &id, 1, s->logits));
    }
}

static zn_status run(struct session *s)
{
    ZN_TRY(set_up(s));
    ZN_TRY(read_in(s));
    return write_on(s);
}

static void session_fini(struct session *s)
{
    zn_run_fini(&s->run);
    zn_stop_fini(&s->stop);
    zn_codec_close(s->codec);
    free(s->logits);
    free(s->room);
    free(s->prompt);
    free(s->ids);
    free(s->drawn);
}

static zn_status generate_as_rank(const struct zn_generate_options *options, zn_comm *comm,
                                  struct zn_generate_result *result)
{
    const struct zn_train_listener listener = {
        .self = options->listener.self, .note = options->listener.note, .failed = options->listener.failed};
    struct session s = {.listener = &options->listener, .settings = options->settings};
    struct zn_generate_result r = {.is_shown = zn_comm_rank(comm) == 0};
    zn_run_init(&s.run, comm, &listener);
    s.run.data_bytes = TOKENIZER_BYTES;
    zn_status status = run(&s);
    if (status == ZN_OK)
        status = zn_codec_decode(s.codec, s.ids, s.n_ids, &r.text, &r.n_bytes);
    if (status == ZN_OK) {
        r.ids = s.ids;
        r.n_ids = s.n_ids;
        r.prompt_ids = s.prompt;
        r.n_prompt_ids = s.n_prompt;
        s.ids = s.prompt = NULL;
        *result = r;
    } else {
        zn_run_tell_failure(&s.run, &listener, status);
    }
    session_fini(&s);
    return status;
}

zn_status zn_generate(const struct zn_generate_options *options, struct zn_generate_result *result)
{
    zn_clock clock;
    zn_comm *comm;
    zn_clock_init_real(&clock);
    ZN_TRY(zn_comm_is_launched() ? zn_comm_create_mpi(&clock, &comm) : zn_comm_create_self(&clock, &comm));
    zn_status status = generate_as_rank(options, comm, result);
    zn_comm_destroy(comm);
    return status;
}
