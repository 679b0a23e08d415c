/* Examples: rows of tokens that stand alone, each an answer with what it answers. Never cut and never joined, except by who
 * packs them into windows.
 *
 * In memory there are sixteen bytes an example; tokens are read from the caches, by any number of threads at once. */
#ifndef ZN_FORMATS_EXAMPLES_H
#define ZN_FORMATS_EXAMPLES_H

#include "formats/token_cache.h"

typedef struct zn_examples zn_examples;

/* An empty list, to which caches of examples are added in the order of the data. */
zn_status zn_examples_create(zn_examples **examples);
void zn_examples_close(zn_examples *examples); /* NULL is legal */

/* On success the list owns the cache. Reads its marks; blocks. */
zn_status zn_examples_add_cache(zn_examples *examples, const struct zn_token_cache *cache);

int64_t zn_examples_n(const zn_examples *examples);

/* Tokens of an example, and those of them that count as targets: all but the first may. */
int64_t zn_examples_length(const zn_examples *examples, int64_t i);
int64_t zn_examples_n_targets(const zn_examples *examples, int64_t i);

/* The first n tokens of example i, with a byte for each, 1 where it counts. */
zn_status zn_examples_read(const zn_examples *examples, int64_t i, int64_t n, int32_t *ids, uint8_t *counts);

/* Of every token, whether it counts, and where examples begin. Reads all of it. */
zn_status zn_examples_hash(const zn_examples *examples, uint64_t *hash);

/* What the list holds in memory. */
size_t zn_examples_bytes(const zn_examples *examples);

#endif
