/* Filling states at start and handing them out, in whatever tier they are, without ever holding the
 * model whole where the stage does not. */
#include <stdlib.h>

#include "base/rng.h"
#include "zero/engine_private.h"

static struct zn_range owned_and_held(const zn_engine *e, const zn_param *p, int64_t from)
{
    while (from < zn_param_n_held(p)) {
        const struct zn_part *part = zn_units_element(e->units, p, from);
        struct zn_range own = own_range(e, part);
        int64_t begin = part->first + own.first, end = begin + own.n;
        if (begin < from)
            begin = from;
        if (begin < end)
            return (struct zn_range){begin, end - begin};
        from = part->first + part->n_elements;
    }
    return (struct zn_range){0, 0};
}

/* Of a slice only as much as follows each other in the whole parameter, without padding. */
struct zn_range zn_engine_owned_range(const zn_engine *e, const zn_param *p, int64_t from)
{
    int64_t n, first;
    struct zn_range held = owned_and_held(e, p, zn_param_held(p, from));
    if (held.n == 0)
        return held;
    first = zn_param_whole(p, held.first, &n);
    return (struct zn_range){first, n < held.n ? n : held.n};
}

/* ---- Own elements, wherever they lie ---- */

/* A run of own elements within one chunk. */
struct run {
    int chunk;
    int64_t at, n; /* from the chunk's first element */
};

static struct run run_at(const zn_engine *e, int64_t own, int64_t n)
{
    int chunk = chunk_of(e, own);
    int64_t at = own - e->pipeline.chunks[chunk].first, left = e->pipeline.chunks[chunk].n - at;
    return (struct run){chunk, at, n < left ? n : left};
}

/* Where an element of a part that this rank brings lies among its own. */
static int64_t own_place(const zn_engine *e, const struct zn_part *part, int64_t first)
{
    return e->placement->states.form == ZN_WHOLE ? part->place + first : zn_units_owned_place(e->units, part, first, e->rank);
}

static zn_addr state_at(const zn_engine *e, const struct operands *x, zn_state state, int64_t at)
{
    zn_addr base = state == ZN_STATE_MASTER     ? x->param
                   : state == ZN_STATE_PENDING  ? x->grad
                   : state >= ZN_STATE_SCALES   ? x->scales[state - ZN_STATE_SCALES]
                                                : x->state[state - ZN_STATE_OPTIMIZER];
    return base + (zn_addr)(at / zn_engine_state_grain(e, state)) * zn_dtype_bytes(zn_engine_state_type(e, state));
}

/* The chunk in memory: where it is, or in the pipeline's cursor. `grad` is that of the pending update. */
static zn_status reach(zn_engine *e, int chunk, zn_state state, struct operands *x, bool changes)
{
    const struct chunk *c = &e->pipeline.chunks[chunk];
    struct slot *slot = NULL;
    ZN_TRY(updates_settle(e));
    if (chunk_needs_slot(e, chunk)) {
        ZN_TRY(cursor_open(e, chunk, &slot));
        if (changes && state != ZN_STATE_PENDING)
            cursor_changed(e);
    }
    *x = operands_of(e, chunk, slot);
    if (state != ZN_STATE_PENDING)
        return ZN_OK;
    if (zn_is_swapped(&e->placement->gradients))
        return cursor_pending(e, false);
    x->grad = own_at(e, ZN_BUFFER_PENDING, sizeof(float), e->placement->gradients.form, c->unit, c->first - own_first(e, c->unit));
    return ZN_OK;
}

/* What was changed by hand and is not the cursor's own goes back at once. */
static zn_status leave(zn_engine *e, zn_state state)
{
    bool swapped = state == ZN_STATE_PENDING && zn_is_swapped(&e->placement->gradients);
    return swapped ? cursor_pending(e, true) : ZN_OK;
}

static zn_device *device_of_run(const zn_engine *e, const struct run *run)
{
    return values_device(e, e->pipeline.chunks[run->chunk].unit);
}

/* Values that are kept in 16 bits alone, or quantised. */
static bool is_narrow(const zn_engine *e, const struct run *run)
{
    return e->units->units[e->pipeline.chunks[run->chunk].unit].type != ZN_F32 && !chunk_has_master(e, run->chunk);
}

zn_addr wide_values(const zn_engine *e)
{
    return e->buffers[e->buffers[ZN_BUFFER_WIDE].n_bytes > 0 ? ZN_BUFFER_WIDE : ZN_BUFFER_STAGING].base;
}

/* Where the fp32 values of a run are: in their place, or for a while in a buffer. */
static zn_addr wide_at(const zn_engine *e, const struct operands *x, zn_state state, const struct run *run)
{
    return is_narrow(e, run) ? wide_values(e) : state_at(e, x, state, run->at);
}

/* The working values of a run, where they are apart from the fp32 ones, or 0. */
static zn_addr working_at(const zn_engine *e, const struct operands *x, const struct run *run, zn_dtype *type)
{
    *type = e->units->units[e->pipeline.chunks[run->chunk].unit].type;
    return x->copy ? x->copy + zn_dtype_size(*type, run->at) : 0;
}

