/* A text after a prompt: what of the prompt is new is read in, then token by token. */
#include <stdlib.h>
#include <string.h>

#include "infer/generator.h"

/* The tokens with which the cache and the prompt begin alike stay. At least one is computed, for its logits. */
static size_t keep_begin(zn_generator *g, const struct zn_id_list *prompt)
{
    size_t kept = 0, most = g->sequence.n < prompt->n - 1 ? g->sequence.n : prompt->n - 1;
    while (kept < most && g->sequence.id[kept] == prompt->ids[kept])
        kept++;
    zn_engine_rewind(g->run.engine, (int64_t)kept);
    g->sequence.n = kept;
    return kept;
}

static void see(zn_generator *g, int32_t id)
{
    if (g->is_seen)
        g->is_seen[id] = true;
}

static zn_status read_in(zn_generator *g, const struct zn_id_list *prompt, size_t *n_kept)
{
    size_t most = (size_t)g->engine.seq_len;
    *n_kept = keep_begin(g, prompt);
    for (size_t at = *n_kept; at < prompt->n; at += most) {
        size_t rows = prompt->n - at < most ? prompt->n - at : most;
        bool is_last = at + rows == prompt->n;
        ZN_TRY(zn_engine_extend(g->run.engine, prompt->ids + at, (int64_t)rows, is_last ? g->logits : NULL));
        for (size_t i = at; i < at + rows; i++)
            ZN_TRY(zn_ids_add(&g->sequence, prompt->ids[i]));
        generator_progress(g, "prompt", (int64_t)(at + rows), (int64_t)prompt->n);
    }
    if (g->is_seen)
        memset(g->is_seen, 0, (size_t)g->run.model->module->vocabulary * sizeof *g->is_seen);
    for (size_t i = 0; i < prompt->n; i++)
        see(g, prompt->ids[i]);
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
static void show(zn_generator *g, const char *text, size_t end)
{
    if (!g->listener.text || zn_comm_rank(g->comm) != 0 || end <= g->n_shown)
        return;
    g->listener.text(g->listener.self, text + g->n_shown, end - g->n_shown);
    g->n_shown = end;
}

/* The text so far; *is_last becomes true where a stop string ends it, before which it is then cut. */
static zn_status read_text(zn_generator *g, const struct zn_generate_result *r, bool *is_last, char **text, size_t *n_bytes)
{
    size_t at;
    ZN_TRY(zn_codec_decode(g->codec, r->ids, r->n_ids, text, n_bytes));
    if (zn_stop_strings_find(&g->stop, *text, *n_bytes, g->n_shown, &at)) {
        *is_last = true;
        *n_bytes = at;
        (*text)[at] = '\0';
    }
    size_t end = *is_last ? *n_bytes : settled(*text, *n_bytes);
    show(g, *text, *is_last ? end : zn_stop_strings_settled(&g->stop, *text, end));
    return ZN_OK;
}

/* All ranks go on with what rank 0 has drawn and was asked. */
static zn_status draw(zn_generator *g, const struct zn_sampling *sampling, struct drawn *drawn)
{
    int64_t vocabulary = g->run.model->module->vocabulary;
    struct drawn mine;
    memset(&mine, 0, sizeof mine);
    if (g->is_seen)
        zn_penalize(g->logits, vocabulary, g->is_seen, g->settings.repetition_penalty);
    ZN_TRY(zn_sample(sampling, g->logits, vocabulary, (int64_t)g->sequence.n, g->room, &mine.id));
    mine.is_stopped = g->listener.is_stopped && g->listener.is_stopped(g->listener.self);
    ZN_TRY(zn_comm_exchange(g->comm, &mine, sizeof mine, g->drawn));
    *drawn = g->drawn[0];
    return ZN_OK;
}

/* Takes the token into the text. */
static zn_status take(zn_generator *g, int32_t id, int64_t max_tokens, struct zn_generate_result *r, bool *is_last)
{
    char *text = NULL;
    size_t n_bytes = 0;
    r->ids[r->n_ids++] = id;
    see(g, id);
    *is_last = zn_stop_has(&g->end, id) || (int64_t)r->n_ids == max_tokens;
    if (g->stop.strings.n > 0 || g->listener.text || *is_last)
        ZN_TRY(read_text(g, r, is_last, &text, &n_bytes));
    if (!*is_last) {
        free(text);
        return ZN_OK;
    }
    r->text = text;
    r->n_bytes = n_bytes;
    return ZN_OK;
}

/* The text as it is, without the token that was drawn. */
static zn_status end_here(zn_generator *g, struct zn_generate_result *r)
{
    bool is_last = true;
    r->is_stopped = true;
    return read_text(g, r, &is_last, &r->text, &r->n_bytes);
}

static zn_status write_on(zn_generator *g, int64_t max_tokens, struct zn_generate_result *r)
{
    const struct zn_settings *o = &g->settings;
    const struct zn_sampling sampling = {
        .temperature = o->temperature, .top_k = o->top_k, .top_p = o->top_p, .seed = (uint64_t)o->seed};
    g->n_shown = 0;
    for (;;) {
        struct drawn drawn;
        bool is_last;
        ZN_TRY(draw(g, &sampling, &drawn));
        if (drawn.is_stopped)
            return end_here(g, r);
        ZN_TRY(take(g, drawn.id, max_tokens, r, &is_last));
        if (is_last)
            return ZN_OK;
        ZN_TRY(zn_engine_extend(g->run.engine, &drawn.id, 1, g->logits));
        ZN_TRY(zn_ids_add(&g->sequence, drawn.id));
    }
}

zn_status generator_write(zn_generator *g, const struct zn_id_list *prompt, int64_t max_tokens, struct zn_generate_result *result)
{
    struct zn_generate_result r = {.is_shown = zn_comm_rank(g->comm) == 0, .n_prompt_ids = prompt->n};
    r.ids = malloc((size_t)max_tokens * sizeof *r.ids);
    r.prompt_ids = malloc(prompt->n * sizeof *r.prompt_ids);
    if (!r.ids || !r.prompt_ids) {
        zn_generate_result_fini(&r);
        return zn_fail(ZN_ERR_MEMORY, "no memory for a text of %lld tokens", (long long)max_tokens);
    }
    memcpy(r.prompt_ids, prompt->ids, prompt->n * sizeof *r.prompt_ids);
    zn_status status = read_in(g, prompt, &r.n_kept);
    if (status == ZN_OK)
        status = write_on(g, max_tokens, &r);
    if (status == ZN_OK)
        *result = r;
    else
        zn_generate_result_fini(&r);
    return status;
}
