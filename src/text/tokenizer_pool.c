/* What threads need for themselves outlives a call, so that their caches stay warm: a thread takes
 * one and gives it back. */
#include <pthread.h>
#include <stdlib.h>

#include "text/tokenizer_private.h"

struct tok_pool {
    pthread_mutex_t mutex;
    struct tok_scratch *free; /* guarded by mutex */
};

struct tok_pool *pool_create(void)
{
    struct tok_pool *pool = calloc(1, sizeof *pool);
    if (pool)
        pthread_mutex_init(&pool->mutex, NULL);
    return pool;
}

static void scratch_destroy(struct tok_scratch *s)
{
    matcher_destroy(s->matcher);
    for (size_t i = 0; i < TOK_MAX_OPS; i++)
        buffer_fini(&s->step[i]);
    buffer_fini(&s->mapped);
    free(s->cache);
    free(s->symbol);
    free(s->rank);
    free(s->before);
    free(s->after);
    free(s->heap);
    free(s);
}

void pool_destroy(struct tok_pool *pool)
{
    if (!pool)
        return;
    for (struct tok_scratch *s = pool->free, *next; s; s = next) {
        next = s->next;
        scratch_destroy(s);
    }
    pthread_mutex_destroy(&pool->mutex);
    free(pool);
}

struct tok_scratch *pool_take(struct tok_pool *pool)
{
    pthread_mutex_lock(&pool->mutex);
    struct tok_scratch *s = pool->free;
    if (s)
        pool->free = s->next;
    pthread_mutex_unlock(&pool->mutex);
    if (s)
        return s;
    s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->matcher = matcher_create();
    s->cache = calloc(TOK_CACHE, sizeof *s->cache);
    if (s->matcher && s->cache)
        return s;
    scratch_destroy(s);
    return NULL;
}

void pool_give(struct tok_pool *pool, struct tok_scratch *scratch)
{
    pthread_mutex_lock(&pool->mutex);
    scratch->next = pool->free;
    pool->free = scratch;
    pthread_mutex_unlock(&pool->mutex);
}
