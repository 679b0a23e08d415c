/* What texts begin with: of the command line, of standard input or of a file. */
#ifndef ZN_INFER_PROMPTS_H
#define ZN_INFER_PROMPTS_H

#include "comm/comm.h"
#include "settings/settings.h"
#include "text/chat.h"

/* Messages of a conversation; a text without a template is one of role "user". The texts are owned. */
struct zn_prompt {
    struct zn_chat_message *messages;
    size_t n_messages;
};

/* Adds a copy of the message. */
zn_status zn_prompt_add(struct zn_prompt *prompt, const char *role, const char *content);
void zn_prompt_cut(struct zn_prompt *prompt, size_t n_messages); /* keeps the first */
void zn_prompt_fini(struct zn_prompt *prompt);

struct zn_prompts {
    struct zn_prompt *prompt;
    size_t n;
};

/* Those of --prompt, --prompts, --system and --chat; none where a conversation is asked for. Standard input is read by rank 0.
 * Collective; blocks. The caller calls fini, also after a failure. */
zn_status zn_prompts_read(const struct zn_settings *settings, zn_comm *comm, struct zn_prompts *prompts);
void zn_prompts_fini(struct zn_prompts *prompts);

#endif
