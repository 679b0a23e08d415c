/* Conversations to tokens, and the mask over them.
 *
 * The ids are those of the whole text, so that training sees what generation will see. Which of them are of an answer
 * is found by encoding the pieces between the borders of the answers: nearly always they give the ids of the whole one
 * after another. Where they do not (a border inside of a token) the two sides of the border are encoded
 * each in full, and a token that belongs to neither side holds the border. */
#include <stdlib.h>
#include <string.h>

#include "text/encode_private.h"

/* Bytes that may be encoded again for one conversation. */
enum { MAX_AGAIN = 256 * 1024 * 1024 };

struct conversation {
    const zn_encoder *encoder;
    const struct zn_chat_text *text;
    const int32_t *whole;
    uint8_t *counts; /* of `whole` */
    size_t n;
};

static size_t common_begin(const struct zn_ids *a, const int32_t *b, size_t n)
{
    size_t i = 0;
    while (i < a->n && i < n && a->id[i] == b[i])
        i++;
    return i;
}

static size_t common_end(const struct zn_ids *a, const int32_t *b, size_t n)
{
    size_t i = 0;
    while (i < a->n && i < n && a->id[a->n - 1 - i] == b[n - 1 - i])
        i++;
    return i;
}

/* Bytes begin … end are the next ids, if they are: *at moves over them. */
static zn_status take_piece(struct conversation *c, size_t begin, size_t end, bool counts, size_t *at, bool *fits)
{
    struct zn_ids piece = {0};
    zn_status status = encode_plain(c->encoder, c->text->text + begin, end - begin, &piece);
    *fits = status == ZN_OK && common_begin(&piece, c->whole + *at, c->n - *at) == piece.n;
    if (*fits) {
        memset(c->counts + *at, counts, piece.n);
        *at += piece.n;
    }
    zn_ids_fini(&piece);
    return status;
}

static zn_status mark_by_pieces(struct conversation *c, bool *exact)
{
    size_t at = 0, byte = 0;
    *exact = true;
    for (size_t i = 0; i <= c->text->n_answers && *exact; i++) {
        bool is_last = i == c->text->n_answers;
        size_t begin = is_last ? c->text->n_bytes : c->text->answers[i].begin;
        ZN_TRY(take_piece(c, byte, begin, false, &at, exact));
        if (is_last || !*exact)
            break;
        byte = c->text->answers[i].end;
        ZN_TRY(take_piece(c, begin, byte, true, &at, exact));
    }
    *exact = *exact && at == c->n;
    return ZN_OK;
}

static zn_status mark_by_sides(struct conversation *c, const char *place)
{
    if (c->text->n_answers > (size_t)MAX_AGAIN / (c->text->n_bytes + 1))
        return zn_fail(ZN_ERR_INPUT, "%s: the conversation is too long: %zu answers in %zu bytes", place,
                       c->text->n_answers, c->text->n_bytes);
    memset(c->counts, 0, c->n);
    for (size_t i = 0; i < c->text->n_answers; i++) {
        const struct zn_chat_answer *answer = &c->text->answers[i];
        struct zn_ids before = {0}, after = {0};
        zn_status status = encode_plain(c->encoder, c->text->text, answer->begin, &before);
        if (status == ZN_OK)
            status = encode_plain(c->encoder, c->text->text + answer->end, c->text->n_bytes - answer->end, &after);
        if (status == ZN_OK) {
            size_t begin = common_begin(&before, c->whole, c->n), end = c->n - common_end(&after, c->whole, c->n);
            if (end > begin)
                memset(c->counts + begin, 1, end - begin);
        }
        zn_ids_fini(&before);
        zn_ids_fini(&after);
        ZN_TRY(status);
    }
    return ZN_OK;
}

