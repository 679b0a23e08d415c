/* The manifest: every large buffer of a run with its tier, kind and size. The plan writes it; the run allocates what it says and
 * nothing else. A buffer is found by its id; its name is for people. */
#ifndef ZN_MEMORY_MANIFEST_H
#define ZN_MEMORY_MANIFEST_H

#include <stddef.h>

#include "memory/ledger.h"

struct zn_manifest_entry {
    int id; /* of the buffer, or ZN_MANIFEST_TABLE */
    char name[64];
    zn_tier tier;
    zn_kind kind;
    size_t n_bytes;
};

enum { ZN_MANIFEST_TABLE = -1 }; /* a table of the model */

typedef struct zn_manifest {
    struct zn_manifest_entry *entries;
    size_t n_entries, capacity;
} zn_manifest;

void zn_manifest_init(zn_manifest *manifest);
void zn_manifest_fini(zn_manifest *manifest);

zn_status zn_manifest_add(zn_manifest *manifest, int id, const char *name, zn_tier tier, zn_kind kind, size_t n_bytes);

/* NULL where there is no such buffer. */
const struct zn_manifest_entry *zn_manifest_find(const zn_manifest *manifest, int id);

/* Bytes of a tier and kind; ZN_N_TIERS or ZN_N_KINDS stand for all of them. */
size_t zn_manifest_bytes(const zn_manifest *manifest, zn_tier tier, zn_kind kind);

#endif
