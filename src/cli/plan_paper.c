/* The papers' tables, one line for each figure: computed, printed, and what lies between them. */
#include <stdio.h>
#include <stdlib.h>

#include "base/json_text.h"
#include "cli/plan_paper.h"

static double difference(const struct zn_paper_cell *c)
{
    return c->computed - strtod(c->printed, NULL);
}

static void text_cell(const char *column, const struct zn_paper_cell *c)
{
    printf("    %-36s %12.6g", column, c->computed);
    if (c->printed[0])
        printf(" %11s%s %11.3g%s", c->printed, c->corrected ? "*" : " ", difference(c),
               zn_paper_agrees(c) ? "" : "  differs");
    if (c->corrected)
        printf("  * its own formula gives %s", c->corrected);
    putchar('\n');
}

static void text_table(const struct zn_paper_table *t)
{
    printf("\n%s\n    %-36s %12s %11s  %11s\n", t->title, "", "computed", "printed", "difference");
    for (int r = 0; r < t->n_rows; r++) {
        printf("  %s%s\n", t->row[r].label, t->row[r].marked ? "   <- the only optimum" : "");
        for (int c = 0; c < t->n_columns; c++)
            text_cell(t->column[c], &t->row[r].cell[c]);
    }
}

static void json_cell(const struct zn_paper_cell *c)
{
    printf("{\"computed\":%.9g,\"printed\":", c->computed);
    if (c->printed[0])
        printf("%s,\"corrected\":%s,\"difference\":%.9g,\"agrees\":%s}", c->printed,
               c->corrected ? c->corrected : "null", difference(c), zn_paper_agrees(c) ? "true" : "false");
    else
        printf("null}");
}

static void json_row(const struct zn_paper_table *t, const struct zn_paper_row *row)
{
    printf("{\"label\":");
    zn_json_put_string(stdout, row->label);
    printf(",\"optimum\":%s,\"cells\":{", row->marked ? "true" : "false");
    for (int c = 0; c < t->n_columns; c++) {
        fputs(c ? "," : "", stdout);
        zn_json_put_string(stdout, t->column[c]);
        putchar(':');
        json_cell(&row->cell[c]);
    }
    printf("}}");
}

static void json_table(const struct zn_paper_table *t)
{
    printf("{\"title\":");
    zn_json_put_string(stdout, t->title);
    printf(",\"rows\":[");
    for (int r = 0; r < t->n_rows; r++) {
        fputs(r ? "," : "", stdout);
        json_row(t, &t->row[r]);
    }
    printf("]}");
}

void plan_show_paper(const struct zn_paper *p, bool json)
{
    if (!json) {
        printf("%s: %s\n", p->name, p->about);
        for (int t = 0; t < p->n_tables; t++)
            text_table(&p->table[t]);
        return;
    }
    printf("{\"paper\":\"%s\",\"about\":", p->name);
    zn_json_put_string(stdout, p->about);
    printf(",\"tables\":[");
    for (int t = 0; t < p->n_tables; t++) {
        fputs(t ? "," : "", stdout);
        json_table(&p->table[t]);
    }
    printf("]}\n");
}
