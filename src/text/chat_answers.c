/* Where in a conversation's text the answers are. */
#include <stdlib.h>
#include <string.h>

#include "text/chat_private.h"

static const char think[] = "<think>", think_end[] = "</think>";

struct finder {
    const zn_chat *chat;
    const char *marks;
    struct zn_chat_text *text;
    size_t capacity;
};

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

/* The first special token in begin … end of the text; false: there is none. */
static bool find_special(const struct finder *f, size_t begin, size_t end, struct zn_chat_answer *found)
{
    *found = (struct zn_chat_answer){.begin = end, .end = 0};
    for (size_t i = 0; i < f->chat->n_special; i++) {
        size_t n = strlen(f->chat->special[i]);
        const char *at = memmem(f->text->text + begin, end - begin, f->chat->special[i], n);
        size_t place = at ? (size_t)(at - f->text->text) : end;
        if (at && (place < found->begin || (place == found->begin && place + n > found->end)))
            *found = (struct zn_chat_answer){.begin = place, .end = place + n};
    }
    return found->end > 0;
}

static zn_status add_piece(struct finder *f, const struct zn_chat_answer *piece)
{
    struct zn_chat_text *text = f->text;
    if (text->n_answers == f->capacity) {
        size_t wanted = 2 * f->capacity + 8;
        struct zn_chat_answer *larger = realloc(text->answers, wanted * sizeof *larger);
        if (!larger)
            return zn_fail(ZN_ERR_MEMORY, "out of memory for %zu answers", wanted);
        text->answers = larger;
        f->capacity = wanted;
    }
    text->answers[text->n_answers++] = *piece;
    return ZN_OK;
}

/* ---- Thoughts ---- */

static bool is_at(const struct finder *f, size_t at, size_t end, const char *word)
{
    size_t n = strlen(word);
    return end - at >= n && memcmp(f->text->text + at, word, n) == 0;
}

static size_t skip_space(const struct finder *f, size_t at, size_t end)
{
    while (at < end && is_space(f->text->text[at]))
        at++;
    return at;
}

/* The first block of thoughts in begin … end that is empty and the template's own; false: there is none. */
static bool find_empty_thoughts(const struct finder *f, size_t begin, size_t end, size_t *from, size_t *to)
{
    for (size_t at = begin; at < end; at++) {
        if (f->text->text[at] != '<' || !is_at(f, at, end, think))
            continue;
        size_t inner = skip_space(f, at + strlen(think), end);
        if (!is_at(f, inner, end, think_end))
            continue;
        *from = at;
        *to = skip_space(f, inner + strlen(think_end), end);
        bool is_own = true;
        for (size_t i = at; i < inner + strlen(think_end); i++)
            is_own = is_own && (f->marks[i] & ~MARK_GENERATION) == MARK_TEMPLATE;
        if (is_own)
            return true;
    }
    return false;
}

/* Adds the answer without the empty thoughts in it. */
static zn_status add_answer(struct finder *f, struct zn_chat_answer answer)
{
    size_t from, to;
    while (find_empty_thoughts(f, answer.begin, answer.end, &from, &to)) {
        const struct zn_chat_answer piece = {.begin = answer.begin, .end = from, .stop = from, .goes_on = to < answer.end};
        if (piece.end > piece.begin)
            ZN_TRY(add_piece(f, &piece));
        answer.begin = to;
        if (answer.stop < to)
            answer.stop = answer.end;
    }
    return answer.end > answer.begin ? add_piece(f, &answer) : ZN_OK;
}

/* Where the template has taken thoughts out of a content and opens them with its own word, that word is of the answer. */
static size_t with_thoughts(const struct finder *f, size_t begin)
{
    size_t at = begin, n = strlen(think);
    while (at > 0 && f->marks[at - 1] == MARK_TEMPLATE && is_space(f->text->text[at - 1]))
        at--;
    return at >= n && memcmp(f->text->text + at - n, think, n) == 0 && f->marks[at - n] == MARK_TEMPLATE ? at - n : begin;
}

/* ---- Answers ---- */

/* A run of the assistant's bytes. What the template writes after it, up to the first special token, belongs to it as
 * well: the model has to end its turn. Between two such runs without a special token (a template that takes an
 * answer apart) all belongs to the answer. */
static struct zn_chat_answer answer_at(const struct finder *f, size_t at)
{
    size_t n = f->text->n_bytes, end = at, next;
    struct zn_chat_answer answer = {.begin = with_thoughts(f, at)}, special;
    for (;;) {
        while (end < n && f->marks[end] == MARK_ASSISTANT)
            end++;
        answer.stop = end;
        for (next = end; next < n && f->marks[next] == MARK_TEMPLATE; next++)
            ;
        bool has_end = find_special(f, end, next, &special);
        if (has_end) {
            answer.stop = special.begin;
            end = special.end;
        }
        if (has_end || next == n || f->marks[next] != MARK_ASSISTANT)
            break;
        end = next;
    }
    answer.end = end;
    return answer;
}

/* A run of what the template calls generated, as it is. Its stop is a special token with nothing but space behind it. */
static struct zn_chat_answer generated_at(const struct finder *f, size_t at)
{
    size_t n = f->text->n_bytes;
    struct zn_chat_answer answer = {.begin = at, .end = at};
    while (answer.end < n && (f->marks[answer.end] & MARK_GENERATION))
        answer.end++;
    answer.stop = answer.end;
    size_t last = answer.end;
    while (last > at && is_space(f->text->text[last - 1]))
        last--;
    for (size_t i = 0; i < f->chat->n_special; i++) {
        size_t length = strlen(f->chat->special[i]);
        if (length <= last - at && is_at(f, last - length, last, f->chat->special[i]) && last - length < answer.stop)
            answer.stop = last - length;
    }
    return answer;
}

zn_status chat_find_answers(const zn_chat *chat, const char *marks, struct zn_chat_text *text)
{
    struct finder f = {.chat = chat, .marks = marks, .text = text};
    bool is_marked = template_has_generation(chat->template);
    for (size_t at = 0; at < text->n_bytes;) {
        if (is_marked ? !(marks[at] & MARK_GENERATION) : marks[at] != MARK_ASSISTANT) {
            at++;
            continue;
        }
        struct zn_chat_answer answer = is_marked ? generated_at(&f, at) : answer_at(&f, at);
        ZN_TRY(add_answer(&f, answer));
        at = answer.end;
    }
    return ZN_OK;
}
