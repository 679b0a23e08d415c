/* The tokenizer of a hub folder: text to ids and back. */
#ifndef ZINC_TOKENIZER_H
#define ZINC_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "zinc/progress.h"
#include "zinc/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Constant once it is open: any number of threads may use it. */
typedef struct zn_tokenizer zn_tokenizer;

/* A list of ids that grows. It begins with all fields zero. */
struct zn_ids {
    int32_t *id;
    size_t n, capacity;
};

/* Appends an id to a list. Not collective. */
ZN_API zn_status zn_ids_add(struct zn_ids *ids, int32_t id);

/* Frees the ids of a list, which is empty then. Not collective. */
ZN_API void zn_ids_fini(struct zn_ids *ids);

/* Reads tokenizer.json of a hub folder, and the names of special tokens in tokenizer_config.json. What is not supported is refused by
 * name. Not collective; blocks. The caller closes. */
ZN_API zn_status zn_tokenizer_open(const char *folder, zn_tokenizer **tokenizer);

/* Frees a tokenizer. Not collective; NULL is legal. */
ZN_API void zn_tokenizer_close(zn_tokenizer *tokenizer);

/* Appends the ids of a text. Added tokens inside it are recognised; with `add_special` the tokens that the file puts around texts are,
 * too. Invalid UTF-8 becomes U+FFFD. The caller calls zn_ids_fini. Not collective. */
ZN_API zn_status zn_tokenizer_encode(const zn_tokenizer *tokenizer, const char *text, size_t n_bytes, bool add_special,
                                     struct zn_ids *ids);

/* The text of ids, NUL-terminated; an unknown id is an error. The caller frees it with zn_free. Not collective. */
ZN_API zn_status zn_tokenizer_decode(const zn_tokenizer *tokenizer, const int32_t *ids, size_t n_ids, bool skip_special, char **text,
                                     size_t *n_bytes);

/* Threads for one long text, 1 until it is said. Ids do not depend on it. Not while another thread uses the tokenizer. Not collective. */
ZN_API void zn_tokenizer_set_threads(zn_tokenizer *tokenizer, int n_threads);

/* What becomes a token file. */
struct zn_tokenize_options {
    size_t size;       /* sizeof(struct zn_tokenize_options) */
    const char *model; /* the tokenizer's folder, whose config.json may name the end of text */
    const char *const *inputs; /* .txt, .jsonl and .json files, or folders of them */
    size_t n_inputs;
    const char *output;     /* .bin; it appears under its name when it is whole */
    const char *const *map; /* NEW=OLD: the key OLD of rows is read as NEW; NULL: none */
    size_t n_map;
    int threads;           /* 0: physical cores */
    zn_progress *progress; /* is told what is done; NULL: nobody asks */
    void *self;
    void (*note)(void *self, const char *text); /* what a person should know of the rows; may be NULL */
};

struct zn_tokenized {
    size_t size; /* sizeof(struct zn_tokenized), set by the caller */
    int64_t n_tokens;
    size_t n_files;
    uint64_t n_bytes; /* of the inputs */
};

/* Encodes files into one token file, as `zinc tokenize` does. Not collective; blocks. */
ZN_API zn_status zn_tokenizer_write_file(const zn_tokenizer *tokenizer, const struct zn_tokenize_options *options,
                                         struct zn_tokenized *result);

/* One more than the largest id. Not collective. */
ZN_API int64_t zn_tokenizer_n_ids(const zn_tokenizer *tokenizer);

/* The id of a token by its exact text, -1 where there is none. Not collective. */
ZN_API int32_t zn_tokenizer_id(const zn_tokenizer *tokenizer, const char *token);

/* The id that ends a text, as tokenizer_config.json names it; -1: it does not. Not collective. */
ZN_API int32_t zn_tokenizer_eos(const zn_tokenizer *tokenizer);

#ifdef __cplusplus
}
#endif
#endif
