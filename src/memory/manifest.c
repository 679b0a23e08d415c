/* The list of large buffers. */
#include "memory/manifest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void zn_manifest_init(zn_manifest *manifest)
{
    *manifest = (zn_manifest){0};
}

void zn_manifest_fini(zn_manifest *manifest)
{
    free(manifest->entries);
    *manifest = (zn_manifest){0};
}

zn_status zn_manifest_add(zn_manifest *m, const char *name, zn_tier tier, zn_kind kind,
                          size_t n_bytes)
{
    if (m->n_entries == m->capacity) {
        size_t capacity = m->capacity ? 2 * m->capacity : 64;
        struct zn_manifest_entry *grown = realloc(m->entries, capacity * sizeof *grown);
        if (!grown)
            return zn_fail(ZN_ERR_MEMORY, "no memory for the manifest");
        m->entries = grown;
        m->capacity = capacity;
    }
    struct zn_manifest_entry *e = &m->entries[m->n_entries++];
    snprintf(e->name, sizeof e->name, "%s", name);
    e->tier = tier;
    e->kind = kind;
    e->n_bytes = n_bytes;
    return ZN_OK;
}

zn_status zn_manifest_check(const zn_manifest *m, const char *name, zn_tier tier, zn_kind kind,
                            size_t n_bytes)
{
    for (size_t i = 0; i < m->n_entries; i++) {
        const struct zn_manifest_entry *e = &m->entries[i];
        if (strcmp(e->name, name) == 0 && e->tier == tier && e->kind == kind &&
            e->n_bytes == n_bytes)
            return ZN_OK;
    }
    return zn_fail(ZN_ERR_INTERNAL, "buffer '%s' of %zu bytes is not in the plan", name, n_bytes);
}

size_t zn_manifest_bytes(const zn_manifest *m, zn_tier tier, zn_kind kind)
{
    size_t sum = 0;
    for (size_t i = 0; i < m->n_entries; i++) {
        const struct zn_manifest_entry *e = &m->entries[i];
        if ((tier == ZN_N_TIERS || e->tier == tier) && (kind == ZN_N_KINDS || e->kind == kind))
            sum += e->n_bytes;
    }
    return sum;
}
