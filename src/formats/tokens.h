/* Training data as one row of token ids over several files.
 *
 *   .bin   llm.c's token files: 256 int32 of header (magic, version, count), then the ids;
 *          magic 20240520 version 1 has 16-bit ids, magic 20240801 version 7 32-bit ids
 *   .txt   one document, for the built-in byte tokenizer: the id is the byte; the end-of-text id
 *          follows each file
 *   caches of text that was encoded (token_cache.h), which also say which tokens count as targets
 *
 * Nothing is held but the list of files, which are opened for each read: a source of any number of
 * files of any size takes the same memory, and any number of threads may read at once. */
#ifndef ZN_FORMATS_TOKENS_H
#define ZN_FORMATS_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "formats/token_cache.h"

struct zn_token_source_options {
    int64_t vocab_size;  /* ids read must be below; 0: unknown, any id goes */
    int32_t end_of_text; /* follows each text; -1: none */
    bool bytes;          /* the model has no tokenizer: text is taken as bytes */
};

typedef struct zn_token_source zn_token_source;

/* An empty source, to which files and caches are added in the order of their tokens. */
zn_status zn_tokens_create(const struct zn_token_source_options *options, zn_token_source **source);

/* A .bin file, or text as bytes. A damaged file is an error. */
zn_status zn_tokens_add_file(zn_token_source *source, const struct zn_data_file *file);

/* On success the source owns the cache. `name` stands for it in messages. */
zn_status zn_tokens_add_cache(zn_token_source *source, const char *name, const struct zn_token_cache *cache);

/* Fails when no file has a token, naming the paths that were given. */
zn_status zn_tokens_check(const zn_token_source *source, const char *const *paths, size_t n_paths);

/* All of it for files that need no encoding. Paths are files and folders, as of zn_data_files_list. */
zn_status zn_tokens_open(const char *const *paths, size_t n_paths, const struct zn_token_source_options *options,
                         zn_token_source **source);
void zn_tokens_close(zn_token_source *source); /* NULL is legal */

int64_t zn_tokens_total(const zn_token_source *source);
size_t zn_tokens_n_files(const zn_token_source *source);
int32_t zn_tokens_end_of_text(const zn_token_source *source); /* -1: none */

/* Tokens first … first+n. An id outside the vocabulary is an error that names the file, the
 * position in it and the id. */
zn_status zn_tokens_read(const zn_token_source *source, int64_t first, int64_t n_tokens, int32_t *out);

/* Whether tokens first … first+n count as targets: a byte for each, 0 or 1. */
zn_status zn_tokens_read_counts(const zn_token_source *source, int64_t first, int64_t n_tokens, uint8_t *counts);

/* Whether a file, or a row that was an example, begins with each of them: 0 or 1. */
zn_status zn_tokens_read_begins(const zn_token_source *source, int64_t first, int64_t n_tokens, uint8_t *begins);

/* Of every token and whether it counts, so that other data are known as such. Reads all of it: an id outside the
 * vocabulary is found here. */
zn_status zn_tokens_hash(const zn_token_source *source, uint64_t *hash);

/* Windows of T inputs and their T targets: window i is tokens i·T … i·T+T, both ends included. Less
 * data than one window is an error. `counts` may be NULL. */
zn_status zn_tokens_n_windows(const zn_token_source *source, int64_t length, int64_t *n_windows);
zn_status zn_tokens_window(const zn_token_source *source, int64_t i, int64_t length,
                           int32_t *out /* length + 1 */, uint8_t *counts /* length + 1 */);

/* ---- Writing ---- */

enum { ZN_TOKENS_HEADER = 256 }; /* int32 words */

/* A .bin file of ids that come piece by piece; it appears under its name when it is finished. */
typedef struct zn_token_writer zn_token_writer;

/* 16-bit ids when the vocabulary has at most 65536, else 32-bit. Path NULL: a file without a name, see
 * zn_token_writer_reader. */
zn_status zn_token_writer_create(const char *path, int64_t vocab_size, zn_token_writer **writer);
zn_status zn_token_writer_append(zn_token_writer *writer, const int32_t *ids, int64_t n_tokens);
zn_status zn_token_writer_finish(zn_token_writer *writer);
void zn_token_writer_destroy(zn_token_writer *writer); /* NULL is legal */

size_t zn_token_writer_id_bytes(const zn_token_writer *writer);

/* A descriptor to read the file with, before it is finished; the caller closes it. */
zn_status zn_token_writer_reader(const zn_token_writer *writer, int *fd);

/* The three steps at once. */
zn_status zn_tokens_write(const char *path, int64_t vocab_size, const int32_t *ids, int64_t n_tokens);

#endif
