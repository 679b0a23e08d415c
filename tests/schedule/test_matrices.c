/* Groups of matrices that are updated whole, where their states begin, and the memory that they take. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "schedule/matrices.h"
#include "schedule/written.h"

/* Units: a; bd with whole matrices; c; tiles of e, 1024 rows each but the last; f. */
static void lay_out(struct written_model *m, int n_ranks, int stage, struct zn_placement *p, zn_units *units)
{
    struct zn_engine_options o = written_options();
    write_model(m, "a 1024x2 | b 64x32 c 1024 d 2x512 e 2500x4 | f 1024");
    o.stage = stage;
    o.tile_bytes = 20000;
    o.optimizer = &zn_optimizer_muon;
    OK(zn_placement_resolve(&o, n_ranks, p));
    OK(zn_compile_units(&m->list, &o, n_ranks, units));
    assert_int_equal(units->n_units, 7);
}

static void tiles_of_a_matrix_are_a_group(void **state)
{
    (void)state;
    struct written_model m;
    struct zn_placement p;
    zn_units units;
    lay_out(&m, 1, 0, &p, &units);
    assert_int_equal(zn_matrices_end(&units, 1), 2);
    assert_int_equal(zn_matrices_end(&units, 3), 6);
    assert_int_equal(zn_matrices_place(&units, 1), 0);
    for (int u = 3; u < 6; u++)
        assert_int_equal(zn_matrices_place(&units, u), (u - 3) * 4096);
    const struct zn_part *b = &units.parts[units.units[1].first_part], *e = &units.parts[units.units[3].first_part];
    assert_int_equal(zn_matrix_rows(&units, b), 64);
    assert_int_equal(zn_matrix_rows(&units, b + 1), 2);
    assert_int_equal(zn_matrix_rows(&units, e), 2500);
    zn_units_fini(&units);
}

/* The tiles are 2 × 4096 and 2048 elements, padded for three ranks to 2 × 6144 and 3072. */
static void the_largest_group_says_how_much(void **state)
{
    (void)state;
    struct written_model m;
    struct zn_placement p;
    zn_units units;
    lay_out(&m, 3, 0, &p, &units);
    struct zn_matrices_sizes sizes = zn_matrices_measure(&p, &units);
    assert_int_equal(sizes.directions, (2 * 4096 + 3072) * 4);
    assert_int_equal(sizes.gathered, 0);
    assert_int_equal(sizes.work, zn_optimizer_muon.work_bytes(2500, 4));
    zn_units_fini(&units);
    lay_out(&m, 3, 1, &p, &units);
    sizes = zn_matrices_measure(&p, &units);
    assert_int_equal(sizes.directions, (2 * 2048 + 1024) * 4);
    assert_int_equal(sizes.gathered, (2 * 4096 + 3072) * 4);
    zn_units_fini(&units);
}

static void states_have_no_gaps(void **state)
{
    (void)state;
    const struct zn_optimizer_state *momentum = &zn_optimizer_muon.state[0], *mean = &zn_optimizer_muon.state[1];
    struct written_model m;
    struct zn_placement p;
    zn_units units;
    lay_out(&m, 3, 1, &p, &units);
    int64_t of_momentum = 0, of_mean = 0;
    for (int u = 0; u < units.n_units; u++) {
        const struct zn_unit *unit = &units.units[u];
        int64_t *sum = unit->by_matrix ? &of_momentum : &of_mean;
        assert_int_equal(zn_own_first_of_state(&p, unit, unit->by_matrix ? momentum : mean), *sum);
        *sum += zn_own_count(&p, unit);
        assert_int_equal(zn_state_bytes(&p, unit, 1024), unit->by_matrix ? 4096 : 8192);
        int64_t end = zn_own_first(&p, unit) + zn_own_count(&p, unit);
        assert_int_equal(zn_own_with_state(&p, &units, momentum, end), of_momentum);
        assert_int_equal(zn_own_with_state(&p, &units, mean, end - 1), of_mean - !unit->by_matrix);
    }
    zn_units_fini(&units);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiles_of_a_matrix_are_a_group),
        cmocka_unit_test(the_largest_group_says_how_much),
        cmocka_unit_test(states_have_no_gaps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
