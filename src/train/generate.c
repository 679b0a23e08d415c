/* From a folder and a prompt to text: opening, planning, then token by token. */
#include "zinc/generate.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/machine.h"
#include "base/size.h"
#include "train/codec.h"
#include "train/generator.h"
#include "train/sampler.h"
#include "train/stop.h"

enum { CONFIG_BYTES = 16 * 1024 * 1024 };

/* What the process needs beside the plan: code, libraries, BLAS buffers, stacks, the tokenizer. */
static const size_t PROCESS_BYTES = 128 * 1024 * 1024;

struct session {
    const struct zn_generate_options *options;
    zn_clock clock;
    zn_ledger ledger;
    zn_json *config;
    zn_codec *codec;
    struct zn_stop stop;
    zn_model *model;
    zn_model_files *files;
    struct zn_weights_style style;
    zn_dtype type; /* of the parameters in memory */
    zn_generator_plan plan;
    zn_device *device;
    zn_generator *generator;
    float *logits;
    struct zn_candidate *room;
    int32_t *prompt, *ids; /* ids: the new ones */
    size_t n_prompt, n_ids;
    size_t n_shown; /* bytes of the text that the listener has */
};

void zn_generate_options_init(struct zn_generate_options *options)
{
    *options = (struct zn_generate_options){.max_tokens = 64, .top_p = 1, .seed = 1};
}

void zn_generate_result_fini(struct zn_generate_result *result)
{
    free(result->text);
    free(result->ids);
    free(result->prompt_ids);
    *result = (struct zn_generate_result){0};
}

static void note(const struct session *s, const char *format, ...) ZN_PRINTF(2, 3);
static void note(const struct session *s, const char *format, ...)
{
    if (!s->options->listener.note)
        return;
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    s->options->listener.note(s->options->listener.self, text);
}

static void progress(const struct session *s, const char *what, int64_t done, int64_t total)
{
    if (s->options->listener.progress)
        s->options->listener.progress(s->options->listener.self, what, done, total);
}

static zn_status check_options(const struct zn_generate_options *o)
{
    if (o->max_tokens < 1)
        return zn_fail(ZN_ERR_USAGE, "--max-tokens %lld: at least 1", (long long)o->max_tokens);
    if (!(o->temperature >= 0) || !(o->top_p > 0 && o->top_p <= 1) || o->top_k < 0)
        return zn_fail(ZN_ERR_USAGE, "temperature and top-k are at least 0, top-p is in (0, 1]");
    return ZN_OK;
}

/* The prompt as ids, and whether it and the answer fit the model. */
static zn_status read_prompt(struct session *s, int64_t vocabulary, int64_t max_positions)
{
    const struct zn_generate_options *o = s->options;
    ZN_TRY(zn_codec_open(o->model, vocabulary, &s->codec));
    ZN_TRY(zn_stop_init(&s->stop, s->config, o->model, zn_codec_end(s->codec)));
    if (o->chat)
        ZN_TRY(zn_codec_encode_chat(s->codec, o->prompt, &s->prompt, &s->n_prompt));
    else
        ZN_TRY(zn_codec_encode(s->codec, o->prompt, &s->prompt, &s->n_prompt));
    if (s->n_prompt == 0)
        return zn_fail(ZN_ERR_USAGE, "--prompt: the model needs at least one token to begin with");
    if ((int64_t)s->n_prompt > max_positions || o->max_tokens > max_positions - (int64_t)s->n_prompt)
        return zn_fail(ZN_ERR_USAGE,
                       "--max-tokens %lld after a prompt of %zu: the model in %s takes at most %lld in all",
                       (long long)o->max_tokens, s->n_prompt, o->model, (long long)max_positions);
    return ZN_OK;
}

static void warn_unknown(void *self, const char *tensor)
{
    note(self, "tensor '%s' of the folder is not used by this model", tensor);
}

static zn_status open_folder(struct session *s)
{
    const struct zn_generate_options *o = s->options;
    char *path;
    zn_model *probe;
    ZN_TRY(zn_path_join(o->model, "config.json", &path));
    zn_status status = zn_json_load_file(path, CONFIG_BYTES, &s->config);
    free(path);
    if (status != ZN_OK)
        return status;
    /* Made for one token to learn its limits, then for the sequence. */
    ZN_TRY(zn_model_create(s->config, 1, &probe));
    status = read_prompt(s, probe->module->vocabulary, probe->max_positions);
    zn_model_destroy(probe);
    if (status != ZN_OK)
        return status;
    ZN_TRY(zn_model_create(s->config, (int64_t)s->n_prompt + o->max_tokens, &s->model));
    ZN_TRY(zn_model_files_open(o->model, &s->files));
    return zn_weights_check(s->model, s->files, warn_unknown, s, &s->style);
}

