/* Templates of any bytes over conversations of any bytes: refused, or a text whose answers lie in it in order. In the
 * input, a zero byte ends the template and each content; roles take turns. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "text/chat.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(const struct zn_chat_text *text)
{
    size_t before = 0;
    if (strlen(text->text) != text->n_bytes)
        abort();
    for (size_t i = 0; i < text->n_answers; i++) {
        if (text->answers[i].begin < before || text->answers[i].end <= text->answers[i].begin ||
            text->answers[i].end > text->n_bytes)
            abort();
        before = text->answers[i].end;
    }
}

static void check_failure(void)
{
    for (const char *text = zn_error_message(); *text; text++)
        if ((unsigned char)*text < 0x20)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const special[] = {"<|im_end|>", "</s>"};
    static const char *const roles[] = {"system", "user", "assistant", "user", "assistant"};
    char *copy = malloc(size + 1);
    if (!copy)
        abort();
    memcpy(copy, data, size);
    copy[size] = '\0';
    struct zn_chat_message messages[5];
    size_t at = strlen(copy) + 1, n = 0;
    for (; n < 5 && at < size; n++) {
        messages[n] = (struct zn_chat_message){roles[n], copy + at};
        at += strlen(copy + at) + 1;
    }
    zn_chat *chat;
    struct zn_chat_text text;
    if (zn_chat_open_text(copy, "<s>", "</s>", special, 2, &chat) != ZN_OK) {
        check_failure();
    } else {
        if (zn_chat_apply(chat, messages, n, size % 2 == 0, &text) == ZN_OK) {
            check_text(&text);
            zn_chat_text_fini(&text);
        } else {
            check_failure();
        }
        zn_chat_close(chat);
    }
    free(copy);
    return 0;
}
