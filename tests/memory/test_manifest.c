/* The manifest: sums by tier and kind, and buffers by id. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "memory/manifest.h"

static void fill(zn_manifest *m)
{
    zn_manifest_init(m);
    assert_int_equal(zn_manifest_add(m, 0, "parameters", ZN_TIER_DEVICE, ZN_KIND_PARAMETERS, 1000),
                     ZN_OK);
    assert_int_equal(zn_manifest_add(m, 3, "exp_avg", ZN_TIER_NVME, ZN_KIND_OPTIMIZER, 2000), ZN_OK);
    assert_int_equal(zn_manifest_add(m, 4, "exp_avg_sq", ZN_TIER_NVME, ZN_KIND_OPTIMIZER, 2000),
                     ZN_OK);
    assert_int_equal(zn_manifest_add(m, 9, "arena", ZN_TIER_DEVICE, ZN_KIND_ACTIVATIONS, 300), ZN_OK);
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

static void a_buffer_is_found_by_its_id(void **state)
{
    (void)state;
    zn_manifest m;
    fill(&m);
    const struct zn_manifest_entry *e = zn_manifest_find(&m, 3);
    assert_non_null(e);
    assert_string_equal(e->name, "exp_avg");
    assert_true(e->tier == ZN_TIER_NVME && e->kind == ZN_KIND_OPTIMIZER && e->n_bytes == 2000);
    assert_null(zn_manifest_find(&m, 1));
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
        assert_int_equal(zn_manifest_add(&m, i, name, ZN_TIER_HOST, ZN_KIND_BUFFERS, (size_t)i),
                         ZN_OK);
    }
    assert_int_equal(m.n_entries, 1000);
    assert_int_equal(zn_manifest_bytes(&m, ZN_TIER_HOST, ZN_KIND_BUFFERS), 999 * 500);
    assert_string_equal(zn_manifest_find(&m, 637)->name, "buffer 637");
    zn_manifest_fini(&m);
    zn_manifest_fini(&m); /* legal, and does nothing */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_summed_by_tier_and_kind),
        cmocka_unit_test(a_buffer_is_found_by_its_id),
        cmocka_unit_test(any_number_of_entries_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
