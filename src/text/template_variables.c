/* Variables of a template: a stack, innermost body last, found by the hash of the name.
 *
 * Variables of one bucket are linked from the last set to the first, so the innermost of a name comes first, and those of a
 * body, the last on the stack, are the first of their buckets when it ends. */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "text/template_run.h"

static size_t *bucket_of(const struct run *r, uint64_t hash)
{
    return &r->buckets[hash & (r->n_buckets - 1)];
}

static void link_variable(struct run *r, size_t i)
{
    size_t *bucket = bucket_of(r, r->variables[i].hash);
    r->variables[i].prior = *bucket;
    *bucket = i + 1;
}

/* Twice as many variables, and as many buckets as variables. */
static zn_status grow(struct run *r)
{
    size_t capacity = r->capacity ? 2 * r->capacity : 16;
    struct run_variable *variables = realloc(r->variables, capacity * sizeof *variables);
    if (variables)
        r->variables = variables;
    size_t *buckets = variables ? calloc(capacity, sizeof *buckets) : NULL;
    if (!buckets)
        return zn_fail(ZN_ERR_MEMORY, "out of memory for a chat template");
    free(r->buckets);
    r->buckets = buckets;
    r->n_buckets = r->capacity = capacity;
    for (size_t i = 0; i < r->n_variables; i++)
        link_variable(r, i);
    return ZN_OK;
}

static struct run_variable *find(const struct run *r, uint64_t hash, const char *name, size_t name_bytes)
{
    for (size_t at = r->n_buckets ? *bucket_of(r, hash) : 0; at > 0; at = r->variables[at - 1].prior) {
        struct run_variable *v = &r->variables[at - 1];
        if (v->hash == hash && v->name_bytes == name_bytes && memcmp(v->name, name, name_bytes) == 0)
            return v;
    }
    return NULL;
}

const struct run_variable *run_find(const struct run *r, const char *name, size_t name_bytes)
{
    return find(r, XXH3_64bits(name, name_bytes), name, name_bytes);
}

zn_status run_set(struct run *r, const char *name, size_t name_bytes, const struct value *value)
{
    uint64_t hash = XXH3_64bits(name, name_bytes);
    struct run_variable *v = find(r, hash, name, name_bytes);
    if (v && (size_t)(v - r->variables) >= r->frame) {
        v->value = *value;
        return ZN_OK;
    }
    if (r->n_variables == r->capacity)
        ZN_TRY(grow(r));
    r->variables[r->n_variables] = (struct run_variable){.name = name, .name_bytes = name_bytes, .value = *value, .hash = hash};
    link_variable(r, r->n_variables++);
    return ZN_OK;
}

void run_forget(struct run *r)
{
    while (r->n_variables > r->frame) {
        const struct run_variable *v = &r->variables[--r->n_variables];
        *bucket_of(r, v->hash) = v->prior;
    }
}

void run_variables_fini(struct run *r)
{
    free(r->buckets);
    free(r->variables);
}
