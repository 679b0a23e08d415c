/* The manifest: sums by tier and kind, and only what is in it is found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "memory/manifest.h"

static void fill(zn_manifest *m)
{
    zn_manifest_init(m);
    assert_int_equal(zn_manifest_add(m, "parameters", ZN_TIER_DEVICE, ZN_KIND_PARAMETERS, 1000),
                     ZN_OK);
    assert_int_equal(zn_manifest_add(m, "exp_avg", ZN_TIER_NVME, ZN_KIND_OPTIMIZER, 2000), ZN_OK);
    assert_int_equal(zn_manifest_add(m, "exp_avg_sq", ZN_TIER_NVME, ZN_KIND_OPTIMIZER, 2000),
                     ZN_OK);
    assert_int_equal(zn_manifest_add(m, "arena", ZN_TIER_DEVICE, ZN_KIND_ACTIVATIONS, 300), ZN_OK);
}

static void bytes_are_summed_by_tier_and_kind(void **state)
{
    (void)state;
    zn_manifest m;
    fill(&m);
    assert_int_equal(zn_manifest_bytes(&m, ZN_N_TIERS, ZN_N_KINDS), 5300);
    assert_int_equal(zn_manifest_bytes(&m, ZN_TIER_DEVICE, ZN_N_KINDS), 1300);
    assert_int_equal(zn_manifest_bytes(&m, ZN_TIER_HOST, ZN_N_KINDS), 0);
    assert_int_equal(zn_manifest_bytes(&m, ZN_N_TIERS, ZN_KIND_OPTIMIZER), 4000);
    assert_int_equal(zn_manifest_bytes(&m, ZN_TIER_DEVICE, ZN_KIND_OPTIMIZER), 0);
    zn_manifest_fini(&m);
    assert_int_equal(zn_manifest_bytes(&m, ZN_N_TIERS, ZN_N_KINDS), 0);
}

static void only_what_was_planned_is_found(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        zn_tier tier;
        zn_kind kind;
        size_t n_bytes;
    } wrong[] = {{"momentum", ZN_TIER_NVME, ZN_KIND_OPTIMIZER, 2000},
                 {"exp_avg", ZN_TIER_HOST, ZN_KIND_OPTIMIZER, 2000},
                 {"exp_avg", ZN_TIER_NVME, ZN_KIND_BUFFERS, 2000},
                 {"exp_avg", ZN_TIER_NVME, ZN_KIND_OPTIMIZER, 2001},
                 {"exp_avg", ZN_TIER_NVME, ZN_KIND_OPTIMIZER, 1999}};
    zn_manifest m;
    fill(&m);
    assert_int_equal(zn_manifest_check(&m, "exp_avg", ZN_TIER_NVME, ZN_KIND_OPTIMIZER, 2000),
                     ZN_OK);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(
            zn_manifest_check(&m, wrong[i].name, wrong[i].tier, wrong[i].kind, wrong[i].n_bytes),
            ZN_ERR_INTERNAL);
        assert_non_null(strstr(zn_error_message(), wrong[i].name));
    }
    zn_manifest_fini(&m);
}

static void any_number_of_entries_fits(void **state)
{
    (void)state;
    zn_manifest m;
    char name[80];
    zn_manifest_init(&m);
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "buffer %d", i);
        assert_int_equal(zn_manifest_add(&m, name, ZN_TIER_HOST, ZN_KIND_BUFFERS, (size_t)i),
                         ZN_OK);
    }
    assert_int_equal(m.n_entries, 1000);
    assert_int_equal(zn_manifest_bytes(&m, ZN_TIER_HOST, ZN_KIND_BUFFERS), 999 * 500);
    assert_int_equal(zn_manifest_check(&m, "buffer 637", ZN_TIER_HOST, ZN_KIND_BUFFERS, 637),
                     ZN_OK);
    zn_manifest_fini(&m);
    zn_manifest_fini(&m); /* legal, and does nothing */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_summed_by_tier_and_kind),
        cmocka_unit_test(only_what_was_planned_is_found),
        cmocka_unit_test(any_number_of_entries_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
