/* A bump allocator for many small things that die together. */
#ifndef ZN_BASE_BUMP_H
#define ZN_BASE_BUMP_H

#include <stddef.h>

typedef struct zn_bump {
    struct zn_bump_chunk *chunks; /* the newest first */
} zn_bump;

void zn_bump_init(zn_bump *bump);
void zn_bump_fini(zn_bump *bump);

/* Zeroed memory that lives until reset or fini; NULL when there is none. */
void *zn_bump_alloc(zn_bump *bump, size_t n_bytes);

/* Frees everything handed out. Keeps the chunks for reuse. */
void zn_bump_reset(zn_bump *bump);

#endif
