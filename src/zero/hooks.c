/* The tape's hooks: each checks that its point is the next one of the trace, executes the instructions of the point and gives the
 * address that it is bound to. */
#include "zero/engine_private.h"

static zn_status reach(zn_engine *e, zn_point_kind kind, int64_t index, zn_addr *address)
{
    struct executor *x = &e->executor;
    const struct zn_point *point = x->point < x->section->n_points ? &x->trace->points[x->point] : NULL;
    bool is_here = point && point->kind == (int32_t)kind;
    bool is_exchange = kind == ZN_POINT_SUM_SLICES || kind == ZN_POINT_GATHER_SLICES; /* passes may have fewer tokens */
    if (!is_here || (is_exchange ? point->index < index : point->index != index))
        return zn_fail(ZN_ERR_INTERNAL, "the pass left its trace at point %d (%s %lld)", x->point, zn_point_name(kind),
                       (long long)index);
    int at = x->point++;
    if (address)
        *address = span_address(e, &x->section->address[at]);
    return executor_run_range(e, x->section->first[at], x->section->first[at + 1]);
}

/* ---- Hooks ---- */

static int64_t tile_rows(void *self, const zn_param *p)
{
    return ((const zn_engine *)self)->units->tile_rows[p->index];
}

static int64_t part_index(const zn_engine *e, const zn_param *p, int64_t row)
{
    return zn_units_row(e->units, p, row) - e->units->parts;
}

static zn_status acquire(void *self, const zn_param *p, int64_t row, zn_addr *address)
{
    return reach(self, ZN_POINT_ACQUIRE, part_index(self, p, row), address);
}

static zn_status open_gradient(void *self, const zn_param *p, int64_t row, zn_addr *address)
{
    zn_engine *e = self;
    int64_t part = part_index(e, p, row);
    *address = 0;
    return is_trained(e, e->units->parts[part].unit) ? reach(e, ZN_POINT_OPEN, part, address) : ZN_OK;
}

static zn_status close_gradient(void *self, const zn_param *p, int64_t row)
{
    return reach(self, ZN_POINT_CLOSE, part_index(self, p, row), NULL);
}

static zn_dtype type_of_param(void *self, const zn_param *p)
{
    const zn_units *units = ((const zn_engine *)self)->units;
    return units->units[zn_units_row(units, p, 0)->unit].type;
}

static bool is_param_trained(void *self, const zn_param *p)
{
    const zn_units *units = ((const zn_engine *)self)->units;
    return units->units[zn_units_row(units, p, 0)->unit].is_trained;
}

static zn_addr constant(void *self, const zn_constant *c)
{
    return ((const zn_engine *)self)->tables[c->index].base;
}

/* A schedule that takes each segment of all micro-batches together has one pass. */
static void tell_place(const zn_engine *e, int segment, bool backward)
{
    const struct executor *x = &e->executor;
    int64_t n = e->options.vertical ? 0 : e->options.accumulate, n_passes = n ? n : 1;
    const struct zn_step_place place = {.micro_batch = n ? x->pass + 1 : 0,
                                        .n_micro_batches = n,
                                        .pass = backward ? "backward" : x->trace == &e->plan->trace.reference ? "reference" : "forward",
                                        .segment = segment + 1,
                                        .n_segments = e->module->n_segments};
    zn_progress_place(e->progress, &place, x->pass * x->section->n_points + x->point, n_passes * x->section->n_points);
}

static zn_status segment_end(void *self, int segment, bool backward)
{
    if (((const zn_engine *)self)->progress)
        tell_place(self, segment, backward);
    return reach(self, backward ? ZN_POINT_BACKWARD_END : ZN_POINT_FORWARD_END, segment, NULL);
}

static zn_status reach_checkpoint(zn_engine *e, zn_point_kind kind, int64_t index, zn_addr activation, int64_t n_elements)
{
    if (n_elements > e->plan->trace.checkpoint_elements)
        return zn_fail(ZN_ERR_INTERNAL, "activation checkpoint %lld of %lld elements is not in the plan", (long long)index,
                       (long long)n_elements);
    e->executor.activation = activation;
    e->executor.n_elements = n_elements;
    return reach(e, kind, index, NULL);
}

static zn_status save(void *self, int64_t index, zn_addr from, int64_t n_elements)
{
    return reach_checkpoint(self, ZN_POINT_SAVE, index, from, n_elements);
}

static zn_status prefetch(void *self, int64_t index, int64_t n_elements)
{
    return reach_checkpoint(self, ZN_POINT_PREFETCH, index, 0, n_elements);
}

static zn_status load(void *self, int64_t index, zn_addr to, int64_t n_elements)
{
    return reach_checkpoint(self, ZN_POINT_LOAD, index, to, n_elements);
}

static zn_status exchange(void *self, zn_exchange what, zn_addr from, zn_addr to, int64_t n_elements)
{
    zn_engine *e = self;
    e->executor.activation = from;
    e->executor.result = to;
    e->executor.n_elements = n_elements;
    return reach(e, what == ZN_SUM_OVER_SLICES ? ZN_POINT_SUM_SLICES : ZN_POINT_GATHER_SLICES, n_elements, NULL);
}

const struct zn_param_hooks zn_engine_hooks = {.tile_rows = tile_rows,
                                               .type = type_of_param,
                                               .is_trained = is_param_trained,
                                               .acquire = acquire,
                                               .open_gradient = open_gradient,
                                               .close_gradient = close_gradient,
                                               .constant = constant,
                                               .segment_end = segment_end,
                                               .save = save,
                                               .prefetch = prefetch,
                                               .load = load,
                                               .exchange = exchange};
