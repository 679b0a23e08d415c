/* Handing out states piece by piece: every rank has all of a state, or ranks gather their partitions; where parameters are sliced,
 * the slices of each piece are gathered, too, and handed out as parts of the whole parameter. */
#include <stdlib.h>

#include "zero/engine_private.h"

/* What is handed out: a state of all parameters, of those that are trained, or of one. */
struct selection {
    zn_state state;
    bool trained_only;
    const zn_param *only; /* NULL: all */
};

static bool holds_param(const zn_engine *e, int unit, const zn_param *p)
{
    const struct zn_unit *u = &e->units->units[unit];
    int i = 0;
    while (i < u->n_parts && e->units->parts[u->first_part + i].param != p->index)
        i++;
    return i < u->n_parts;
}

/* Frozen units have masters, which may be left out, and no other state. */
static bool is_streamed(const zn_engine *e, int unit, const struct selection *s)
{
    if (s->only && !holds_param(e, unit, s->only))
        return false;
    return is_trained(e, unit) ? unit_has_state(e, unit, s->state) : s->state == ZN_STATE_MASTER && !s->trained_only;
}

/* Every rank has all of it and reads it piece by piece. */
static zn_status stream_alone(zn_engine *e, const struct selection *s, int64_t piece, zn_take_values take, void *self)
{
    float *values = malloc((size_t)piece * sizeof *values);
    if (!values)
        return zn_fail(ZN_ERR_MEMORY, "no memory to hand out parameters");
    zn_status status = ZN_OK;
    for (int i = 0; i < e->module->n_params && status == ZN_OK; i++) {
        const zn_param *p = &e->module->params[i];
        bool goes = (!s->only || s->only->index == i) && zn_engine_has_state(e, p, s->state) &&
                    is_streamed(e, zn_units_row(e->units, p, 0)->unit, s);
        int64_t end = goes ? zn_state_values(p->n_elements, zn_engine_state_grain(e, s->state)) : 0;
        for (int64_t at = 0; at < end && status == ZN_OK; at += piece) {
            int64_t n = end - at < piece ? end - at : piece;
            status = read_held(e, p, s->state, at, values, n);
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

/* ---- Slices ---- */

/* Who takes parts of whole parameters. Its failure is kept, since the ranks go on together. */
struct slice_taker {
    zn_engine *engine;
    zn_take_values take;
    void *self;
    float *all; /* a piece of each slice */
    zn_status taken;
};

static void hand_on(struct slice_taker *t, const zn_param *p, int64_t first, const float *values, int64_t n)
{
    if (t->taken == ZN_OK)
        t->taken = t->take(t->self, p, first, values, n);
}

static zn_status gather_slices(const struct slice_taker *t, const float *values, int64_t n)
{
    zn_engine *e = t->engine;
    size_t n_bytes = (size_t)n * sizeof(float), offset = (size_t)e->slice * n_bytes;
    const struct zn_buffer *staging = &e->buffers[ZN_BUFFER_SLICES];
    struct zn_gather gather = {.tag = {ZN_COMM_GATHER_PARAM, -1}, .from = &e->shared[ZN_BUFFER_SLICES], .offset = offset,
                               .n_bytes = n_bytes, .to = zn_buffer_extent(staging, 0)};
    zn_event done;
    zn_event_init(&done);
    zn_status status = zn_device_write(e->device, staging->base + offset, values, n_bytes);
    zn_event_reset(&done);
    if (status == ZN_OK)
        status = zn_comm_gather(e->tensor, &gather, &done);
    if (status == ZN_OK)
        status = zn_event_wait(&done, e->device->clock);
    zn_event_fini(&done);
    return status == ZN_OK ? zn_device_read(e->device, t->all, staging->base, (size_t)e->plan->trace.n_slices * n_bytes) : status;
}

/* n elements that each rank holds of its slice, from `first` on. */
static zn_status take_slices(void *self, const zn_param *p, int64_t first, const float *values, int64_t n)
{
    struct slice_taker *t = self;
    if (!zn_is_sliced(p)) {
        hand_on(t, p, first, values, n);
        return ZN_OK;
    }
    ZN_TRY(gather_slices(t, values, n));
    for (int s = 0; s < p->slice.count; s++) {
        const float *of_slice = t->all + s * p->slice.copies * n;
        int64_t end = zn_param_n_held_of(p, s), m;
        end = first + n < end ? first + n : end;
        for (int64_t held = first; held < end; held += m) {
            int64_t whole = zn_param_whole_of(p, s, held, &m);
            m = m < end - held ? m : end - held;
            hand_on(t, p, whole, of_slice + (held - first), m);
        }
    }
    return ZN_OK;
}

/* ---- All of it ---- */

/* Hands values on, those of one parameter alone where one is wanted, and counts them. */
struct counted {
    zn_take_values take;
    void *self;
    zn_progress *progress;
    const zn_param *only;
};

static zn_status take_counted(void *self, const zn_param *param, int64_t first, const float *values, int64_t n_elements)
{
    const struct counted *c = self;
    if (c->only && c->only->index != param->index)
        return ZN_OK;
    zn_progress_add(c->progress, n_elements);
    return c->take(c->self, param, first, values, n_elements);
}

static zn_status stream_held(zn_engine *e, const struct selection *s, zn_take_values take, void *self)
{
    int64_t piece = (int64_t)(e->buffers[ZN_BUFFER_STAGING].n_bytes / sizeof(float)) / (e->n_ranks > 1 ? e->n_ranks + 1 : 1);
    if (e->placement->states.form == ZN_WHOLE)
        return zn_comm_agree(e->comm, stream_alone(e, s, piece, take, self));
    float *values = malloc((size_t)piece * sizeof *values);
    if (!values)
        return zn_fail(ZN_ERR_MEMORY, "no memory to hand out parameters");
    zn_status status = ZN_OK;
    for (int u = 0; u < e->units->n_units && status == ZN_OK; u++)
        if (is_streamed(e, u, s))
            status = stream_unit(e, s->state, u, piece, values, take, self);
    free(values);
    return status;
}

static zn_status stream(zn_engine *e, const struct selection *s, zn_take_values take, void *self)
{
    struct counted counted = {take, self, e->progress, s->only};
    if (!e->tensor)
        return stream_held(e, s, take_counted, &counted);
    struct slice_taker t = {.engine = e, .take = take_counted, .self = &counted, .all = malloc(e->buffers[ZN_BUFFER_SLICES].n_bytes)};
    if (!t.all)
        return zn_fail(ZN_ERR_MEMORY, "no memory to hand out slices of parameters");
    zn_status status = stream_held(e, s, take_slices, &t);
    free(t.all);
    return status == ZN_OK ? zn_comm_agree(e->world, t.taken) : status;
}

zn_status zn_engine_stream_state(zn_engine *e, zn_state state, zn_take_values take, void *self)
{
    return stream(e, &(struct selection){.state = state}, take, self);
}

zn_status zn_engine_stream_trained(zn_engine *e, zn_take_values take, void *self)
{
    return stream(e, &(struct selection){.state = ZN_STATE_MASTER, .trained_only = true}, take, self);
}

zn_status zn_engine_stream_param(zn_engine *e, const zn_param *param, zn_state state, zn_take_values take, void *self)
{
    return stream(e, &(struct selection){.state = state, .only = param}, take, self);
}
