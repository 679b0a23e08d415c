/* Every figure of the papers' tables, recomputed: within half a unit of the last printed digit where the print is
 * rounded, within one where it is truncated. The figures stand here a second time, typed from the papers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "plan/paper.h"

static struct zn_paper paper;

static const struct zn_paper_table *compute(const char *name, int table)
{
    assert_int_equal(zn_paper_compute(name, &paper), ZN_OK);
    assert_string_equal(paper.name, name);
    assert_true(table < paper.n_tables);
    return &paper.table[table];
}

static void check(const struct zn_paper_table *t, int row, int column, double expected, double within)
{
    const struct zn_paper_cell *cell = &t->row[row].cell[column];
    if (fabs(cell->computed - expected) > within + 1e-6)
        fail_msg("%s, %s: %.9g, not %.9g", t->row[row].label, t->column[column], cell->computed, expected);
    assert_true(zn_paper_agrees(cell));
}

/* Every printed figure of every table agrees, and a wrong one would not. */
static void every_print_agrees(void **state)
{
    (void)state;
    static const char *const names[] = {"zero-table1", "zero-table2", "infinity-fig2a", "infinity-bandwidth",
                                        "offload-strategies"};
    static const int n_printed[] = {54, 20, 30, 4, 5};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        int n = 0;
        compute(names[i], 0);
        for (int t = 0; t < paper.n_tables; t++)
            for (int r = 0; r < paper.table[t].n_rows; r++)
                for (int c = 0; c < paper.table[t].n_columns; c++) {
                    struct zn_paper_cell cell = paper.table[t].row[r].cell[c];
                    n += cell.printed[0] != '\0';
                    assert_true(zn_paper_agrees(&cell));
                    cell.computed += 2 * cell.within + 1;
                    assert_true(!cell.printed[0] || !zn_paper_agrees(&cell));
                }
        assert_int_equal(n, n_printed[i]);
    }
}

static void zero_table1(void **state)
{
    (void)state;
    static const double expected[6][9] = {
        {120, 120, 120, 2048, 2048, 2048, 16000, 16000, 16000},
        {52.5, 41.3, 30, 896, 704, 512, 7000, 5500, 4000},
        {35.6, 21.6, 7.5, 608, 368, 128, 4750, 2875, 1000},
        {31.4, 16.6, 1.88, 536, 284, 32, 4187, 2218, 250},
        {30.4, 15.4, 0.47, 518, 263, 8, 4046, 2054, 62.5},
        {30.1, 15.1, 0.12, 513, 257, 2, 4011, 2013, 15.6},
    };
    const struct zn_paper_table *t = compute("zero-table1", 0);
    assert_int_equal(t->n_rows, 6);
    assert_int_equal(t->n_columns, 9);
    for (int r = 0; r < 6; r++)
        for (int c = 0; c < 9; c++)
            check(t, r, c, expected[r][c], c >= 3 ? 1 : expected[r][c] < 2 ? 0.005 : 0.05);
}

static void zero_table2(void **state)
{
    (void)state;
    static const double expected[] = {2, 7.6, 14.4, 128}, within[] = {0, 0.05, 0.05, 0};
    const struct zn_paper_table *t = compute("zero-table2", 0);
    assert_int_equal(t->n_rows, 5);
    for (int r = 0; r < 5; r++)
        for (int c = 0; c < 4; c++)
            check(t, r, c, expected[c] * (1 << r), within[c] * (1 << r));
}

static void infinity_models(void **state)
{
    (void)state;
    static const double expected[5][6] = {
        {0.10, 1.83, 2.03, 0.05, 1.56, 1.63},
        {0.50, 9.16, 3.91, 0.12, 6.25, 2.50},
        {1.01, 18.31, 7.13, 0.20, 9.77, 3.56},
        {10.05, 182.81, 24.38, 0.76, 64, 8},
        {101.47, 1845.70, 88.59, 3.08, 400, 18},
    };
    const struct zn_paper_table *t = compute("infinity-fig2a", 0);
    assert_int_equal(t->n_rows, 5);
    for (int r = 0; r < 5; r++)
        for (int c = 0; c < 6; c++)
            check(t, r, c, expected[r][c], 0.005);
    assert_string_equal(t->row[0].cell[4].printed, "1.95"); /* the one print that is wrong */
    assert_string_equal(t->row[0].cell[4].corrected, "1.56");
}

