/* A hub folder's tokenizer.json: text to ids and back, as the file says. Const after opening: any
 * number of threads may use it. */
#ifndef ZN_TEXT_TOKENIZER_H
#define ZN_TEXT_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct zn_tokenizer zn_tokenizer;

/* Ids that grow; zero-initialised by the caller, who calls zn_ids_fini. */
struct zn_ids {
    int32_t *id;
    size_t n, capacity;
};
void zn_ids_fini(struct zn_ids *ids);
zn_status zn_ids_add(struct zn_ids *ids, int32_t id);

/* Reads tokenizer.json (and the names of the special tokens in tokenizer_config.json). What is
 * not supported is refused by name. The caller closes. */
zn_status zn_tokenizer_open(const char *folder, zn_tokenizer **tokenizer);
void zn_tokenizer_close(zn_tokenizer *tokenizer); /* NULL is legal */

/* The same from the bytes of a tokenizer.json alone; `name` stands for the file in messages. */
zn_status zn_tokenizer_load(const void *json, size_t n_bytes, const char *name, zn_tokenizer **tokenizer);

/* Appends the ids of the text. Added tokens inside it are recognised; with `add_special` the
 * post-processor's tokens are put around it. Invalid UTF-8 becomes U+FFFD. */
zn_status zn_tokenizer_encode(const zn_tokenizer *tokenizer, const char *text, size_t n_bytes,
                              bool add_special, struct zn_ids *ids);

/* Threads for one long text, 1 until it is said. Ids do not depend on it. Not while another thread
 * uses the tokenizer. */
void zn_tokenizer_set_threads(zn_tokenizer *tokenizer, int n_threads);

/* The text of the ids, NUL-terminated, the caller frees it. An unknown id is an error. */
zn_status zn_tokenizer_decode(const zn_tokenizer *tokenizer, const int32_t *ids, size_t n_ids,
                              bool skip_special, char **text, size_t *n_bytes);

/* One more than the largest id. */
int64_t zn_tokenizer_n_ids(const zn_tokenizer *tokenizer);

/* The id of a token by its exact text, -1 when there is none. */
int32_t zn_tokenizer_id(const zn_tokenizer *tokenizer, const char *token);

/* Whether the id is an added token marked special. */
bool zn_tokenizer_is_special(const zn_tokenizer *tokenizer, int32_t id);

/* bos_token, eos_token of tokenizer_config.json as ids, -1 when not named. */
int32_t zn_tokenizer_bos(const zn_tokenizer *tokenizer);
int32_t zn_tokenizer_eos(const zn_tokenizer *tokenizer);

/* chat_template of tokenizer_config.json (or chat_template.jinja), NULL when there is none. */
const char *zn_tokenizer_chat_template(const zn_tokenizer *tokenizer);

#endif
