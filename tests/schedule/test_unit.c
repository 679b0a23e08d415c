/* The layout of units: parts, padding, tiles, and who owns what. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "schedule/written.h"

static void lay_out(const char *model, const struct zn_units_options *options, struct written_model *m, zn_units *units)
{
    write_model(m, model);
    OK(zn_units_init(units, &m->list, options));
}

/* Units as a text: "first+elements/partition: parameter@place …". */
static void expect_units(const char *model, const struct zn_units_options *options, const char *expected)
{
    struct written_model m;
    zn_units units;
    zn_text t;
    lay_out(model, options, &m, &units);
    zn_text_init(&t);
    for (int u = 0; u < units.n_units; u++) {
        const struct zn_unit *unit = &units.units[u];
        zn_text_add(&t, "%s%d+%d/%d:", u ? " | " : "", (int)unit->first, (int)unit->n_elements, (int)unit->partition);
        for (int i = unit->first_part; i < unit->first_part + unit->n_parts; i++)
            zn_text_add(&t, " %s@%d", m.params[units.parts[i].param].name, (int)units.parts[i].place);
    }
    assert_string_equal(t.data, expected);
    zn_text_fini(&t);
    zn_units_fini(&units);
}

static void parameters_of_a_segment_are_a_unit(void **state)
{
    (void)state;
    expect_units("a 10 b 1025 | c 4096", &(struct zn_units_options){.type = ZN_F32, .n_ranks = 1},
                 "0+3072/3072: a@0 b@1024 | 3072+4096/4096: c@3072");
}

static void units_are_padded_to_equal_partitions(void **state)
{
    (void)state;
    expect_units("a 10 b 1025 | c 4096", &(struct zn_units_options){.type = ZN_F32, .n_ranks = 3},
                 "0+3072/1024: a@0 b@1024 | 3072+6144/2048: c@3072");
    expect_units("a 10 | c 4097", &(struct zn_units_options){.type = ZN_BF16, .n_ranks = 2},
                 "0+4096/2048: a@0 | 4096+8192/4096: c@4096");
}

static void large_parameters_are_split_into_tiles_after_the_others(void **state)
{
    (void)state;
    expect_units("a 2500x2 b 1024", &(struct zn_units_options){.type = ZN_F32, .n_ranks = 1, .tile_bytes = 8192},
                 "0+1024/1024: b@0 | 1024+2048/2048: a@1024 | 3072+2048/2048: a@3072 | 5120+1024/1024: a@5120");
}

static void a_row_and_an_element_have_their_part(void **state)
{
    (void)state;
    struct written_model m;
    zn_units units;
    lay_out("a 2500x2 b 1024", &(struct zn_units_options){.type = ZN_F32, .n_ranks = 1, .tile_bytes = 8192}, &m, &units);
    assert_int_equal(zn_units_row(&units, &m.params[0], 1023)->first_row, 0);
    assert_int_equal(zn_units_row(&units, &m.params[0], 1024)->first_row, 1024);
    assert_int_equal(zn_units_row(&units, &m.params[0], 2499)->n_rows, 452);
    assert_int_equal(zn_units_element(&units, &m.params[0], 4095)->first_row, 1024);
    assert_int_equal(zn_units_element(&units, &m.params[1], 5)->param, 1);
    zn_units_fini(&units);
}

/* Ranks own all elements of a part, each once, and own elements lie one after the other. */
static void every_element_has_one_owner(void **state)
{
    (void)state;
    for (int n_ranks = 1; n_ranks <= 4; n_ranks++) {
        struct written_model m;
        zn_units units;
        lay_out("a 100 b 5000 | c 3x1000 | d 1", &(struct zn_units_options){.type = ZN_F32, .n_ranks = n_ranks}, &m, &units);
        for (int i = 0; i < units.n_parts; i++) {
            int64_t at = 0;
            for (int rank = 0; rank < n_ranks; rank++) {
                struct zn_range own = zn_units_owned(&units, &units.parts[i], rank);
                if (own.n == 0)
                    continue;
                assert_int_equal(own.first, at);
                at += own.n;
                int64_t place = zn_units_owned_place(&units, &units.parts[i], own.first, rank);
                const struct zn_unit *unit = &units.units[units.parts[i].unit];
                assert_true(place >= unit->first / n_ranks && place + own.n <= unit->first / n_ranks + unit->partition);
            }
            assert_int_equal(at, units.parts[i].n_elements);
        }
        zn_units_fini(&units);
    }
}