/* The working values follow their masters. */
static zn_status narrow(zn_engine *e, const struct operands *x, const struct run *run)
{
    zn_dtype type;
    zn_addr working = working_at(e, x, run, &type);
    if (!working)
        return ZN_OK;
    return narrow_values(device_of_run(e, run), working, type, wide_at(e, x, ZN_STATE_MASTER, run), run->n);
}

/* … and where there are no others, the fp32 values are made from them. */
static zn_status widen(zn_engine *e, const struct operands *x, const struct run *run)
{
    zn_dtype type;
    zn_addr working = working_at(e, x, run, &type);
    if (!is_narrow(e, run))
        return ZN_OK;
    if (zn_dtype_is_quantised(type))
        return zn_run_dequantise(device_of_run(e, run), &(struct zn_dequantise_args){.dst = wide_values(e),
                                                                                     .src = x->copy,
                                                                                     .type = type,
                                                                                     .first = run->at,
                                                                                     .n_elements = run->n});
    return zn_run_cast(device_of_run(e, run), &(struct zn_cast_args){.dst = wide_at(e, x, ZN_STATE_MASTER, run),
                                                                     .src = working,
                                                                     .dst_type = ZN_F32,
                                                                     .src_type = type,
                                                                     .n_elements = run->n});
}

bool zn_engine_has_state(const zn_engine *e, const zn_param *p, zn_state state)
{
    return zn_engine_state_name(e, state) && unit_has_state(e, zn_units_row(e->units, p, 0)->unit, state);
}

/* The elements that n values of a parameter from `first` on stand for. */
static struct zn_range elements_of(const zn_param *p, int64_t first, int64_t n, int64_t grain)
{
    int64_t begin = first * grain, end = (first + n) * grain;
    return (struct zn_range){begin, (end < p->n_elements ? end : p->n_elements) - begin};
}

/* `first` counts what this rank holds of the parameter. */
static zn_status write_held(zn_engine *e, const zn_param *p, zn_state state, int64_t first, const float *values, int64_t n_values)
{
    int64_t grain = zn_engine_state_grain(e, state);
    struct zn_range left = elements_of(p, first, n_values, grain);
    if (zn_engine_is_quantised(e, p))
        return zn_fail(ZN_ERR_INTERNAL, "'%s' is quantised: its values are not written one by one", p->name);
    while (left.n > 0) {
        const struct zn_part *part = zn_units_element(e->units, p, left.first);
        struct zn_range own = own_range(e, part);
        int64_t n = part->first + own.first + own.n - left.first;
        struct run run = run_at(e, own_place(e, part, left.first - part->first), left.n < n ? left.n : n);
        struct operands x;
        ZN_TRY(reach(e, run.chunk, state, &x, true));
        ZN_TRY(values_write(device_of_run(e, &run), wide_at(e, &x, state, &run), zn_engine_state_type(e, state), values,
                            zn_state_values(run.n, grain)));
        if (state == ZN_STATE_MASTER)
            ZN_TRY(narrow(e, &x, &run));
        ZN_TRY(leave(e, state));
        values += zn_state_values(run.n, grain);
        left = (struct zn_range){left.first + run.n, left.n - run.n};
    }
    return ZN_OK;
}

zn_status read_own(zn_engine *e, zn_state state, int64_t own, float *values, int64_t n)
{
    int64_t grain = zn_engine_state_grain(e, state);
    while (n > 0) {
        struct run run = run_at(e, own, n);
        struct operands x;
        ZN_TRY(reach(e, run.chunk, state, &x, false));
        ZN_TRY(widen(e, &x, &run));
        ZN_TRY(values_read(device_of_run(e, &run), values, wide_at(e, &x, state, &run), zn_engine_state_type(e, state),
                           zn_state_values(run.n, grain)));
        own += run.n;
        values += zn_state_values(run.n, grain);
        n -= run.n;
    }
    return ZN_OK;
}

zn_status read_held(zn_engine *e, const zn_param *p, zn_state state, int64_t first, float *values, int64_t n_values)
{
    int64_t grain = zn_engine_state_grain(e, state);
    struct zn_range left = elements_of(p, first, n_values, grain);
    while (left.n > 0) {
        const struct zn_part *part = zn_units_element(e->units, p, left.first);
        struct zn_range own = own_range(e, part);
        int64_t n = part->first + own.first + own.n - left.first;
        n = left.n < n ? left.n : n;
        ZN_TRY(read_own(e, state, own_place(e, part, left.first - part->first), values, n));
        values += zn_state_values(n, grain);
        left = (struct zn_range){left.first + n, left.n - n};
    }
    return ZN_OK;
}

zn_status zn_engine_write_state(zn_engine *e, const zn_param *p, zn_state state, int64_t first, const float *values, int64_t n_values)
{
    for (int64_t n, held; zn_is_sliced(p) && n_values > 0; first += n, values += n, n_values -= n) {
        held = zn_param_held(p, first);
        zn_param_whole(p, held, &n);
        n = n < n_values ? n : n_values;
        ZN_TRY(write_held(e, p, state, held, values, n));
    }
    return zn_is_sliced(p) ? ZN_OK : write_held(e, p, state, first, values, n_values);
}

