/* Text that was turned into tokens, kept beside the output so that it is done once: a token file (.bin) and,
 * with the same name, two bits for each token (.mask): whether it counts as a target, and whether an example begins
 * with it. Documents, which are one row of tokens, and examples, which are never joined, have a cache each.
 *
 * The name is a hash of everything that the tokens depend on. Both files are written under temporary names; the mask
 * comes last, so where there is one, the tokens are whole. They may be deleted at any time. */
#ifndef ZN_FORMATS_TOKEN_CACHE_H
#define ZN_FORMATS_TOKEN_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "formats/data_files.h"

struct zn_cache_key {
    uint64_t low, high;
};

typedef enum zn_cache_part { ZN_CACHE_DOCUMENTS, ZN_CACHE_EXAMPLES, ZN_N_CACHE_PARTS } zn_cache_part;

/* What a cache depends on beside the files. */
struct zn_cache_options {
    const char *model_folder; /* its tokenizer files are part of the key */
    int64_t vocab_size;
    int32_t end_of_text;
    bool bytes;
    const char *const *map; /* NEW=OLD: how keys of rows are read */
    size_t n_map;
    bool pairs; /* rows are pairs of answers */
};

/* From the paths, sizes and times of the files and the contents of the tokenizer files. Blocks. */
zn_status zn_cache_key_of(const struct zn_cache_options *options, const struct zn_data_file *files, size_t n_files,
                          struct zn_cache_key *key);

/* An open cache: two descriptors, which are the owner's. */
struct zn_token_cache {
    int ids_fd, mask_fd;
    char *path; /* of the token file, for messages */
    size_t id_bytes;
    int64_t n_tokens, n_counting, n_examples;
};
void zn_token_cache_close(struct zn_token_cache *cache);

/* Opens the cache if the folder has one with this key that is whole; *found tells. */
zn_status zn_token_cache_open(const char *folder, const struct zn_cache_key *key, zn_cache_part part,
                              struct zn_token_cache *cache, bool *found);

typedef struct zn_cache_writer zn_cache_writer;

/* Folder NULL: files without names that are gone when they are closed. The folder is made. */
zn_status zn_cache_writer_create(const char *folder, const struct zn_cache_key *key, zn_cache_part part,
                                 int64_t vocab_size, zn_cache_writer **writer);

/* An example begins with the next id. */
void zn_cache_writer_begin_example(zn_cache_writer *writer);

/* `counts` has a byte for each id, 0 or 1. */
zn_status zn_cache_writer_append(zn_cache_writer *writer, const int32_t *ids, const uint8_t *counts, size_t n);

/* Gives the files their names and opens them. */
zn_status zn_cache_writer_finish(zn_cache_writer *writer, struct zn_token_cache *cache);
void zn_cache_writer_destroy(zn_cache_writer *writer); /* NULL is legal */

/* Of tokens first … first+n of the cache, a byte for each: whether it counts, and whether an example begins. */
enum { ZN_MARK_COUNTS = 1, ZN_MARK_BEGINS = 2 };
zn_status zn_token_cache_marks(const struct zn_token_cache *cache, int64_t first, int64_t n, uint8_t *marks);

/* The first of them alone: 0 or 1. */
zn_status zn_token_cache_counts(const struct zn_token_cache *cache, int64_t first, int64_t n, uint8_t *counts);

#endif
