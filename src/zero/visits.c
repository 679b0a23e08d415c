/* The visits of an optimizer pass: one to each chunk, in the order of units; two to those that are updated by matrix, of which all of
 * a group's first ones come before its second ones. */
#include <stdlib.h>

#include "schedule/matrices.h"
#include "zero/pipeline.h"

static int chunks_of_unit(const zn_engine *e, int unit)
{
    return is_trained(e, unit) ? (int)((own_count(e, unit) + ZN_CHUNK_ELEMENTS - 1) / ZN_CHUNK_ELEMENTS) : 0;
}

/* Of units first … end-1, whose chunks begin with `chunk`. */
static void visit_units(zn_engine *e, int first, int end, int chunk, visit_kind kind)
{
    struct pipeline *p = &e->pipeline;
    for (int u = first; u < end; u++) {
        int n = chunks_of_unit(e, u);
        e->unit_state[u].first_visit = kind == VISIT_APPLY ? e->unit_state[u].first_visit : p->n_visits;
        for (int i = 0; i < n; i++)
            p->visits[p->n_visits++] = (struct visit){chunk++, kind};
        e->unit_state[u].end_visit = p->n_visits;
    }
}

zn_status list_visits(zn_engine *e)
{
    struct pipeline *p = &e->pipeline;
    p->visits = calloc(2 * (size_t)p->n_trained + 1, sizeof *p->visits);
    if (!p->visits)
        return zn_fail(ZN_ERR_MEMORY, "no memory for the chunks of the optimizer");
    for (int u = 0, end, chunk = 0; u < e->units->n_units && e->placement->trains; u = end) {
        bool by_matrix = e->units->units[u].by_matrix;
        end = by_matrix ? zn_matrices_end(e->units, u) : u + 1;
        visit_units(e, u, end, chunk, by_matrix ? VISIT_PREPARE : VISIT_UPDATE);
        if (by_matrix)
            visit_units(e, u, end, chunk, VISIT_APPLY);
        for (; u < end; u++)
            chunk += chunks_of_unit(e, u);
    }
    return ZN_OK;
}