/* Adapters are declared after all others: units follow the segments, not the list. */
static void units_are_in_the_order_of_segments(void **state)
{
    (void)state;
    struct written_model m;
    zn_units units;
    write_model(&m, "a 1024 | b 1024");
    m.params[0].segment = 1;
    m.params[1].segment = 0;
    assert_int_equal(zn_units_init(&units, &m.list, &(struct zn_units_options){.type = ZN_F32, .n_ranks = 1}), ZN_OK);
    assert_int_equal(units.parts[units.units[0].first_part].param, 1);
    assert_int_equal(units.parts[units.units[1].first_part].param, 0);
    zn_units_fini(&units);
    m.params[1].segment = 2;
    assert_int_equal(zn_units_init(&units, &m.list, &(struct zn_units_options){.type = ZN_F32, .n_ranks = 1}), ZN_ERR_INTERNAL);
}

/* Trained and frozen parameters of a segment are units of their own, the frozen ones behind all that are trained. */
static void frozen_parameters_are_units_of_their_own(void **state)
{
    (void)state;
    static const bool frozen[] = {false, true, true, false};
    struct written_model m;
    zn_units units;
    write_model(&m, "a 1024, b 2048 | c 1024, d 1024");
    assert_int_equal(zn_units_init(&units, &m.list,
                                   &(struct zn_units_options){.type = ZN_F32, .n_ranks = 1, .frozen_type = ZN_BF16, .frozen = frozen}),
                     ZN_OK);
    static const struct zn_unit want[] = {{.first = 0, .is_trained = true, .joins_next = true},
                                          {.first = 2048, .type = ZN_BF16},
                                          {.first = 1024, .is_trained = true, .joins_next = true},
                                          {.first = 4096, .type = ZN_BF16}};
    assert_int_equal(units.n_units, 4);
    assert_int_equal(units.n_trained, 2048);
    assert_int_equal(units.n_elements, 6144);
    for (int u = 0; u < 4; u++) {
        assert_int_equal(units.units[u].first, want[u].first);
        assert_int_equal(units.units[u].is_trained, want[u].is_trained);
        assert_int_equal(units.units[u].type, want[u].is_trained ? ZN_F32 : ZN_BF16);
        assert_int_equal(units.units[u].joins_next, want[u].joins_next);
        assert_int_equal(zn_units_joined(&units, u), u & ~1);
    }
    zn_units_fini(&units);
}

static bool has_only(const zn_units *units, int unit, const struct written_model *m, const char *names)
{
    const struct zn_unit *u = &units->units[unit];
    char text[64] = "";
    for (int i = 0; i < u->n_parts; i++)
        strcat(text, m->params[units->parts[u->first_part + i].param].name);
    return strcmp(text, names) == 0;
}

