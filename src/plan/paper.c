/* The registry of tables, and those of ZeRO (SC20): model states by stage, and the largest model. */
#include "plan/paper.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/paper_private.h"

#define GB 1e9

struct zn_paper_table *paper_add_table(struct zn_paper *paper, const char *title, int n_columns,
                                       const char *const *columns)
{
    assert(paper->n_tables < ZN_PAPER_TABLES && n_columns <= ZN_PAPER_COLUMNS);
    struct zn_paper_table *table = &paper->table[paper->n_tables++];
    table->title = title;
    table->n_columns = n_columns;
    for (int i = 0; i < n_columns; i++)
        table->column[i] = columns[i];
    return table;
}

struct zn_paper_row *paper_add_row(struct zn_paper_table *table, const char *format, ...)
{
    assert(table->n_rows < ZN_PAPER_ROWS);
    struct zn_paper_row *row = &table->row[table->n_rows++];
    va_list args;
    va_start(args, format);
    vsnprintf(row->label, sizeof row->label, format, args);
    va_end(args);
    return row;
}

struct zn_paper_cell paper_cell(double computed, const char *printed, double units)
{
    struct zn_paper_cell cell = {.computed = computed};
    if (!printed)
        return cell;
    const char *point = strchr(printed, '.');
    double unit = pow(10, point ? -(double)strlen(point + 1) : 0);
    snprintf(cell.printed, sizeof cell.printed, "%s", printed);
    cell.within = units * unit + 1e-9 * fabs(computed); /* a tie is computed to either side of it */
    return cell;
}

double zn_paper_expected(const struct zn_paper_cell *cell)
{
    return strtod(cell->corrected ? cell->corrected : cell->printed, NULL);
}

bool zn_paper_agrees(const struct zn_paper_cell *cell)
{
    return !cell->printed[0] || fabs(cell->computed - zn_paper_expected(cell)) <= cell->within;
}

double zn_paper_states(double n_parameters, int stage, int n_ranks)
{
    double n = (double)n_ranks;
    double optimizer = 12 / (stage >= 1 ? n : 1), gradient = 2 / (stage >= 2 ? n : 1);
    return n_parameters * (2 / (stage >= 3 ? n : 1) + gradient + optimizer);
}

static void zero_table1(struct zn_paper *paper)
{
    static const char *const columns[] = {
        "7.5B P_os",   "7.5B P_os+g", "7.5B P_os+g+p", "128B P_os",  "128B P_os+g",
        "128B P_os+g+p", "1T P_os",   "1T P_os+g",     "1T P_os+g+p"};
    static const double models[] = {7.5e9, 128e9, 1e12};
    static const struct {
        int n_ranks;
        const char *printed[9];
    } rows[] = {
        {1, {"120", "120", "120", "2048", "2048", "2048", "16000", "16000", "16000"}},
        {4, {"52.5", "41.3", "30", "896", "704", "512", "7000", "5500", "4000"}},
        {16, {"35.6", "21.6", "7.5", "608", "368", "128", "4750", "2875", "1000"}},
        {64, {"31.4", "16.6", "1.88", "536", "284", "32", "4187", "2218", "250"}},
        {256, {"30.4", "15.4", "0.47", "518", "263", "8", "4046", "2054", "62.5"}},
        {1024, {"30.1", "15.1", "0.12", "513", "257", "2", "4011", "2013", "15.6"}},
    };
    struct zn_paper_table *t =
        paper_add_table(paper, "model states of a device, GB (decimal)", 9, columns);
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        struct zn_paper_row *row = paper_add_row(t, "N = %d", rows[r].n_ranks);
        for (int c = 0; c < 9; c++) {
            double bytes = zn_paper_states(models[c / 3], c % 3 + 1, rows[r].n_ranks);
            row->cell[c] = paper_cell(bytes / GB, rows[r].printed[c], c < 3 ? 0.5 : 1);
        }
    }
}

/* The states of a model divide among the model-parallel devices, so the largest is `parallel` times
 * that of one device, and so is the print. */
static void zero_table2(struct zn_paper *paper)
{
    enum { N_RANKS = 64 };
    static const char *const columns[] = {"none", "P_os", "P_os+g", "P_os+g+p"};
    static const double printed[] = {2, 7.6, 14.4, 128};
    static const int decimals[] = {0, 1, 1, 0};
    struct zn_paper_table *t =
        paper_add_table(paper, "largest model, 10^9 parameters: N = 64, devices of 32 GB", 4, columns);
    for (int parallel = 1; parallel <= 16; parallel *= 2) {
        struct zn_paper_row *row = paper_add_row(t, "model parallel %d", parallel);
        for (int stage = 0; stage <= 3; stage++) {
            char text[12];
            double largest = 32 / zn_paper_states(1, stage, N_RANKS) * parallel;
            snprintf(text, sizeof text, "%.*f", decimals[stage], printed[stage] * parallel);
            row->cell[stage] = paper_cell(largest, text, 0.5 * parallel);
        }
    }
}

static const struct {
    const char *name, *about;
    void (*fill)(struct zn_paper *paper);
} papers[] = {
    {"zero-table1", "ZeRO (SC20), table 1: states by stage and number of ranks; the columns of 128B and 1T "
                    "are truncated in print", zero_table1},
    {"zero-table2", "ZeRO (SC20), table 2: the largest model whose states fit", zero_table2},
    {"infinity-fig2a", "ZeRO-Infinity (SC21), figure 2a: memory of the largest models; K = 1024, binary GB "
                       "and TB, sequences of 1024", paper_infinity_models},
    {"infinity-bandwidth", "ZeRO-Infinity (SC21), sections 4 and 5: bandwidth and efficiency on DGX-2 nodes, "
                           "70 Tflop/s a device, sequences of 1024", paper_infinity_bandwidth},
    {"offload-strategies", "ZeRO-Offload (ATC'21), section 3: every placement of the data flow, forward and "
                           "backward on the device; in units of M bytes for M parameters",
     paper_offload_strategies},
};

zn_status zn_paper_compute(const char *name, struct zn_paper *paper)
{
    for (size_t i = 0; i < sizeof papers / sizeof papers[0]; i++) {
        if (strcmp(name, papers[i].name) != 0)
            continue;
        memset(paper, 0, sizeof *paper);
        paper->name = papers[i].name;
        paper->about = papers[i].about;
        papers[i].fill(paper);
        return ZN_OK;
    }
    return zn_fail(ZN_ERR_USAGE, "--paper: there is no table '%s'", name);
}