/* Sizes everything; no more than the limit. */
static zn_status plan(struct session *s, const struct zn_machine *machine, int threads)
{
    const zn_module *module = s->model->module;
    ZN_TRY(zn_resident_type(s->model, s->files, &s->style, &s->type));
    ZN_TRY(zn_generator_plan_init(&s->plan, module, s->type, (int64_t)s->n_prompt,
                                  (int64_t)s->n_prompt + s->options->max_tokens));
    size_t need = s->plan.n_bytes + PROCESS_BYTES, limit = s->options->memory_limit;
    if (s->type != ZN_F32)
        need += (size_t)threads * ZN_CPU_SCRATCH_BYTES;
    if (limit == 0)
        limit = machine->memory_available / 10 * 9;
    char needed[ZN_SIZE_TEXT], limited[ZN_SIZE_TEXT];
    if (need > limit)
        return zn_fail(ZN_ERR_MEMORY, "needs %s, the limit is %s; fewer --max-tokens help where the prompt is long",
                       zn_size_text(need, needed), zn_size_text(limit, limited));
    return ZN_OK;
}

static void loaded(void *self, size_t done, size_t total)
{
    progress(self, "loading", (int64_t)done, (int64_t)total);
}

static zn_status start(struct session *s)
{
    struct zn_machine machine;
    ZN_TRY(zn_machine_read("", &machine));
    int threads = s->options->threads ? s->options->threads : machine.n_cores;
    ZN_TRY(zn_machine_check_threads(&machine, threads));
    ZN_TRY(plan(s, &machine, threads));
    size_t vocabulary = (size_t)s->model->module->vocabulary;
    s->logits = malloc(vocabulary * sizeof *s->logits);
    s->room = malloc(vocabulary * sizeof *s->room);
    s->ids = malloc((size_t)s->options->max_tokens * sizeof *s->ids);
    if (!s->logits || !s->room || !s->ids)
        return zn_fail(ZN_ERR_MEMORY, "no memory for %zu logits", vocabulary);
    ZN_TRY(zn_device_create_cpu(&s->ledger, &s->clock, threads, NULL, &s->device));
    ZN_TRY(zn_generator_create(s->device, s->model->module, s->type, &s->plan, &s->generator));
    return zn_resident_load(zn_generator_weights(s->generator), s->model, s->files, &s->style, loaded, s);
}

static zn_status read_in(struct session *s)
{
    int64_t n = (int64_t)s->n_prompt;
    for (int64_t at = 0; at < n; at += s->plan.rows) {
        int64_t rows = n - at < s->plan.rows ? n - at : s->plan.rows;
        ZN_TRY(zn_generator_extend(s->generator, s->prompt + at, rows, at + rows == n ? s->logits : NULL));
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
    if (!s->options->listener.text)
        return ZN_OK;
    char *text;
    size_t n_bytes;
    ZN_TRY(zn_codec_decode(s->codec, s->ids, s->n_ids, &text, &n_bytes));
    size_t end = is_last ? n_bytes : settled(text, n_bytes);
    if (end > s->n_shown) {
        s->options->listener.text(s->options->listener.self, text + s->n_shown, end - s->n_shown);
        s->n_shown = end;
    }
    free(text);
    return ZN_OK;
}

static zn_status write_on(struct session *s)
{
    const struct zn_generate_options *o = s->options;
    const struct zn_sampling sampling = {
        .temperature = o->temperature, .top_k = o->top_k, .top_p = o->top_p, .seed = o->seed};
    int64_t vocabulary = s->model->module->vocabulary;
    for (;;) {
        int32_t id;
        ZN_TRY(zn_sample(&sampling, s->logits, vocabulary, (int64_t)(s->n_prompt + s->n_ids), s->room, &id));
        s->ids[s->n_ids++] = id;
        bool is_last = zn_stop_has(&s->stop, id) || (int64_t)s->n_ids == o->max_tokens;
        ZN_TRY(show(s, is_last));
        if (is_last)
            return ZN_OK;
        ZN_TRY(zn_generator_extend(s->generator, &id, 1, s->logits));
    }
}

static zn_status run(struct session *s)
{
    ZN_TRY(check_options(s->options));
    ZN_TRY(open_folder(s));
    ZN_TRY(start(s));
    ZN_TRY(read_in(s));
    return write_on(s);
}

static void session_fini(struct session *s)
{
    zn_generator_destroy(s->generator);
    zn_device_destroy(s->device);
    zn_generator_plan_fini(&s->plan);
    zn_model_files_close(s->files);
    zn_model_destroy(s->model);
    zn_stop_fini(&s->stop);
    zn_codec_close(s->codec);
    zn_json_destroy(s->config);
    free(s->logits);
    free(s->room);
    free(s->prompt);
    free(s->ids);
}

zn_status zn_generate(const struct zn_generate_options *options, struct zn_generate_result *result)
{
    struct session s = {.options = options};
    struct zn_generate_result r = {0};
    zn_clock_init_real(&s.clock);
    zn_ledger_init(&s.ledger);
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
    }
    session_fini(&s);
    return status;
}
