/* The ledger: every byte of large memory, by tier and kind, and the peak of each.
 * Not thread-safe: charged by the engine thread only. */
#ifndef ZN_MEMORY_LEDGER_H
#define ZN_MEMORY_LEDGER_H

#include <stddef.h>

#include "base/status.h"

typedef enum zn_tier { ZN_TIER_DEVICE, ZN_TIER_HOST, ZN_TIER_NVME, ZN_N_TIERS } zn_tier;

typedef enum zn_kind {
    ZN_KIND_PARAMETERS,
    ZN_KIND_GRADIENTS,
    ZN_KIND_OPTIMIZER,
    ZN_KIND_ACTIVATIONS,
    ZN_KIND_BUFFERS,
    ZN_N_KINDS
} zn_kind;

typedef struct zn_ledger {
    size_t current[ZN_N_TIERS][ZN_N_KINDS];
    size_t tier_peak[ZN_N_TIERS];
    size_t kind_peak[ZN_N_KINDS]; /* over all tiers */
    size_t n_charges;             /* allocations so far: none is made in a steady state */
} zn_ledger;

const char *zn_tier_name(zn_tier tier);
const char *zn_kind_name(zn_kind kind);

void zn_ledger_init(zn_ledger *ledger);
void zn_ledger_charge(zn_ledger *ledger, zn_tier tier, zn_kind kind, size_t n_bytes);
void zn_ledger_release(zn_ledger *ledger, zn_tier tier, zn_kind kind, size_t n_bytes);

size_t zn_ledger_tier(const zn_ledger *ledger, zn_tier tier);
size_t zn_ledger_kind(const zn_ledger *ledger, zn_kind kind);

#endif
