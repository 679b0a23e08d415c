/* Chunks in a list; a reset keeps them, so that a steady state allocates nothing. */
#include "base/bump.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

struct zn_bump_chunk {
    struct zn_bump_chunk *next;
    size_t used, capacity;
    alignas(max_align_t) unsigned char data[];
};

enum { CHUNK_BYTES = 64 * 1024 };

void zn_bump_init(zn_bump *bump)
{
    bump->chunks = NULL;
}

void zn_bump_fini(zn_bump *bump)
{
    while (bump->chunks) {
        struct zn_bump_chunk *next = bump->chunks->next;
        free(bump->chunks);
        bump->chunks = next;
    }
}

void *zn_bump_alloc(zn_bump *bump, size_t n_bytes)
{
    size_t need = (n_bytes + alignof(max_align_t) - 1) / alignof(max_align_t) * alignof(max_align_t);
    struct zn_bump_chunk *chunk = bump->chunks;
    while (chunk && chunk->capacity - chunk->used < need)
        chunk = chunk->next;
    if (!chunk) {
        size_t capacity = need > CHUNK_BYTES ? need : CHUNK_BYTES;
        chunk = malloc(sizeof *chunk + capacity);
        if (!chunk)
            return NULL;
        chunk->used = 0;
        chunk->capacity = capacity;
        chunk->next = bump->chunks;
        bump->chunks = chunk;
    }
    void *result = chunk->data + chunk->used;
    chunk->used += need;
    memset(result, 0, need);
    return result;
}

void zn_bump_reset(zn_bump *bump)
{
    for (struct zn_bump_chunk *c = bump->chunks; c; c = c->next)
        c->used = 0;
}
