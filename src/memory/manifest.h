/* The manifest: every large buffer of a run by name, tier, kind and size.
 *
 * The dry run writes it (each allocation adds an entry); the real run allocates from it and
 * from nothing else (each allocation must find its entry, of the same size). */
#ifndef ZN_MEMORY_MANIFEST_H
#define ZN_MEMORY_MANIFEST_H

#include <stddef.h>

#include "memory/ledger.h"

struct zn_manifest_entry {
    char name[64];
    zn_tier tier;
    zn_kind kind;
    size_t n_bytes;
};

typedef struct zn_manifest {
    struct zn_manifest_entry *entries;
    size_t n_entries, capacity;
} zn_manifest;

void zn_manifest_init(zn_manifest *manifest);
void zn_manifest_fini(zn_manifest *manifest);

zn_status zn_manifest_add(zn_manifest *manifest, const char *name, zn_tier tier, zn_kind kind,
                          size_t n_bytes);

/* Fails (an internal error) unless the manifest has exactly this buffer. */
zn_status zn_manifest_check(const zn_manifest *manifest, const char *name, zn_tier tier,
                            zn_kind kind, size_t n_bytes);

/* Bytes of a tier and kind; ZN_N_TIERS or ZN_N_KINDS stand for all of them. */
size_t zn_manifest_bytes(const zn_manifest *manifest, zn_tier tier, zn_kind kind);

#endif
