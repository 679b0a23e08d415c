/* Sums by tier and kind, and their peaks. */
#include "memory/ledger.h"

#include <assert.h>
#include <string.h>

const char *zn_tier_name(zn_tier tier)
{
    static const char *const names[ZN_N_TIERS] = {"device", "host", "nvme"};
    return names[tier];
}

const char *zn_kind_name(zn_kind kind)
{
    static const char *const names[ZN_N_KINDS] = {"parameters", "gradients", "optimizer",
                                                  "activations", "buffers"};
    return names[kind];
}

void zn_ledger_init(zn_ledger *ledger)
{
    memset(ledger, 0, sizeof *ledger);
}

size_t zn_ledger_tier(const zn_ledger *ledger, zn_tier tier)
{
    size_t sum = 0;
    for (int kind = 0; kind < ZN_N_KINDS; kind++)
        sum += ledger->current[tier][kind];
    return sum;
}

size_t zn_ledger_kind(const zn_ledger *ledger, zn_kind kind)
{
    size_t sum = 0;
    for (int tier = 0; tier < ZN_N_TIERS; tier++)
        sum += ledger->current[tier][kind];
    return sum;
}

void zn_ledger_charge(zn_ledger *ledger, zn_tier tier, zn_kind kind, size_t n_bytes)
{
    ledger->n_charges++;
    ledger->current[tier][kind] += n_bytes;
    size_t in_tier = zn_ledger_tier(ledger, tier), of_kind = zn_ledger_kind(ledger, kind);
    if (in_tier > ledger->tier_peak[tier])
        ledger->tier_peak[tier] = in_tier;
    if (of_kind > ledger->kind_peak[kind])
        ledger->kind_peak[kind] = of_kind;
}

void zn_ledger_release(zn_ledger *ledger, zn_tier tier, zn_kind kind, size_t n_bytes)
{
    assert(ledger->current[tier][kind] >= n_bytes);
    ledger->current[tier][kind] -= n_bytes;
}