zn_status zn_engine_read_state(zn_engine *e, const zn_param *p, zn_state state, int64_t first, float *values, int64_t n_values)
{
    for (int64_t n, held; zn_is_sliced(p) && n_values > 0; first += n, values += n, n_values -= n) {
        held = zn_param_held(p, first);
        zn_param_whole(p, held, &n);
        n = n < n_values ? n : n_values;
        ZN_TRY(read_held(e, p, state, held, values, n));
    }
    return zn_is_sliced(p) ? ZN_OK : read_held(e, p, state, first, values, n_values);
}

zn_status working_run(zn_engine *e, const zn_param *p, int64_t first, int64_t *n_elements, zn_addr *address)
{
    const struct zn_part *part = zn_units_element(e->units, p, first);
    struct zn_range own = own_range(e, part);
    int64_t n = part->first + own.first + own.n - first;
    struct run run = run_at(e, own_place(e, part, first - part->first), *n_elements < n ? *n_elements : n);
    struct operands x;
    zn_dtype type;
    ZN_TRY(reach(e, run.chunk, ZN_STATE_MASTER, &x, true));
    *address = working_at(e, &x, &run, &type);
    *n_elements = run.n;
    return ZN_OK;
}

zn_status fill_values(zn_device *device, const zn_param *p, uint64_t seed, int64_t first, int64_t n, zn_addr to)
{
    uint64_t key = zn_random_key(seed, p->name);
    if (p->init == ZN_INIT_NORMAL)
        return zn_run_fill_normal(device, &(struct zn_fill_normal_args){
                                              .dst = to, .first = first, .n_elements = n, .key = key, .stddev = p->spread});
    if (p->init == ZN_INIT_UNIFORM)
        return zn_run_fill_uniform(device, &(struct zn_fill_uniform_args){
                                               .dst = to, .first = first, .n_elements = n, .key = key, .bound = p->spread});
    return zn_run_fill(device,
                       &(struct zn_fill_args){.dst = to, .n_elements = n, .value = p->init == ZN_INIT_ONES ? 1.0f : 0.0f});
}

/* Elements first … first+n of a parameter, in one run, by its declaration. */
static zn_status init_run(zn_engine *e, const zn_param *p, int64_t first, const struct run *run, uint64_t seed)
{
    struct operands x;
    ZN_TRY(reach(e, run->chunk, ZN_STATE_MASTER, &x, true));
    ZN_TRY(fill_values(device_of_run(e, run), p, seed, first, run->n, wide_at(e, &x, ZN_STATE_MASTER, run)));
    return narrow(e, &x, run);
}

zn_status zn_engine_init_param(zn_engine *e, const zn_param *p, uint64_t seed)
{
    if (zn_engine_is_quantised(e, p))
        return quantise_declared(e, p, seed);
    for (struct zn_range r = zn_engine_owned_range(e, p, 0); r.n > 0; r = zn_engine_owned_range(e, p, r.first + r.n)) {
        int64_t held = zn_param_held(p, r.first);
        for (int64_t at = 0; at < r.n;) {
            const struct zn_part *part = zn_units_element(e->units, p, held + at);
            struct run run = run_at(e, own_place(e, part, held + at - part->first), r.n - at);
            ZN_TRY(init_run(e, p, r.first + at, &run, seed));
            at += run.n;
        }
    }
    return ZN_OK;
}

/* What the last slice has beyond the parameter is zero, and stays so. */
static zn_status clear_padding(zn_engine *e, const zn_param *p)
{
    static const float zeros[256];
    int64_t n_zeros = sizeof zeros / sizeof zeros[0], end = p->n_elements;
    for (int64_t at = zn_param_n_held(p), n; at < end; at += n) {
        const struct zn_part *part = zn_units_element(e->units, p, at);
        struct zn_range own = own_range(e, part);
        int64_t first = part->first + own.first, last = first + own.n, stop = at < first ? first : at < last ? last : end;
        stop = stop < part->first + part->n_elements ? stop : part->first + part->n_elements;
        n = stop - at < n_zeros ? stop - at : n_zeros;
        if (at >= first && at < last)
            ZN_TRY(write_held(e, p, ZN_STATE_MASTER, at, zeros, n));
    }
    return ZN_OK;
}

zn_status zn_engine_publish(zn_engine *e)
{
    for (int i = 0; i < e->module->n_params; i++)
        ZN_TRY(clear_padding(e, &e->module->params[i]));
    ZN_TRY(updates_settle(e));
    ZN_TRY(cursor_flush(e));
    ZN_TRY(e->device->ops->synchronize(e->device)); /* values that were written there by hand have no event */
    e->updates.next_publish = e->units->n_units;
    if (e->placement->states.form == ZN_WHOLE)
        return ZN_OK;
    for (int u = 0; u < e->units->n_units; u++)
        ZN_TRY(publish_unit(e, u));
    for (int u = 0; u < e->units->n_units; u++) /* of which no step ever waits */
        if (!is_trained(e, u) || !e->placement->trains)
            ZN_TRY(publish_wait(e, u));
    return ZN_OK;
}
