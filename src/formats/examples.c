/* The list of examples, learned from the marks of their caches. */
#include "formats/examples.h"

#include <stdlib.h>

#include "formats/token_format.h"

struct example {
    uint64_t first; /* its first token among those of its cache */
    uint32_t n_tokens, n_targets;
};

struct cache {
    struct zn_token_cache file;
    int64_t first, end; /* its examples */
};

struct zn_examples {
    struct example *examples;
    int64_t n, capacity;
    struct cache *caches;
    size_t n_caches;
};

zn_status zn_examples_create(zn_examples **examples)
{
    zn_examples *e = calloc(1, sizeof *e);
    if (!e)
        return zn_fail(ZN_ERR_MEMORY, "out of memory for a list of examples");
    *examples = e;
    return ZN_OK;
}

void zn_examples_close(zn_examples *e)
{
    if (!e)
        return;
    for (size_t i = 0; i < e->n_caches; i++)
        zn_token_cache_close(&e->caches[i].file);
    free(e->caches);
    free(e->examples);
    free(e);
}

/* ---- Adding ---- */

static zn_status reserve(zn_examples *e, int64_t n_more)
{
    struct example *examples = realloc(e->examples, (size_t)(e->n + n_more) * sizeof *examples);
    if (!examples)
        return zn_fail(ZN_ERR_MEMORY, "out of memory for a list of %lld examples", (long long)(e->n + n_more));
    e->examples = examples;
    e->capacity = e->n + n_more;
    struct cache *caches = realloc(e->caches, (e->n_caches + 1) * sizeof *caches);
    if (!caches)
        return zn_fail(ZN_ERR_MEMORY, "out of memory for a list of %zu caches", e->n_caches + 1);
    e->caches = caches;
    return ZN_OK;
}

static zn_status take_mark(zn_examples *e, const struct zn_token_cache *cache, int64_t at, uint8_t mark)
{
    if (mark & ZN_MARK_BEGINS) {
        if (e->n == e->capacity)
            return zn_fail(ZN_ERR_INPUT, "%s: damaged: more examples than the %lld it counts; remove it", cache->path,
                           (long long)cache->n_examples);
        e->examples[e->n++] = (struct example){.first = (uint64_t)at, .n_tokens = 1};
        return ZN_OK;
    }
    struct example *last = &e->examples[e->n - 1];
    last->n_tokens++;
    last->n_targets += mark & ZN_MARK_COUNTS;
    return ZN_OK;
}

static zn_status take_marks(zn_examples *e, const struct zn_token_cache *cache)
{
    enum { CHUNK = 16 * 1024 };
    uint8_t marks[CHUNK];
    int64_t first = e->n;
    for (int64_t at = 0; at < cache->n_tokens; at += CHUNK) {
        int64_t n = cache->n_tokens - at < CHUNK ? cache->n_tokens - at : CHUNK;
        ZN_TRY(zn_token_cache_marks(cache, at, n, marks));
        if (at == 0 && !(marks[0] & ZN_MARK_BEGINS))
            return zn_fail(ZN_ERR_INPUT, "%s: damaged: no example begins with its first token; remove it", cache->path);
        for (int64_t i = 0; i < n; i++)
            ZN_TRY(take_mark(e, cache, at + i, marks[i]));
    }
    if (e->n - first != cache->n_examples)
        return zn_fail(ZN_ERR_INPUT, "%s: damaged: %lld examples where it counts %lld; remove it", cache->path,
                       (long long)(e->n - first), (long long)cache->n_examples);
    return ZN_OK;
}

zn_status zn_examples_add_cache(zn_examples *e, const struct zn_token_cache *cache)
{
    int64_t first = e->n;
    ZN_TRY(reserve(e, cache->n_examples));
    zn_status status = take_marks(e, cache);
    if (status != ZN_OK) {
        e->n = first;
        return status;
    }
    e->caches[e->n_caches++] = (struct cache){.file = *cache, .first = first, .end = e->n};
    return ZN_OK;
}

/* ---- Reading ---- */

int64_t zn_examples_n(const zn_examples *e)
{
    return e->n;
}

int64_t zn_examples_length(const zn_examples *e, int64_t i)
{
    return e->examples[i].n_tokens;
}

int64_t zn_examples_n_targets(const zn_examples *e, int64_t i)
{
    return e->examples[i].n_targets;
}

size_t zn_examples_bytes(const zn_examples *e)
{
    return (size_t)e->capacity * sizeof *e->examples;
}

static const struct cache *find_cache(const zn_examples *e, int64_t i)
{
    size_t c = 0;
    while (i >= e->caches[c].end)
        c++;
    return &e->caches[c];
}

static zn_status read_ids(const struct zn_token_cache *cache, int64_t first, int64_t n, int32_t *ids)
{
    const struct token_ids from = {
        .path = cache->path, .fd = cache->ids_fd, .data = TOKEN_HEADER_BYTES, .id_bytes = cache->id_bytes};
    return token_ids_read(&from, first, n, ids);
}

zn_status zn_examples_read(const zn_examples *e, int64_t i, int64_t n, int32_t *ids, uint8_t *counts)
{
    const struct zn_token_cache *cache = &find_cache(e, i)->file;
    int64_t first = (int64_t)e->examples[i].first;
    ZN_TRY(zn_token_cache_counts(cache, first, n, counts));
    return read_ids(cache, first, n, ids);
}

static zn_status hash_cache(const struct zn_token_cache *cache, struct token_hash *hash)
{
    enum { CHUNK = 32 * 1024 };
    int32_t ids[CHUNK];
    uint8_t marks[CHUNK];
    for (int64_t at = 0; at < cache->n_tokens; at += CHUNK) {
        int64_t n = cache->n_tokens - at < CHUNK ? cache->n_tokens - at : CHUNK;
        ZN_TRY(read_ids(cache, at, n, ids));
        ZN_TRY(zn_token_cache_marks(cache, at, n, marks));
        token_hash_add(hash, ids, marks, n);
    }
    return ZN_OK;
}

zn_status zn_examples_hash(const zn_examples *e, uint64_t *hash)
{
    struct token_hash h;
    ZN_TRY(token_hash_init(&h));
    zn_status status = ZN_OK;
    for (size_t c = 0; c < e->n_caches && status == ZN_OK; c++)
        status = hash_cache(&e->caches[c].file, &h);
    *hash = token_hash_fini(&h);
    return status;
}
