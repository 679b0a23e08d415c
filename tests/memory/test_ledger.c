/* The ledger: sums by tier and kind, and their peaks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "memory/ledger.h"

static void sums_are_by_tier_and_by_kind(void **state)
{
    (void)state;
    zn_ledger ledger;
    zn_ledger_init(&ledger);
    zn_ledger_charge(&ledger, ZN_TIER_DEVICE, ZN_KIND_PARAMETERS, 10);
    zn_ledger_charge(&ledger, ZN_TIER_DEVICE, ZN_KIND_GRADIENTS, 20);
    zn_ledger_charge(&ledger, ZN_TIER_NVME, ZN_KIND_GRADIENTS, 400);
    assert_int_equal(zn_ledger_tier(&ledger, ZN_TIER_DEVICE), 30);
    assert_int_equal(zn_ledger_tier(&ledger, ZN_TIER_HOST), 0);
    assert_int_equal(zn_ledger_tier(&ledger, ZN_TIER_NVME), 400);
    assert_int_equal(zn_ledger_kind(&ledger, ZN_KIND_GRADIENTS), 420);
    zn_ledger_release(&ledger, ZN_TIER_NVME, ZN_KIND_GRADIENTS, 150);
    assert_int_equal(zn_ledger_kind(&ledger, ZN_KIND_GRADIENTS), 270);
    assert_int_equal(zn_ledger_tier(&ledger, ZN_TIER_NVME), 250);
}

/* The peak of a tier is of the sum of its kinds, not the sum of the kinds' peaks. */
static void peaks_are_of_sums(void **state)
{
    (void)state;
    zn_ledger ledger;
    zn_ledger_init(&ledger);
    zn_ledger_charge(&ledger, ZN_TIER_HOST, ZN_KIND_ACTIVATIONS, 100);
    zn_ledger_release(&ledger, ZN_TIER_HOST, ZN_KIND_ACTIVATIONS, 100);
    zn_ledger_charge(&ledger, ZN_TIER_HOST, ZN_KIND_BUFFERS, 70);
    zn_ledger_charge(&ledger, ZN_TIER_DEVICE, ZN_KIND_BUFFERS, 50);
    assert_int_equal(ledger.tier_peak[ZN_TIER_HOST], 100);
    assert_int_equal(ledger.tier_peak[ZN_TIER_DEVICE], 50);
    assert_int_equal(ledger.kind_peak[ZN_KIND_BUFFERS], 120);
    assert_int_equal(ledger.kind_peak[ZN_KIND_ACTIVATIONS], 100);
    zn_ledger_charge(&ledger, ZN_TIER_HOST, ZN_KIND_ACTIVATIONS, 31);
    assert_int_equal(ledger.tier_peak[ZN_TIER_HOST], 101);
}

static void tiers_and_kinds_have_their_names(void **state)
{
    (void)state;
    assert_string_equal(zn_tier_name(ZN_TIER_DEVICE), "device");
    assert_string_equal(zn_tier_name(ZN_TIER_NVME), "nvme");
    assert_string_equal(zn_kind_name(ZN_KIND_PARAMETERS), "parameters");
    assert_string_equal(zn_kind_name(ZN_KIND_BUFFERS), "buffers");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_by_tier_and_by_kind),
        cmocka_unit_test(peaks_are_of_sums),
        cmocka_unit_test(tiers_and_kinds_have_their_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