static void infinity_bandwidth(void **state)
{
    (void)state;
    const struct zn_paper_table *node = compute("infinity-bandwidth", 0);
    check(node, 0, 0, 0.5, 0.05);
    check(node, 1, 0, 48, 0);
    check(node, 2, 0, 25, 1);
    check(node, 3, 0, 100, 0);
    const struct zn_paper_table *need = &paper.table[1], *reached = &paper.table[2];
    check(need, 0, 0, 1024, 0);     /* parameters and gradients, one sequence */
    check(need, 0, 1, 68.36, 0.01); /* 70 Tflop/s ÷ 1024 */
    check(need, 5, 0, 256, 0);      /* optimizer states: a quarter of it */
    check(need, 10, 0, 49152, 0);   /* activation checkpoints of hidden 2K */
    for (int r = 0; r < need->n_rows; r++)
        check(need, r, 2, 9 * need->row[r].cell[1].computed, 1e-3);
    check(reached, 0, 4, 100 * 102.4 / 172.4, 1e-6); /* 100 GB/s: 102.4 of 102.4 + 70 */
    assert_true(fabs(zn_paper_efficiency(1024, 70e12 / 1024, 70e12) - 0.5) < 1e-12);
}

/* Moved bytes and device memory of the sixteen placements, in M: by hand from the paper's graph. */
static void strategies_are_those_of_the_graph(void **state)
{
    (void)state;
    static const struct {
        bool param, gradient, update, states;
        int moved, device;
    } expected[] = {
        {0, 0, 0, 0, 0, 16}, {1, 0, 0, 0, 6, 14},  {0, 1, 0, 0, 4, 14},  {1, 1, 0, 0, 10, 12},
        {0, 0, 1, 1, 4, 4},  {1, 0, 1, 1, 6, 2},   {0, 1, 1, 1, 4, 2},   {1, 1, 1, 1, 6, 0},
        {0, 0, 1, 0, 28, 16}, {0, 0, 0, 1, 24, 4}, {0, 1, 1, 0, 28, 14}, {1, 1, 0, 1, 34, 0},
    };
    struct zn_strategy all[ZN_N_STRATEGIES];
    int best = -1;
    zn_strategies(all, &best);
    for (size_t k = 0; k < sizeof expected / sizeof expected[0]; k++) {
        int n = 0;
        for (int i = 0; i < ZN_N_STRATEGIES; i++) {
            if (all[i].param_on_cpu != expected[k].param || all[i].gradient_on_cpu != expected[k].gradient ||
                all[i].update_on_cpu != expected[k].update || all[i].states_on_cpu != expected[k].states)
                continue;
            n++;
            assert_int_equal(all[i].moved, expected[k].moved);
            assert_int_equal(all[i].device, expected[k].device);
        }
        assert_int_equal(n, 1);
    }
}

static void the_optimum_is_unique(void **state)
{
    (void)state;
    struct zn_strategy all[ZN_N_STRATEGIES];
    int best = -1, n_marked = 0;
    assert_int_equal(zn_strategies(all, &best), 1);
    assert_true(!all[best].param_on_cpu && all[best].gradient_on_cpu && all[best].update_on_cpu && all[best].states_on_cpu);
    assert_int_equal(all[best].moved, 4);
    assert_int_equal(all[best].device, 2);
    for (int i = 0; i < ZN_N_STRATEGIES; i++) { /* every other one moves more, or saves less */
        if (i != best && all[i].device < 16)
            assert_true(all[i].moved > 4 || all[i].device > 2);
    }
    const struct zn_paper_table *t = compute("offload-strategies", 0);
    assert_int_equal(t->n_rows, ZN_N_STRATEGIES);
    for (int r = 0; r < t->n_rows; r++) {
        n_marked += t->row[r].marked;
        if (t->row[r].marked)
            assert_string_equal(t->row[r].label, "device / CPU / CPU / CPU");
    }
    assert_int_equal(n_marked, 1);
}

static void unknown_table_is_refused(void **state)
{
    (void)state;
    assert_int_equal(zn_paper_compute("zero-table3", &paper), ZN_ERR_USAGE);
    assert_non_null(strstr(zn_error_message(), "zero-table3"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_print_agrees),
        cmocka_unit_test(zero_table1),
        cmocka_unit_test(zero_table2),
        cmocka_unit_test(infinity_models),
        cmocka_unit_test(infinity_bandwidth),
        cmocka_unit_test(strategies_are_those_of_the_graph),
        cmocka_unit_test(the_optimum_is_unique),
        cmocka_unit_test(unknown_table_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
