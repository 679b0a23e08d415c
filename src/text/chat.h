/* Conversations as the text that a model was trained on: the chat template of a hub folder, applied.
 *
 * Templates are programs in Jinja. ChatML (SmolLM2, Qwen), Llama 2 and 3, Mistral, Zephyr, Gemma and their
 * kin use a small part of that language, and this part is run as it is written (see template.h). A
 * template that uses more is refused by the name of what it uses. */
#ifndef ZN_TEXT_CHAT_H
#define ZN_TEXT_CHAT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "text/tokenizer.h"

struct zn_chat_message {
    const char *role, *content;
};

/* Bytes begin … end of a text; from `stop` on they are the special token that ends the turn, stop = end: there is none.
 * `stop` of an answer in several pieces is that of the last; the others have none. */
struct zn_chat_answer {
    size_t begin, end, stop;
    bool goes_on; /* the next piece belongs to the same answer */
};

/* A conversation as text. `answers` are what the model has to learn to write, in their order: where the template marks it
 * with {% generation %}, that; else the content of each message whose role is "assistant" and the special token that
 * ends its turn. Blocks of thoughts that the template puts in empty do not belong to them. */
struct zn_chat_text {
    char *text; /* NUL-terminated */
    size_t n_bytes;
    struct zn_chat_answer *answers;
    size_t n_answers;
};
void zn_chat_text_fini(struct zn_chat_text *text);

/* A template made ready. Const after opening: any number of threads may apply it. */
typedef struct zn_chat zn_chat;

/* The folder's template; a folder that has none is an error. The tokenizer is not kept. The caller closes. */
zn_status zn_chat_open(const zn_tokenizer *tokenizer, zn_chat **chat);

/* A template from elsewhere. `special` are the texts of the special tokens; bos and eos may be NULL. */
zn_status zn_chat_open_text(const char *source, const char *bos, const char *eos, const char *const *special,
                            size_t n_special, zn_chat **chat);
void zn_chat_close(zn_chat *chat); /* NULL is legal */

/* With add_generation_prompt the text ends where the assistant's next answer begins. What the template
 * itself refuses ("roles must alternate") is an error with its words. The caller calls
 * zn_chat_text_fini. */
zn_status zn_chat_apply(const zn_chat *chat, const struct zn_chat_message *messages, size_t n_messages,
                        bool add_generation_prompt, struct zn_chat_text *text);

/* All of it at once; the caller frees the text. */
zn_status zn_chat_render(const zn_tokenizer *tokenizer, const struct zn_chat_message *messages,
                         size_t n_messages, bool add_generation_prompt, char **text);

#endif
