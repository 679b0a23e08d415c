/* A model made ready for texts: opening, planning, loading. */
#include "infer/generator.h"

#include <stdlib.h>

#include "base/files.h"
#include "train/adapters.h"
#include "train/agreement.h"
#include "train/binding.h"
#include "train/device.h"

enum {
    CONFIG_BYTES = 16 * 1024 * 1024,
    PASS_TOKENS = 256,                  /* of the prompt, at most */
    TALK_TOKENS = 4096,                 /* of a conversation, unless --seq-len says otherwise */
    TOKENIZER_BYTES = 64 * 1024 * 1024, /* which stays open, and the logits */
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

void generator_progress(const zn_generator *g, const char *what, int64_t done, int64_t total)
{
    if (g->listener.progress && zn_comm_rank(g->comm) == 0)
        g->listener.progress(g->listener.self, what, done, total);
}

static bool is_conversation(const zn_generator *g)
{
    return !g->settings.prompt && !g->settings.prompts;
}

/* How a message names prompt i. */
static struct zn_shown name_of(const zn_generator *g, size_t i)
{
    char text[512];
    if (g->settings.prompt)
        return zn_shown("--prompt");
    snprintf(text, sizeof text, "%s, prompt %zu", g->settings.prompts, i + 1);
    return zn_shown(text);
}

static zn_status check_length(const zn_generator *g, size_t i, int64_t max_positions)
{
    const struct zn_settings *o = &g->settings;
    size_t n = g->encoded[i].n;
    if (n == 0)
        return zn_fail(ZN_ERR_USAGE, "%s: the model needs at least one token to begin with", name_of(g, i).text);
    if ((int64_t)n > max_positions || o->max_tokens > max_positions - (int64_t)n)
        return zn_fail(ZN_ERR_USAGE, "%s: --max-tokens %lld after a prompt of %zu: the model in %s takes at most %lld in all",
                       name_of(g, i).text, (long long)o->max_tokens, n, o->model, (long long)max_positions);
    if (ZN_GIVEN(o, seq_len) && (int64_t)n + o->max_tokens > o->seq_len)
        return zn_fail(ZN_ERR_USAGE, "%s: --max-tokens %lld after a prompt of %zu are more than --seq-len %lld",
                       name_of(g, i).text, (long long)o->max_tokens, n, (long long)o->seq_len);
    return ZN_OK;
}

/* The prompts as ids, and whether each fits the model with its text. */
static zn_status encode_prompts(zn_generator *g, int64_t max_positions)
{
    g->encoded = calloc(g->prompts.n + 1, sizeof *g->encoded);
    if (!g->encoded)
        return zn_fail(ZN_ERR_MEMORY, "no memory for %zu prompts", g->prompts.n);
    for (size_t i = 0; i < g->prompts.n; i++) {
        const struct zn_prompt *p = &g->prompts.prompt[i];
        struct zn_id_list *ids = &g->encoded[i];
        if (g->settings.chat)
            ZN_TRY(zn_codec_encode_chat(g->codec, p->messages, p->n_messages, &ids->ids, &ids->n));
        else
            ZN_TRY(zn_codec_encode(g->codec, p->messages[0].content, &ids->ids, &ids->n));
        ZN_TRY(check_length(g, i, max_positions));
        int64_t needed = (int64_t)ids->n + g->settings.max_tokens;
        g->capacity = needed > g->capacity ? needed : g->capacity;
    }
    return ZN_OK;
}

static zn_status size_conversation(zn_generator *g, int64_t max_positions)
{
    const struct zn_settings *o = &g->settings;
    int32_t *ids;
    size_t n;
    if (ZN_GIVEN(o, seq_len) && o->seq_len > max_positions)
        return zn_fail(ZN_ERR_USAGE, "--seq-len %lld: the model in %s takes at most %lld", (long long)o->seq_len, o->model,
                       (long long)max_positions);
    g->capacity = ZN_GIVEN(o, seq_len) ? o->seq_len : max_positions < TALK_TOKENS ? max_positions : TALK_TOKENS;
    /* A folder without a template is told now, not after the first message. */
    const struct zn_chat_message hello = {.role = "user", .content = "Hello"};
    ZN_TRY(zn_codec_encode_chat(g->codec, &hello, 1, &ids, &n));
    free(ids);
    return ZN_OK;
}

static zn_status open_text(zn_generator *g, int64_t vocabulary, int64_t max_positions)
{
    ZN_TRY(zn_codec_open(g->settings.model, vocabulary, g->settings.byte_tokenizer, &g->codec));
    ZN_TRY(zn_stop_init(&g->end, g->run.config, g->settings.model, zn_codec_end(g->codec)));
    ZN_TRY(zn_stop_strings_init(&g->stop, g->settings.stop));
    return is_conversation(g) ? size_conversation(g, max_positions) : encode_prompts(g, max_positions);
}

static void warn_unknown(void *self, const char *tensor)
{
    zn_run_note(self, "tensor '%s' of the folder is not used by this model", tensor);
}

static zn_status open_folder(zn_generator *g)
{
    char *path;
    zn_model *probe;
    ZN_TRY(zn_path_join(g->settings.model, "config.json", &path));
    zn_status status = zn_json_load_file(path, CONFIG_BYTES, &g->run.config);
    free(path);
    if (status != ZN_OK)
        return status;
    /* Made for one token to learn its limits, then for the sequence. */
    ZN_TRY(zn_model_create(g->run.config, 1, &probe));
    status = open_text(g, probe->module->vocabulary, probe->max_positions);
    zn_model_destroy(probe);
    if (status != ZN_OK)
        return status;
    ZN_TRY(zn_run_make_model(&g->run, g->capacity, &g->run.model));
    ZN_TRY(zn_model_files_open(g->settings.model, &g->run.files));
    ZN_TRY(zn_weights_check(g->run.model, g->run.files, warn_unknown, &g->run, &g->run.style));
    return zn_run_check_adapters(&g->run, 0);
}

static void loaded(void *self, int64_t done, int64_t total)
{
    generator_progress(self, "loading", done, total);
}

static zn_status open_inputs(zn_generator *g)
{
    const struct zn_settings *o = &g->settings;
    ZN_TRY(zn_run_find_model(&g->run, &g->settings.model));
    ZN_TRY(zn_run_open_adapter(&g->run, g->settings.adapter));
    zn_run_set_quantised(&g->run, o->base_quantize);
    ZN_TRY(open_folder(g));
    ZN_TRY(zn_run_measure(&g->run, (int)o->threads, o->memory_limit));
    ZN_TRY(zn_run_open_device(&g->run, o));
    size_t vocabulary = (size_t)g->run.model->module->vocabulary;
    bool penalizes = o->repetition_penalty != 1;
    g->logits = malloc(vocabulary * sizeof *g->logits);
    g->room = malloc(vocabulary * sizeof *g->room);
    g->is_seen = penalizes ? calloc(vocabulary, sizeof *g->is_seen) : NULL;
    g->drawn = malloc((size_t)zn_comm_n_ranks(g->comm) * sizeof *g->drawn);
    if (!g->logits || !g->room || (penalizes && !g->is_seen) || !g->drawn)
        return zn_fail(ZN_ERR_MEMORY, "no memory for %zu logits", vocabulary);
    return ZN_OK;
}

static zn_status check_settings(const zn_generator *g)
{
    ZN_TRY(zn_settings_check(&g->settings, ZN_FOR_GENERATE));
    if (is_conversation(g) && g->settings.chat && zn_comm_n_ranks(g->comm) > 1)
        return zn_fail(ZN_ERR_USAGE, "--chat without a prompt is a conversation with one process: leave -n off, or give --prompt or "
                                     "--prompts");
    return ZN_OK;
}

/* Tokens that one pass takes at most. */
static int64_t pass_tokens(const zn_generator *g)
{
    int64_t longest = is_conversation(g) ? g->capacity : 1;
    for (size_t i = 0; i < g->prompts.n; i++)
        longest = (int64_t)g->encoded[i].n > longest ? (int64_t)g->encoded[i].n : longest;
    return longest < PASS_TOKENS ? longest : PASS_TOKENS;
}

/* All ranks succeed or none. */
static zn_status set_up(zn_generator *g)
{
    const struct zn_settings *o = &g->settings;
    const struct zn_data none = {0};
    static const char *const here = ".";
    const struct zn_swap_paths swap = {.paths = o->nvme_path.n ? o->nvme_path.word : &here,
                                       .n_paths = o->nvme_path.n ? o->nvme_path.n : 1,
                                       .allow_buffered = o->allow_buffered_swap};
    ZN_TRY(zn_comm_agree(g->comm, check_settings(g)));
    ZN_TRY(zn_prompts_read(o, g->comm, &g->prompts));
    ZN_TRY(zn_comm_agree(g->comm, open_inputs(g)));
    ZN_TRY(zn_run_bind(&g->run, (int)o->threads));
    g->engine = (struct zn_engine_options){.micro_batch = 1, .seq_len = pass_tokens(g), .extends = g->capacity};
    ZN_TRY(zn_run_plan_parameters(&g->run, &g->engine, o->offload_param,
                                  is_conversation(g) ? "a smaller --seq-len helps: it holds the conversation"
                                                     : "fewer --max-tokens help where they or the prompt are many"));
    zn_run_record(&g->run, &g->engine, &g->settings);
    ZN_TRY(zn_agree_on_run(&g->run, o, &g->engine, &none, &none));
    g->run.loaded = loaded;
    g->run.loaded_self = g;
    return zn_run_start(&g->run, &g->engine, &swap, 0);
}

/* Failures that all ranks share are told once. */
static zn_status tell(zn_generator *g, zn_status status)
{
    const struct zn_train_listener listener = {
        .self = g->listener.self, .note = g->listener.note, .failed = g->listener.failed};
    if (status != ZN_OK)
        zn_run_tell_failure(&g->run, &listener, status);
    return status;
}

/* The communicator is the generator's, or the caller's. */
static zn_status create(const struct zn_generate_options *options, zn_comm *comm, zn_generator **generator)
{
    zn_generator *g = calloc(1, sizeof *g);
    if (!g)
        return zn_fail(ZN_ERR_MEMORY, "no memory for a generator");
    zn_status status = ZN_OK;
    zn_clock_init_real(&g->clock);
    g->listener = options->listener;
    g->settings = options->settings;
    g->comm = comm;
    g->borrows_comm = comm != NULL;
    if (!comm)
        status = zn_comm_is_launched() ? zn_comm_create_mpi(&g->clock, &g->comm) : zn_comm_create_self(&g->clock, &g->comm);
    if (status != ZN_OK) {
        free(g);
        return status;
    }
    const struct zn_train_listener listener = {
        .self = g->listener.self, .note = g->listener.note, .failed = g->listener.failed};
    zn_run_init(&g->run, g->comm, &listener);
    g->run.data_bytes = TOKENIZER_BYTES;
    status = tell(g, set_up(g));
    if (status != ZN_OK)
        zn_generator_destroy(g);
    else
        *generator = g;
    return status;
}

zn_status zn_generator_create(const struct zn_generate_options *options, zn_generator **generator)
{
    return create(options, NULL, generator);
}

zn_status zn_generator_create_as_rank(const struct zn_generate_options *options, zn_comm *comm, zn_generator **generator)
{
    return create(options, comm, generator);
}

void zn_generator_destroy(zn_generator *g)
{
    if (!g)
        return;
    zn_run_fini(&g->run);
    zn_stop_fini(&g->end);
    zn_codec_close(g->codec);
    for (size_t i = 0; g->encoded && i < g->prompts.n; i++)
        free(g->encoded[i].ids);
    free(g->encoded);
    zn_prompts_fini(&g->prompts);
    zn_prompt_fini(&g->talk);
    zn_prompt_fini(&g->system);
    zn_ids_fini(&g->sequence);
    free(g->logits);
    free(g->room);
    free(g->is_seen);
    free(g->drawn);
    if (!g->borrows_comm)
        zn_comm_destroy(g->comm);
    if (g->kept)
        g->release(g->kept);
    free(g);
}

void zn_generator_keep(zn_generator *g, void *kept, void (*release)(void *kept))
{
    g->kept = kept;
    g->release = release;
}

size_t zn_generator_n_prompts(const zn_generator *g)
{
    return g->prompts.n;
}

zn_status zn_generator_answer(zn_generator *g, size_t i, struct zn_generate_result *result)
{
    if (i >= g->prompts.n)
        return zn_fail(ZN_ERR_USAGE, "prompt %zu: there are %zu", i, g->prompts.n);
    return tell(g, generator_write(g, &g->encoded[i], g->settings.max_tokens, result));
}

zn_status zn_generate(const struct zn_generate_options *options, struct zn_generate_result *result)
{
    zn_generator *g;
    if (!options->settings.prompt)
        return zn_fail(ZN_ERR_USAGE, "--prompt TEXT is required");
    ZN_TRY(zn_generator_create(options, &g));
    zn_status status = zn_generator_answer(g, 0, result);
    zn_generator_destroy(g);
    return status;
}
