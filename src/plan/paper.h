/* The tables of the ZeRO papers, recomputed from their formulas and put beside what is printed.
 * (*) in the print means: it disagrees with its own formula, which is what counts here. */
#ifndef ZN_PLAN_PAPER_H
#define ZN_PLAN_PAPER_H

#include <stdbool.h>

#include "base/status.h"

enum { ZN_PAPER_TABLES = 3, ZN_PAPER_ROWS = 20, ZN_PAPER_COLUMNS = 10 };

struct zn_paper_cell {
    double computed;
    char printed[12];      /* the digits of the paper; "" where it prints nothing */
    const char *corrected; /* what the paper's own formula gives where its print does not; or NULL */
    double within;         /* how far rounding may take the print from the formula */
};

struct zn_paper_row {
    char label[64];
    bool marked; /* the row that the table is about */
    struct zn_paper_cell cell[ZN_PAPER_COLUMNS];
};

struct zn_paper_table {
    const char *title;
    int n_columns, n_rows;
    const char *column[ZN_PAPER_COLUMNS]; /* name and unit */
    struct zn_paper_row row[ZN_PAPER_ROWS];
};

struct zn_paper {
    const char *name, *about;
    int n_tables;
    struct zn_paper_table table[ZN_PAPER_TABLES];
};

/* zero-table1, zero-table2, infinity-fig2a, infinity-bandwidth, offload-strategies. */
zn_status zn_paper_compute(const char *name, struct zn_paper *paper);

/* The print, or what stands for it; 0 where there is none. */
double zn_paper_expected(const struct zn_paper_cell *cell);

/* Whether computed and printed are the same within the rounding of the print. */
bool zn_paper_agrees(const struct zn_paper_cell *cell);

/* ---- Formulas. n_parameters as in the papers: of the blocks, without embeddings. ---- */

/* Model states of a rank in bytes, mixed-precision Adam: 2 of parameter, 2 of gradient, 12 of optimizer
 * states, each divided by n_ranks from its stage on. */
double zn_paper_states(double n_parameters, int stage, int n_ranks);

struct zn_paper_shape {
    const char *name;
    double layers, hidden, heads;
};

/* The five models of ZeRO-Infinity, figure 2a. */
enum { ZN_PAPER_SHAPES = 5 };
extern const struct zn_paper_shape zn_paper_shapes[ZN_PAPER_SHAPES];

double zn_paper_parameters(const struct zn_paper_shape *shape); /* 12·nl·hd² */

/* ait·bw / (ait·bw + peak): the share of the peak when what is moved is not hidden. */
double zn_paper_efficiency(double intensity, double bandwidth, double peak);

/* ---- The data-flow graph of ZeRO-Offload. ---- */

/* Where each part lives; forward and backward stay on the device. Bytes are in units of M, the number of
 * parameters. */
struct zn_strategy {
    bool param_on_cpu, gradient_on_cpu, states_on_cpu, update_on_cpu;
    int moved;  /* between device and CPU, a step */
    int device; /* model states on the device */
};

enum { ZN_N_STRATEGIES = 16 };

/* Fills all placements; returns how many of those that offload anything move the least and, among
 * these, hold the least on the device. *best is the first of them. */
int zn_strategies(struct zn_strategy strategies[ZN_N_STRATEGIES], int *best);

#endif
