/* Shared by the parts of chat templates. */
#ifndef ZN_TEXT_CHAT_PRIVATE_H
#define ZN_TEXT_CHAT_PRIVATE_H

#include "text/chat.h"
#include "text/template.h"

struct zn_chat {
    struct template *template;
    char *bos, *eos;
    char **special; /* tokens that can end a turn: those that the template can write */
    size_t n_special;
};

/* Finds the answers of the text by the marks of its bytes. After a failure the text is the caller's still. */
zn_status chat_find_answers(const zn_chat *chat, const char *marks, struct zn_chat_text *text);

#endif
