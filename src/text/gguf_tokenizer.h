/* A tokenizer in llama.cpp's words: tokens, their types, merges or scores, special ids and the chat template as metadata of a
 * GGUF file. What llama.cpp would cut otherwise is refused by name. */
#ifndef ZN_TEXT_GGUF_TOKENIZER_H
#define ZN_TEXT_GGUF_TOKENIZER_H

#include "base/json.h"
#include "formats/gguf.h"
#include "text/tokenizer.h"

struct zn_gguf_vocabulary {
    const char *folder; /* the tokenizer's */
    zn_json *config;    /* config.json: ids that the tokenizer's files do not name */
    int64_t n_tokens;   /* vocab_size; ids that the tokenizer does not have become unused tokens */
    const char *pre;    /* tokenizer.ggml.pre; NULL: by the patterns of tokenizer.json */
    void (*note)(void *self, const char *text); /* what a person should know of the difference to llama.cpp */
    void *self;
};

/* Adds the keys that begin with "tokenizer.". Blocks. */
zn_status zn_gguf_add_tokenizer(const zn_tokenizer *tokenizer, const struct zn_gguf_vocabulary *how,
                                zn_gguf_metadata *metadata);

#endif