/* Matrices between the first segment and the last; those that are frozen and the rest are not; all of a segment are read together. */
static void matrices_that_are_updated_whole_are_units_of_their_own(void **state)
{
    (void)state;
    static const bool frozen[32] = {[4] = true};
    struct written_model m;
    zn_units units;
    write_model(&m, "a 1024x2 | b 1024 c 2048x1 d 64x32 e 1024x1 | f 1024 g 3072x1 | h 1024x2");
    assert_int_equal(zn_units_init(&units, &m.list,
                                   &(struct zn_units_options){.type = ZN_F32, .n_ranks = 1, .frozen = frozen, .by_matrix = true}),
                     ZN_OK);
    static const struct {
        const char *params;
        int64_t first, first_of_kind;
        int joined;
        bool by_matrix;
    } want[] = {{"a", 0, 0, 0, false},    {"cd", 2048, 0, 1, true},       {"b", 6144, 2048, 1, false},    {"e", 13312, 0, 1, false},
                {"g", 7168, 4096, 4, true}, {"f", 10240, 3072, 4, false}, {"h", 11264, 4096, 6, false}};
    assert_int_equal(units.n_units, 7);
    for (int u = 0; u < 7; u++) {
        assert_true(has_only(&units, u, &m, want[u].params));
        assert_int_equal(units.units[u].first, want[u].first);
        assert_int_equal(units.units[u].first_of_kind, want[u].first_of_kind);
        assert_int_equal(units.units[u].by_matrix, want[u].by_matrix);
        assert_int_equal(zn_units_joined(&units, u), want[u].joined);
        assert_int_equal(units.units[u].is_trained, u != 3);
    }
    zn_units_fini(&units);
}

/* Quantised ones come last, joined with the others of their segment; they and their partitions and tiles are whole quanta. */
static void quantised_parameters_are_units_of_their_own(void **state)
{
    (void)state;
    static const bool frozen[] = {false, true, true, true, true}, quantised[] = {false, false, true, false, true};
    static const zn_dtype types[] = {ZN_INT8, ZN_NF4};
    for (int t = 0; t < 2; t++) {
        int64_t multiple = types[t] == ZN_NF4 ? 131072 : 65536; /* elements in whole pages */
        struct written_model m;
        zn_units units;
        write_model(&m, "a 1024, b 2048, c 3072x41 | d 1024, e 10x7");
        struct zn_units_options o = {.type = ZN_F32, .n_ranks = 3, .frozen_type = ZN_BF16, .frozen = frozen, .quantised = quantised,
                                     .quantised_type = types[t]};
        assert_int_equal(zn_units_init(&units, &m.list, &o), ZN_OK);
        assert_int_equal(units.n_units, 5);
        assert_int_equal(units.n_plain, units.units[3].first + units.units[3].n_elements);
        assert_int_equal(units.units[2].first, units.n_plain);
        assert_int_equal(units.units[4].first, units.n_plain + units.units[2].n_elements);
        assert_int_equal(units.n_elements, units.units[4].first + units.units[4].n_elements);
        for (int u = 0; u < 5; u++) {
            assert_int_equal(zn_units_joined(&units, u), u < 3 ? 0 : 3);
            assert_int_equal(zn_dtype_size(units.units[u].type, units.units[u].partition) % ZN_PARTITION_ALIGNMENT, 0);
        }
        assert_int_equal(units.units[4].partition, multiple);
        assert_int_equal(units.units[2].type, types[t]);
        zn_units_fini(&units);
        o.tile_bytes = 1;
        assert_int_equal(zn_units_init(&units, &m.list, &o), ZN_OK);
        assert_int_equal(units.tile_rows[2], 1024);
        for (int i = 0; i < units.n_parts; i++)
            assert_int_equal(units.parts[i].first % ZN_QUANTUM + units.parts[i].place % ZN_QUANTUM, 0);
        zn_units_fini(&units);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_of_a_segment_are_a_unit),
        cmocka_unit_test(units_are_padded_to_equal_partitions),
        cmocka_unit_test(large_parameters_are_split_into_tiles_after_the_others),
        cmocka_unit_test(a_row_and_an_element_have_their_part),
        cmocka_unit_test(every_element_has_one_owner),
        cmocka_unit_test(units_are_in_the_order_of_segments),
        cmocka_unit_test(frozen_parameters_are_units_of_their_own),
        cmocka_unit_test(matrices_that_are_updated_whole_are_units_of_their_own),
        cmocka_unit_test(quantised_parameters_are_units_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
