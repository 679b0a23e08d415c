/* Work on whole matrices. Every rank has made the direction of its own elements. Ranks gather those of a group of matrices, each
 * transforms the matrices that are assigned to it, and a sum over ranks brings each its own part back: ranks that did not work on a
 * matrix add -0, which changes no bit. At stage 0 all elements are every rank's own: there is no gather before, but one after. */
#include "schedule/matrices.h"

#include <stdlib.h>

#include "zero/engine_private.h"

static const struct zn_part *first_part(const zn_engine *e, int unit)
{
    return &e->units->parts[e->units->units[unit].first_part];
}

/* ---- Which rank works on a matrix ---- */

/* Multiplications grow so with the sides of a matrix. */
static double cost_of(const zn_engine *e, const struct zn_part *part)
{
    double rows = (double)zn_matrix_rows(e->units, part), columns = (double)(part->n_elements / part->n_rows);
    return rows < columns ? rows * rows * columns : rows * columns * columns;
}

/* The costliest that is not assigned goes to the rank that has the least, until none is left. `worker` is -1 where not assigned. */
static void assign_unit(const zn_engine *e, int unit, double *loads)
{
    const struct zn_unit *u = &e->units->units[unit];
    int *worker = e->matrices.worker;
    for (int r = 0; r < e->n_ranks; r++)
        loads[r] = 0;
    for (int n = 0; n < u->n_parts; n++) {
        int next = -1, rank = 0;
        for (int i = u->first_part; i < u->first_part + u->n_parts; i++)
            if (worker[i] < 0 && (next < 0 || cost_of(e, &e->units->parts[i]) > cost_of(e, &e->units->parts[next])))
                next = i;
        for (int r = 1; r < e->n_ranks; r++)
            rank = loads[r] < loads[rank] ? r : rank;
        worker[next] = rank;
        loads[rank] += cost_of(e, &e->units->parts[next]);
    }
}

zn_status matrices_init(zn_engine *e)
{
    double *loads = calloc((size_t)e->n_ranks, sizeof *loads);
    e->matrices.worker = calloc((size_t)e->units->n_parts + 1, sizeof *e->matrices.worker);
    if (!loads || !e->matrices.worker) {
        free(loads);
        return zn_fail(ZN_ERR_MEMORY, "no memory for the list of matrices");
    }
    for (int i = 0; i < e->units->n_parts; i++)
        e->matrices.worker[i] = -1;
    for (int u = 0; u < e->units->n_units; u++)
        if (e->units->units[u].by_matrix)
            assign_unit(e, u, loads);
    free(loads);
    return ZN_OK;
}

void matrices_fini(zn_engine *e)
{
    free(e->matrices.worker);
}

/* ---- Places ---- */

bool updates_exchange(const zn_engine *e)
{
    return e->n_ranks > 1 && e->buffers[ZN_BUFFER_DIRECTIONS].n_bytes > 0;
}

/* Own elements are a part of the matrices. */
static bool is_gathered(const zn_engine *e)
{
    return e->buffers[ZN_BUFFER_MATRICES].n_bytes > 0;
}

/* Ranks that have all of one matrix in tiles all work on it: there is no other to work on. */
static bool is_work_shared(const zn_engine *e, int unit)
{
    return updates_exchange(e) && (is_gathered(e) || zn_matrices_end(e->units, unit) == unit + 1);
}

static zn_buffer_id buffer_of_matrices(const zn_engine *e)
{
    return is_gathered(e) ? ZN_BUFFER_MATRICES : ZN_BUFFER_DIRECTIONS;
}

/* Tiles of a matrix are the only parts of their units, which follow each other. */
static int first_of_group(const zn_engine *e, int unit)
{
    while (unit > 0 && first_part(e, unit - 1)->param == first_part(e, unit)->param)
        unit--;
    return unit;
}

/* Own parts follow each other; whole units lie as in the buffer of matrices. */
static uint64_t offset_of_directions(const zn_engine *e, int unit)
{
    int64_t place = is_gathered(e) ? own_first(e, unit) - own_first(e, first_of_group(e, unit)) : zn_matrices_place(e->units, unit);
    return (uint64_t)place * sizeof(float);
}

zn_addr direction_at(const zn_engine *e, int unit, int64_t at)
{
    return e->buffers[ZN_BUFFER_DIRECTIONS].base + offset_of_directions(e, unit) + (zn_addr)at * sizeof(float);
}

