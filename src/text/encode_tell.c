/* What is told of rows once they are encoded. */
#include <stdarg.h>
#include <stdio.h>

#include "base/text.h"
#include "text/encode_private.h"

struct teller {
    void (*note)(void *self, const char *text);
    void *self;
};

ZN_PRINTF(2, 3) static void tell(const struct teller *teller, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    teller->note(teller->self, text);
}

static void tell_instructions(const zn_encoder *encoder, const struct teller *teller)
{
    long long n = atomic_load(&encoder->n_instructions);
    if (n == 0)
        return;
    if (encoder_has_template(encoder))
        tell(teller, "rows with 'instruction' (%lld) go through the folder's chat template: instruction and input are the "
             "user's, output is the assistant's", n);
    else
        tell(teller, "rows with 'instruction' (%lld) are completions of Alpaca's prompt (### Instruction, ### Response), as "
             "the folder has no chat template", n);
}

static bool is_among(const int32_t *ids, size_t n, int32_t id)
{
    for (size_t i = 0; i < n; i++)
        if (ids[i] == id)
            return true;
    return false;
}

/* A model learns to end its turn by the special token behind its answers, and generation ends where it is known. */
static void tell_ends(const zn_encoder *encoder, const int32_t *ends, size_t n_ends, const struct teller *teller)
{
    long long n_answers = atomic_load(&encoder->n_answers), n_ended = atomic_load(&encoder->n_ended);
    if (n_ended < n_answers)
        tell(teller, "%lld of %lld answers have no special token behind them that is trained: the chat template does not end "
             "them with one, or leaves it out of {%% generation %%}; the model may not learn to stop", n_answers - n_ended,
             n_answers);
    if (!encoder->stop)
        return;
    int32_t id = zn_tokenizer_id(encoder->options.tokenizer, encoder->stop);
    if (id >= 0 && !is_among(ends, n_ends, id))
        tell(teller, "the chat template ends answers with '%s' (id %d), which is not among eos_token_id of config.json and "
             "generation_config.json: generation does not stop there; add it in generation_config.json",
             zn_shown(encoder->stop).text, id);
}

void zn_encoder_tell(zn_encoder *encoder, const int32_t *ends, size_t n_ends,
                     void (*note)(void *self, const char *text), void *self)
{
    const struct teller teller = {note, self};
    long long n_replaced = atomic_load(&encoder->n_replaced);
    if (n_replaced > 0)
        tell(&teller, "%lld character%s replaced by U+FFFD in rows: \\u0000, halves of surrogate pairs and bytes that are not "
             "UTF-8 are no text", n_replaced, n_replaced == 1 ? "" : "s");
    tell_instructions(encoder, &teller);
    tell_ends(encoder, ends, n_ends, &teller);
}
