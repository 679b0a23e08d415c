/* Filling states at start and handing them out, in whatever tier they are, without ever holding the
 * model whole where the stage does not. */
#include <stdlib.h>

#include "base/rng.h"
#include "zero/engine_private.h"

struct zn_range zn_engine_owned_range(const zn_engine *e, const zn_param *p, int64_t from)
{
    while (from < p->n_elements) {
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

/* Values that are kept in 16 bits alone. */
static bool is_narrow(const zn_engine *e, const struct run *run)
{
    return e->units->units[e->pipeline.chunks[run->chunk].unit].type != ZN_F32 && !chunk_has_master(e, run->chunk);
}

/* Where the fp32 values of a run are: in their place, or for a while in a buffer. */
static zn_addr wide_at(const zn_engine *e, const struct operands *x, zn_state state, const struct run *run)
{
    const struct zn_buffer *wide = &e->buffers[e->buffers[ZN_BUFFER_WIDE].n_bytes > 0 ? ZN_BUFFER_WIDE : ZN_BUFFER_STAGING];
    return is_narrow(e, run) ? wide->base : state_at(e, x, state, run->at);
}

/* The working values of a run, where they are apart from the fp32 ones, or 0. */
static zn_addr working_at(const zn_engine *e, const struct operands *x, const struct run *run, zn_dtype *type)
{
    *type = e->units->units[e->pipeline.chunks[run->chunk].unit].type;
    return x->copy ? x->copy + (zn_addr)run->at * zn_dtype_bytes(*type) : 0;
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

zn_status zn_engine_write_state(zn_engine *e, const zn_param *p, zn_state state, int64_t first,
                                const float *values, int64_t n_values)
{
    int64_t grain = zn_engine_state_grain(e, state);
    struct zn_range left = elements_of(p, first, n_values, grain);
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

/* The values of n own elements from `own` on. */
static zn_status read_own(zn_engine *e, zn_state state, int64_t own, float *values, int64_t n)
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

zn_status zn_engine_read_state(zn_engine *e, const zn_param *p, zn_state state, int64_t first, float *values,
                               int64_t n_values)
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

/* Elements first … first+n of a parameter, in one run, by its declaration. */
static zn_status init_run(zn_engine *e, const zn_param *p, int64_t first, const struct run *run, uint64_t seed)
{
    struct operands x;
    ZN_TRY(reach(e, run->chunk, ZN_STATE_MASTER, &x, true));
    zn_addr at = wide_at(e, &x, ZN_STATE_MASTER, run);
    zn_device *device = device_of_run(e, run);
    if (p->init == ZN_INIT_NORMAL)
        ZN_TRY(zn_run_fill_normal(device, &(struct zn_fill_normal_args){.dst = at,
                                                                        .first = first,
                                                                        .n_elements = run->n,
                                                                        .key = zn_random_key(seed, p->name),
                                                                        .stddev = p->spread}));
    else if (p->init == ZN_INIT_UNIFORM)
        ZN_TRY(zn_run_fill_uniform(device, &(struct zn_fill_uniform_args){.dst = at,
                                                                          .first = first,
                                                                          .n_elements = run->n,
                                                                          .key = zn_random_key(seed, p->name),
                                                                          .bound = p->spread}));
    else
        ZN_TRY(zn_run_fill(device, &(struct zn_fill_args){
                                       .dst = at, .n_elements = run->n, .value = p->init == ZN_INIT_ONES ? 1.0f : 0.0f}));
    return narrow(e, &x, run);
}

zn_status zn_engine_init_param(zn_engine *e, const zn_param *p, uint64_t seed)
{
    for (struct zn_range r = zn_engine_owned_range(e, p, 0); r.n > 0; r = zn_engine_owned_range(e, p, r.first + r.n)) {
        for (int64_t at = 0; at < r.n;) {
            const struct zn_part *part = zn_units_element(e->units, p, r.first + at);
            struct run run = run_at(e, own_place(e, part, r.first + at - part->first), r.n - at);
            ZN_TRY(init_run(e, p, r.first + at, &run, seed));
            at += run.n;
        }
    }
    return ZN_OK;
}

zn_status zn_engine_publish(zn_engine *e)
{
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

/* Frozen units have masters, which may be left out, and no other state. */
static bool is_streamed(const zn_engine *e, int unit, zn_state state, bool trained_only)
{
    return is_trained(e, unit) ? unit_has_state(e, unit, state) : state == ZN_STATE_MASTER && !trained_only;
}

/* Every rank has all of it and reads it piece by piece. */
static zn_status stream_alone(zn_engine *e, zn_state state, bool trained_only, int64_t piece, zn_take_values take, void *self)
{
    float *values = malloc((size_t)piece * sizeof *values);
    if (!values)
        return zn_fail(ZN_ERR_MEMORY, "no memory to hand out parameters");
    zn_status status = ZN_OK;
    for (int i = 0; i < e->module->n_params && status == ZN_OK; i++) {
        const zn_param *p = &e->module->params[i];
        bool goes = zn_engine_has_state(e, p, state) && is_streamed(e, zn_units_row(e->units, p, 0)->unit, state, trained_only);
        int64_t end = goes ? zn_state_values(p->n_elements, zn_engine_state_grain(e, state)) : 0;
        for (int64_t at = 0; at < end && status == ZN_OK; at += piece) {
            int64_t n = end - at < piece ? end - at : piece;
            status = zn_engine_read_state(e, p, state, at, values, n);
            if (status == ZN_OK)
                status = take(self, p, at, values, n);
        }
    }
    free(values);
    return status;
}

/* The values of elements begin … begin+n of a unit, as the parameters they belong to. */
static zn_status take_unit_range(const zn_engine *e, int unit, struct zn_range range, int64_t grain, const float *values,
                                 zn_take_values take, void *self)
{
    const struct zn_unit *u = &e->units->units[unit];
    int64_t begin = range.first, end = range.first + range.n;
    for (int i = 0; i < u->n_parts; i++) {
        const struct zn_part *part = &e->units->parts[u->first_part + i];
        int64_t place = part->place - u->first;
        int64_t from = begin > place ? begin : place;
        int64_t to = end < place + part->n_elements ? end : place + part->n_elements;
        if (from < to)
            ZN_TRY(take(self, &e->module->params[part->param], (part->first + from - place) / grain,
                        values + (from - begin) / grain, zn_state_values(to - from, grain)));
    }
    return ZN_OK;
}

/* Every rank lays a piece of its partition into its staging; all gather them and take. */
static zn_status stream_unit(zn_engine *e, zn_state state, int unit, int64_t piece, float *values, zn_take_values take,
                             void *self)
{
    const struct zn_unit *u = &e->units->units[unit];
    zn_event done;
    zn_event_init(&done);
    zn_status status = ZN_OK, taken = ZN_OK;
    int64_t grain = zn_engine_state_grain(e, state);
    for (int64_t at = 0; at < u->partition && status == ZN_OK; at += piece) {
        int64_t n = u->partition - at < piece ? u->partition - at : piece;
        size_t n_bytes = (size_t)(n / grain) * sizeof(float);
        struct zn_extent all = zn_buffer_extent(&e->buffers[ZN_BUFFER_STAGING], (uint64_t)piece * sizeof(float));
        status = read_own(e, state, own_first(e, unit) + at, values, n);
        if (status == ZN_OK)
            status = zn_device_write(e->device, e->buffers[ZN_BUFFER_STAGING].base, values, n_bytes);
        struct zn_gather gather = {
            .tag = {ZN_COMM_GATHER_PARAM, unit}, .from = &e->shared[ZN_BUFFER_STAGING], .n_bytes = n_bytes, .to = all};
        zn_event_reset(&done);
        if (status == ZN_OK)
            status = zn_comm_gather(e->comm, &gather, &done);
        if (status == ZN_OK)
            status = zn_event_wait(&done, e->device->clock);
        for (int rank = 0; rank < e->n_ranks && status == ZN_OK && taken == ZN_OK; rank++) {
            status = zn_device_read(e->device, values, all.address + (zn_addr)rank * n_bytes, n_bytes);
            if (status == ZN_OK)
                taken = take_unit_range(e, unit, (struct zn_range){rank * u->partition + at, n}, grain, values, take, self);
        }
    }
    zn_event_fini(&done);
    return status == ZN_OK ? zn_comm_agree(e->comm, taken) : status;
}

/* Hands values on and counts them. */
struct counted {
    zn_take_values take;
    void *self;
    zn_progress *progress;
};

static zn_status take_counted(void *self, const zn_param *param, int64_t first, const float *values, int64_t n_elements)
{
    const struct counted *c = self;
    zn_progress_add(c->progress, n_elements);
    return c->take(c->self, param, first, values, n_elements);
}

static zn_status stream_state(zn_engine *e, zn_state state, bool trained_only, zn_take_values take, void *self)
{
    int64_t piece = (int64_t)(e->buffers[ZN_BUFFER_STAGING].n_bytes / sizeof(float)) / (e->n_ranks > 1 ? e->n_ranks + 1 : 1);
    if (e->placement->states.form == ZN_WHOLE)
        return zn_comm_agree(e->comm, stream_alone(e, state, trained_only, piece, take, self));
    float *values = malloc((size_t)piece * sizeof *values);
    if (!values)
        return zn_fail(ZN_ERR_MEMORY, "no memory to hand out parameters");
    zn_status status = ZN_OK;
    for (int u = 0; u < e->units->n_units && status == ZN_OK; u++)
        if (is_streamed(e, u, state, trained_only))
            status = stream_unit(e, state, u, piece, values, take, self);
    free(values);
    return status;
}

zn_status zn_engine_stream_state(zn_engine *e, zn_state state, zn_take_values take, void *self)
{
    return stream_state(e, state, false, take_counted, &(struct counted){take, self, e->progress});
}

zn_status zn_engine_stream_trained(zn_engine *e, zn_take_values take, void *self)
{
    return stream_state(e, ZN_STATE_MASTER, true, take_counted, &(struct counted){take, self, e->progress});
}
