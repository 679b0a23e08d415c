/* The list of large buffers. */
#include "memory/manifest.h"

#include <stdio.h>
#include <stdlib.h>

void zn_manifest_init(zn_manifest *manifest)
{
    *manifest = (zn_manifest){0};
}

void zn_manifest_fini(zn_manifest *manifest)
{
    free(manifest->entries);
    *manifest = (zn_manifest){0};
}

zn_status zn_manifest_add(zn_manifest *m, int id, const char *name, zn_tier tier, zn_kind kind, size_t n_bytes)
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
    e->id = id;
    snprintf(e->name, sizeof e->name, "%s", name);
    e->tier = tier;
    e->kind = kind;
    e->n_bytes = n_bytes;
    return ZN_OK;
}

const struct zn_manifest_entry *zn_manifest_find(const zn_manifest *m, int id)
{
    for (size_t i = 0; i < m->n_entries; i++)
        if (m->entries[i].id == id)
            return &m->entries[i];
    return NULL;
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