static zn_status add_conversation(const zn_encoder *encoder, const struct zn_chat_text *text, const char *place,
                                  struct zn_document *document)
{
    size_t first = document->ids.n;
    bool exact;
    ZN_TRY(encode_plain(encoder, text->text, text->n_bytes, &document->ids));
    ZN_TRY(document_count(encoder, document, false, place));
    struct conversation c = {.encoder = encoder, .text = text, .whole = document->ids.id + first,
                             .counts = document->counts + first, .n = document->ids.n - first};
    ZN_TRY(mark_by_pieces(&c, &exact));
    return exact ? ZN_OK : mark_by_sides(&c, place);
}

/* Counts the answers, and keeps the special token at the end of the first. */
static zn_status note_ends(zn_encoder *encoder, const struct zn_chat_text *text)
{
    int64_t n_answers = 0, n_ended = 0;
    const struct zn_chat_answer *ended = NULL;
    for (size_t i = 0; i < text->n_answers; i++) {
        const struct zn_chat_answer *answer = &text->answers[i];
        n_answers += !answer->goes_on;
        n_ended += answer->stop < answer->end;
        if (answer->stop < answer->end && !ended)
            ended = answer;
    }
    atomic_fetch_add(&encoder->n_answers, n_answers);
    atomic_fetch_add(&encoder->n_ended, n_ended);
    if (!ended)
        return ZN_OK;
    zn_status status = ZN_OK;
    size_t end = ended->end;
    while (text->text[end - 1] == '\n' || text->text[end - 1] == ' ') /* what a template calls generated may end so */
        end--;
    pthread_mutex_lock(&encoder->lock);
    if (!encoder->stop && !(encoder->stop = strndup(text->text + ended->stop, end - ended->stop)))
        status = zn_fail(ZN_ERR_MEMORY, "out of memory for the end of an answer");
    pthread_mutex_unlock(&encoder->lock);
    return status;
}

bool encoder_has_template(const zn_encoder *encoder)
{
    return encoder->options.tokenizer && zn_tokenizer_chat_template(encoder->options.tokenizer);
}

static zn_status open_chat(zn_encoder *encoder)
{
    pthread_mutex_lock(&encoder->lock);
    zn_status status = encoder->chat ? ZN_OK : zn_chat_open(encoder->options.tokenizer, &encoder->chat);
    pthread_mutex_unlock(&encoder->lock);
    return status;
}

/* Answers among the first messages are part of the prompt: as many as these have by themselves. */
static zn_status drop_prompt_answers(const zn_encoder *encoder, const struct zn_row *row, struct zn_chat_text *text)
{
    struct zn_chat_text prompt;
    size_t n_dropped = 0, n_pieces = 0;
    if (row->n_prompt == 0)
        return ZN_OK;
    ZN_TRY(zn_chat_apply(encoder->chat, row->messages, row->n_prompt, false, &prompt));
    for (size_t i = 0; i < prompt.n_answers; i++)
        n_dropped += !prompt.answers[i].goes_on;
    zn_chat_text_fini(&prompt);
    for (; n_pieces < text->n_answers && n_dropped > 0; n_pieces++)
        n_dropped -= !text->answers[n_pieces].goes_on;
    text->n_answers -= n_pieces;
    memmove(text->answers, text->answers + n_pieces, text->n_answers * sizeof *text->answers);
    return ZN_OK;
}

zn_status encode_messages(zn_encoder *encoder, const struct zn_row *row, const char *place,
                          struct zn_document *document)
{
    struct zn_chat_text text;
    if (!encoder->options.tokenizer)
        return zn_fail(ZN_ERR_INPUT, "%s: 'messages' need a tokenizer with a chat template, which this model has not",
                       place);
    zn_status status = open_chat(encoder);
    if (status != ZN_OK)
        return zn_add_context(status, "%s", place);
    status = zn_chat_apply(encoder->chat, row->messages, row->n_messages, false, &text);
    if (status != ZN_OK)
        return zn_add_context(status, "%s", place);
    status = drop_prompt_answers(encoder, row, &text);
    if (status == ZN_OK)
        status = add_conversation(encoder, &text, place, document);
    if (status == ZN_OK)
        status = note_ends(encoder, &text);
    zn_chat_text_fini(&text);
    return status;
}
