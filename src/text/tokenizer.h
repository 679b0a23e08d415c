/* A hub folder's tokenizer.json: text to ids and back, as the file says. zinc/tokenizer.h has what programs use, too. */
#ifndef ZN_TEXT_TOKENIZER_H
#define ZN_TEXT_TOKENIZER_H

#include "base/status.h"
#include "zinc/tokenizer.h"

/* As zn_tokenizer_open, from the bytes of a tokenizer.json alone; `name` stands for the file in messages. */
zn_status zn_tokenizer_load(const void *json, size_t n_bytes, const char *name, zn_tokenizer **tokenizer);

/* Whether the id is an added token marked special. */
bool zn_tokenizer_is_special(const zn_tokenizer *tokenizer, int32_t id);

/* bos_token of tokenizer_config.json as id, -1 when not named. */
int32_t zn_tokenizer_bos(const zn_tokenizer *tokenizer);

/* chat_template of tokenizer_config.json (or chat_template.jinja), NULL when there is none. */
const char *zn_tokenizer_chat_template(const zn_tokenizer *tokenizer);

#endif
