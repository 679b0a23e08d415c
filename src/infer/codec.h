/* Text to ids and back, as a model folder has it: by its tokenizer or, for a byte-level model without
 * one (text/byte_text.h), as bytes, with 256 for the end of the text. */
#ifndef ZN_INFER_CODEC_H
#define ZN_INFER_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "text/chat.h"

typedef struct zn_codec zn_codec;

/* `vocabulary` is the model's, `byte_tokenizer` as of --byte-tokenizer. The caller closes. */
zn_status zn_codec_open(const char *folder, int64_t vocabulary, bool byte_tokenizer, zn_codec **codec);
void zn_codec_close(zn_codec *codec); /* NULL is legal */

/* The caller frees *ids; *n may be 0. */
zn_status zn_codec_encode(const zn_codec *codec, const char *text, int32_t **ids, size_t *n);

/* The same for messages in the folder's chat template, up to where the next answer begins. */
zn_status zn_codec_encode_chat(const zn_codec *codec, const struct zn_chat_message *messages, size_t n_messages, int32_t **ids,
                               size_t *n);

/* UTF-8, NUL-terminated, without special tokens; U+FFFD stands for bytes that are no character (also
 * for one whose last bytes are missing). The caller frees it. */
zn_status zn_codec_decode(const zn_codec *codec, const int32_t *ids, size_t n, char **text,
                          size_t *n_bytes);

/* The id that ends a text by the tokenizer's own word, -1 when there is none. */
int32_t zn_codec_end(const zn_codec *codec);

#endif
