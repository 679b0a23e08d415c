/* A conversation: the template's text of all messages so far is the prompt of the next answer. */
#include <stdlib.h>

#include "base/text.h"
#include "infer/generator.h"

static zn_status is_full(const zn_generator *g, size_t n_tokens)
{
    return zn_fail(ZN_ERR_USAGE, "with this message the conversation has %zu tokens, and it holds %lld: begin anew (/reset) or give "
                   "a greater --seq-len", n_tokens, (long long)g->capacity);
}

/* The answer to the messages so far. */
static zn_status answer(zn_generator *g, struct zn_generate_result *r)
{
    struct zn_id_list prompt;
    ZN_TRY(zn_codec_encode_chat(g->codec, g->talk.messages, g->talk.n_messages, &prompt.ids, &prompt.n));
    int64_t left = g->capacity - (int64_t)prompt.n;
    if (left > g->settings.max_tokens && ZN_GIVEN(&g->settings, max_tokens))
        left = g->settings.max_tokens;
    zn_status status = prompt.n == 0 ? zn_fail(ZN_ERR_INPUT, "the chat template makes no text of this message")
                       : left < 1    ? is_full(g, prompt.n)
                                     : generator_write(g, &prompt, left, r);
    free(prompt.ids);
    return status;
}

/* What the template is given of --system or /system. */
static zn_status begin(zn_generator *g)
{
    const char *system = g->settings.system;
    if (g->talk.n_messages > 0 || !system || !system[0])
        return ZN_OK;
    return zn_prompt_add(&g->talk, "system", system);
}

/* The answer becomes a message; U+FFFD stands for NUL, as in rows of data. */
static zn_status keep_answer(zn_generator *g, const struct zn_generate_result *r)
{
    zn_text text;
    zn_text_init(&text);
    for (size_t at = 0; at < r->n_bytes; at++) {
        if (r->text[at] == '\0')
            zn_text_add(&text, "\xef\xbf\xbd");
        else
            zn_text_add_bytes(&text, r->text + at, 1);
    }
    zn_status status = zn_text_status(&text);
    if (status == ZN_OK)
        status = zn_prompt_add(&g->talk, "assistant", text.data ? text.data : "");
    zn_text_fini(&text);
    return status;
}

zn_status zn_generator_say(zn_generator *g, const char *message, struct zn_generate_result *result)
{
    ZN_TRY(begin(g));
    size_t n_before = g->talk.n_messages;
    struct zn_generate_result r = {0};
    zn_status status = zn_prompt_add(&g->talk, "user", message);
    if (status == ZN_OK)
        status = answer(g, &r);
    if (status == ZN_OK)
        status = keep_answer(g, &r);
    if (status != ZN_OK) {
        zn_prompt_cut(&g->talk, n_before);
        zn_generate_result_fini(&r);
        return status;
    }
    *result = r;
    return ZN_OK;
}

zn_status zn_generator_reset(zn_generator *g, const char *system)
{
    struct zn_prompt kept = {0};
    if (system)
        ZN_TRY(zn_prompt_add(&kept, "system", system));
    zn_prompt_cut(&g->talk, 0);
    if (system) {
        zn_prompt_fini(&g->system);
        g->system = kept;
        g->settings.system = kept.messages[0].content;
    }
    return ZN_OK;
}