bool begins_applying(const zn_engine *e, const struct visit *visit)
{
    return visit->kind == VISIT_APPLY && visit > e->pipeline.visits && visit[-1].kind == VISIT_PREPARE;
}

/* Of this rank's partition of the unit. */
static struct zn_extent own_directions(const zn_engine *e, int unit)
{
    uint64_t before = is_gathered(e) ? 0 : (uint64_t)(e->rank * e->units->units[unit].partition) * sizeof(float);
    return zn_buffer_extent(&e->buffers[ZN_BUFFER_DIRECTIONS], offset_of_directions(e, unit) + before);
}

static uint64_t offset_in_matrices(const zn_engine *e, int unit)
{
    return (uint64_t)zn_matrices_place(e->units, unit) * sizeof(float);
}

/* ---- The work ---- */

/* Tiles are gathered in their order: the padding at the end of one is where the next begins. */
static zn_status gather_directions(zn_engine *e, int unit, zn_device *device)
{
    const struct zn_unit *u = &e->units->units[unit];
    struct zn_gather gather = {.tag = {ZN_COMM_GATHER_GRAD, unit},
                               .from = &e->shared[ZN_BUFFER_DIRECTIONS],
                               .offset = (size_t)(own_directions(e, unit).address - e->buffers[ZN_BUFFER_DIRECTIONS].base),
                               .n_bytes = (size_t)u->partition * sizeof(float),
                               .to = zn_buffer_extent(&e->buffers[buffer_of_matrices(e)], offset_in_matrices(e, unit)),
                               .after = {&e->matrices.ready}};
    ZN_TRY(zn_device_record(device, &e->matrices.ready));
    zn_event_reset(&e->matrices.done);
    ZN_TRY(zn_comm_gather(e->comm, &gather, &e->matrices.done));
    return zn_device_wait(device, &e->matrices.done);
}

static zn_status return_directions(zn_engine *e, int unit, zn_device *device)
{
    const struct zn_unit *u = &e->units->units[unit];
    struct zn_reduce reduce = {.tag = {ZN_COMM_REDUCE_GRAD, unit},
                               .from = &e->shared[buffer_of_matrices(e)],
                               .offset = (size_t)offset_in_matrices(e, unit),
                               .n_elements = u->partition,
                               .wire = ZN_F32,
                               .to = own_directions(e, unit),
                               .after = {&e->matrices.ready}};
    ZN_TRY(zn_device_record(device, &e->matrices.ready));
    zn_event_reset(&e->matrices.done);
    ZN_TRY(zn_comm_reduce(e->comm, &reduce, &e->matrices.done));
    return zn_device_wait(device, &e->matrices.done);
}

static zn_status transform_matrix(zn_engine *e, const struct zn_part *part, zn_device *device)
{
    int64_t place = zn_matrices_place(e->units, part->unit) + part->place - e->units->units[part->unit].first;
    struct zn_matrix matrix = {.direction = e->buffers[buffer_of_matrices(e)].base + (zn_addr)place * sizeof(float),
                               .work = e->buffers[ZN_BUFFER_MATRIX_WORK].base,
                               .rows = zn_matrix_rows(e->units, part),
                               .columns = part->n_elements / part->n_rows};
    if (!is_work_shared(e, part->unit) || e->matrices.worker[part - e->units->parts] == e->rank)
        return e->options.optimizer->transform(device, &matrix);
    return zn_run_fill(device,
                       &(struct zn_fill_args){.dst = matrix.direction, .n_elements = matrix.rows * matrix.columns, .value = -0.0f});
}

zn_status transform_matrices(zn_engine *e, int unit, zn_device *device)
{
    const struct zn_unit *u = &e->units->units[unit];
    int end = zn_matrices_end(e->units, unit);
    for (int i = unit; i < end && is_gathered(e); i++)
        ZN_TRY(gather_directions(e, i, device));
    for (int i = 0; i < u->n_parts; i++)
        ZN_TRY(transform_matrix(e, &e->units->parts[u->first_part + i], device));
    for (int i = unit; i < end && is_work_shared(e, unit); i++)
        ZN_TRY(return_directions(e, i, device));
    return is_work_shared(e, unit) && !is_gathered(e) ? gather_directions(e, unit, device) : ZN_OK;
}
