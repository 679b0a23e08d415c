/* How the tables of the papers are filled, for the files of plan/paper*.c. */
#ifndef ZN_PLAN_PAPER_PRIVATE_H
#define ZN_PLAN_PAPER_PRIVATE_H

#include "plan/paper.h"

/* A table of the paper that has no rows yet. */
struct zn_paper_table *paper_add_table(struct zn_paper *paper, const char *title, int n_columns,
                                       const char *const *columns);

struct zn_paper_row *paper_add_row(struct zn_paper_table *table, const char *format, ...)
    ZN_PRINTF(2, 3);

/* `units` of the last printed digit is how far the print may be off: 0.5 where it is rounded, 1 where it
 * is truncated. printed NULL: the paper has no figure. */
struct zn_paper_cell paper_cell(double computed, const char *printed, double units);

void paper_infinity_models(struct zn_paper *paper);
void paper_infinity_bandwidth(struct zn_paper *paper);
void paper_offload_strategies(struct zn_paper *paper);

#endif
