/* Groups of matrices, and the memory that their update takes. */
#include "schedule/matrices.h"

static const struct zn_part *first_part(const zn_units *units, int unit)
{
    return &units->parts[units->units[unit].first_part];
}

/* Tiles are the only parts of their units. */
int zn_matrices_end(const zn_units *units, int first_unit)
{
    int end = first_unit + 1;
    while (end < units->n_units && first_part(units, end)->param == first_part(units, first_unit)->param)
        end++;
    return end;
}

int64_t zn_matrices_place(const zn_units *units, int unit)
{
    return first_part(units, unit)->first;
}

int64_t zn_matrix_rows(const zn_units *units, const struct zn_part *first)
{
    int64_t rows = 0;
    for (const struct zn_part *p = first; p < units->parts + units->n_parts && p->param == first->param; p++)
        rows += p->n_rows;
    return rows;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t largest_work(const struct zn_placement *p, const zn_units *units, int unit)
{
    const struct zn_unit *u = &units->units[unit];
    size_t largest = 0;
    for (int i = 0; i < u->n_parts; i++) {
        const struct zn_part *part = &units->parts[u->first_part + i];
        largest = larger(largest, p->optimizer->work_bytes(zn_matrix_rows(units, part), part->n_elements / part->n_rows));
    }
    return largest;
}

struct zn_matrices_sizes zn_matrices_measure(const struct zn_placement *p, const zn_units *units)
{
    struct zn_matrices_sizes sizes = {0};
    for (int u = 0, end; u < units->n_units; u = end) {
        const struct zn_unit *unit = &units->units[u];
        end = unit->by_matrix ? zn_matrices_end(units, u) : u + 1;
        if (!unit->by_matrix)
            continue;
        const struct zn_unit *last = &units->units[end - 1];
        size_t whole = (size_t)(zn_matrices_place(units, end - 1) + last->n_elements) * sizeof(float);
        size_t own = (size_t)(zn_own_first(p, last) + zn_own_count(p, last) - zn_own_first(p, unit)) * sizeof(float);
        bool is_whole = p->states.form == ZN_WHOLE;
        sizes.directions = larger(sizes.directions, is_whole ? whole : own);
        sizes.gathered = larger(sizes.gathered, is_whole ? 0 : whole);
        sizes.work = larger(sizes.work, largest_work(p, units, u));
    }
    return sizes;
}
