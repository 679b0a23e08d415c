/* Chunks in the order they were made; a reset keeps them and starts over at the first, so that
 * the same requests find the same places and a steady state allocates nothing. */
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
    *bump = (zn_bump){0};
}

void zn_bump_fini(zn_bump *bump)
{
    while (bump->first) {
        struct zn_bump_chunk *next = bump->first->next;
        free(bump->first);
        bump->first = next;
    }
    bump->current = NULL;
}

/* A chunk at the end of the list; NULL when there is no memory. */
static struct zn_bump_chunk *append_chunk(zn_bump *bump, size_t capacity)
{
    struct zn_bump_chunk **end = bump->current ? &bump->current->next : &bump->first;
    while (*end)
        end = &(*end)->next;
    struct zn_bump_chunk *chunk = malloc(sizeof *chunk + capacity);
    if (!chunk)
        return NULL;
    chunk->next = NULL;
    chunk->used = 0;
    chunk->capacity = capacity;
    *end = chunk;
    return chunk;
}

void *zn_bump_alloc(zn_bump *bump, size_t n_bytes)
{
    size_t need =
        (n_bytes + alignof(max_align_t) - 1) / alignof(max_align_t) * alignof(max_align_t);
    struct zn_bump_chunk *chunk = bump->current;
    while (chunk && chunk->capacity - chunk->used < need)
        chunk = chunk->next;
    if (!chunk)
        chunk = append_chunk(bump, need > CHUNK_BYTES ? need : CHUNK_BYTES);
    if (!chunk)
        return NULL;
    bump->current = chunk;
    void *result = chunk->data + chunk->used;
    chunk->used += need;
    memset(result, 0, need);
    return result;
}

void zn_bump_reset(zn_bump *bump)
{
    for (struct zn_bump_chunk *c = bump->first; c; c = c->next)
        c->used = 0;
    bump->current = bump->first;
}
