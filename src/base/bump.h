/* A bump allocator for many small things that die together. */
#ifndef ZN_BASE_BUMP_H
#define ZN_BASE_BUMP_H

#include <stddef.h>

typedef struct zn_bump {
    struct zn_bump_chunk *first, *current; /* those before current are done with until reset */
} zn_bump;

void zn_bump_init(zn_bump *bump);
void zn_bump_fini(zn_bump *bump);

/* Zeroed memory that lives until reset or fini; NULL when there is none. */
void *zn_bump_alloc(zn_bump *bump, size_t n_bytes);

/* Frees everything handed out. Keeps the chunks: the same requests in the same order then get the
 * same addresses. */
void zn_bump_reset(zn_bump *bump);

#endif
