/* Filling parameters at start and handing them out at the end, without ever holding the model
 * whole where the stage does not. */
#include <stdlib.h>

#include "base/rng.h"
#include "zero/engine_private.h"

struct zn_range zn_engine_brings(const zn_engine *e, const zn_param *p)
{
    return updated_range(e, p);
}

/* The region that holds a state, and whether it holds whole units. */
static const struct region *region_of(const zn_engine *e, zn_state state, bool *whole)
{
    const struct region *regions[] = {&e->master, &e->exp_avg, &e->exp_avg_sq};
    bool is_param = state == ZN_STATE_MASTER && e->options.type == ZN_F32;
    *whole = is_param ? keeps_parameters(e) : keeps_optimizer(e);
    return is_param ? &e->parameters : regions[state];
}

static zn_addr state_at(const zn_engine *e, const zn_param *p, zn_state state, int64_t first)
{
    bool whole;
    const struct region *r = region_of(e, state, &whole);
    return whole ? whole_at(e, r, sizeof(float), p, first) : owned_at(e, r, sizeof(float), p, first);
}

bool zn_engine_has_state(const zn_engine *e, zn_state state)
{
    bool whole;
    return region_of(e, state, &whole)->address != 0;
}

/* The 16-bit working values follow their masters. */
static zn_status narrow(zn_engine *e, const zn_param *p, int64_t first, int64_t n_elements)
{
    if (e->options.type == ZN_F32)
        return ZN_OK;
    size_t width = width_of_params(e);
    zn_addr to = keeps_parameters(e) ? whole_at(e, &e->parameters, width, p, first)
                                     : owned_at(e, &e->parameters, width, p, first);
    return zn_run_cast(e->device, &(struct zn_cast_args){.dst = to,
                                                         .src = state_at(e, p, ZN_STATE_MASTER, first),
                                                         .dst_type = e->options.type,
                                                         .src_type = ZN_F32,
                                                         .n_elements = n_elements});
}

zn_status zn_engine_write_state(zn_engine *e, const zn_param *p, zn_state state, int64_t first,
                                const float *values, int64_t n_elements)
{
    ZN_TRY(zn_device_write(e->device, state_at(e, p, state, first), values, (size_t)n_elements * sizeof(float)));
    return state == ZN_STATE_MASTER ? narrow(e, p, first, n_elements) : ZN_OK;
}

zn_status zn_engine_read_state(zn_engine *e, const zn_param *p, zn_state state, int64_t first, float *values,
                               int64_t n_elements)
{
    return zn_device_read(e->device, values, state_at(e, p, state, first), (size_t)n_elements * sizeof(float));
}

zn_status zn_engine_init_param(zn_engine *e, const zn_param *p, uint64_t seed)
{
    struct zn_range r = zn_engine_brings(e, p);
    if (r.n == 0)
        return ZN_OK;
    zn_addr at = state_at(e, p, ZN_STATE_MASTER, r.first);
    if (p->init == ZN_INIT_NORMAL)
        ZN_TRY(zn_run_fill_normal(e->device, &(struct zn_fill_normal_args){.dst = at,
                                                                           .first = r.first,
                                                                           .n_elements = r.n,
                                                                           .key = zn_random_key(seed, p->name),
                                                                           .stddev = p->stddev}));
    else
        ZN_TRY(zn_run_fill(e->device,
                           &(struct zn_fill_args){.dst = at,
                                                  .n_elements = r.n,
                                                  .value = p->init == ZN_INIT_ONES ? 1.0f : 0.0f}));
    return narrow(e, p, r.first, r.n);
}

zn_status zn_engine_publish(zn_engine *e)
{
    if (keeps_optimizer(e))
        return ZN_OK;
    for (int u = 0; u < e->units.n_units; u++)
        ZN_TRY(publish_unit(e, u));
    return ZN_OK;
}

/* Every rank has all of it and reads it piece by piece. */
static zn_status stream_alone(zn_engine *e, zn_state state, int64_t piece, zn_take_values take, void *self)
{
    float *values = malloc((size_t)piece * sizeof *values);
    if (!values)
        return zn_fail(ZN_ERR_MEMORY, "no memory to hand out parameters");
    zn_status status = ZN_OK;
    for (int i = 0; i < e->module->n_params && status == ZN_OK; i++) {
        const zn_param *p = &e->module->params[i];
        for (int64_t at = 0; at < p->n_elements && status == ZN_OK; at += piece) {
            int64_t n = p->n_elements - at < piece ? p->n_elements - at : piece;
            status = zn_engine_read_state(e, p, state, at, values, n);
            if (status == ZN_OK)
                status = take(self, p, at, values, n);
        }
    }
    free(values);
    return status;
}

/* Elements begin … begin+n of a unit, as the parameters they belong to. */
static zn_status take_unit_range(const zn_engine *e, int unit, int64_t begin, const float *values, int64_t n,
                                 zn_take_values take, void *self)
{
    const struct zn_unit *u = &e->units.units[unit];
    for (int i = 0; i < u->n_params; i++) {
        const zn_param *p = &e->module->params[u->first_param + i];
        int64_t place = e->units.place_of[p->index] - u->first;
        int64_t from = begin > place ? begin : place;
        int64_t to = begin + n < place + p->n_elements ? begin + n : place + p->n_elements;
        if (from < to)
            ZN_TRY(take(self, p, from - place, values + (from - begin), to - from));
    }
    return ZN_OK;
}

/* Every rank lays a piece of its partition into its staging; all gather them and take. */
static zn_status stream_unit(zn_engine *e, zn_state state, int unit, int64_t piece, float *values, zn_take_values take,
                             void *self)
{
    const struct zn_unit *u = &e->units.units[unit];
    bool whole;
    const struct region *r = region_of(e, state, &whole);
    zn_event done;
    zn_event_init(&done);
    zn_status status = ZN_OK, taken = ZN_OK;
    for (int64_t at = 0; at < u->partition && status == ZN_OK; at += piece) {
        int64_t n = u->partition - at < piece ? u->partition - at : piece;
        size_t n_bytes = (size_t)n * sizeof(float);
        zn_addr from = partition_at(e, r, sizeof(float), whole, unit) + (zn_addr)at * sizeof(float);
        zn_addr all = e->staging.address + (zn_addr)piece * sizeof(float);
        status = zn_run_copy(e->device, &(struct zn_copy_args){
                                            .dst = e->staging.address, .src = from, .n_bytes = (int64_t)n_bytes});
        struct zn_gather gather = {.tag = {ZN_COMM_GATHER_PARAM, unit},
                                   .from = &e->staging.shared,
                                   .n_bytes = n_bytes,
                                   .to = (unsigned char *)(uintptr_t)all};
        zn_event_reset(&done);
        if (status == ZN_OK)
            status = zn_comm_gather(e->comm, &gather, &done);
        if (status == ZN_OK)
            status = zn_event_wait(&done, e->device->clock);
        for (int rank = 0; rank < e->n_ranks && status == ZN_OK && taken == ZN_OK; rank++) {
            status = zn_device_read(e->device, values, all + (zn_addr)rank * n_bytes, n_bytes);
            if (status == ZN_OK)
                taken = take_unit_range(e, unit, rank * u->partition + at, values, n, take, self);
        }
    }
    zn_event_fini(&done);
    return status == ZN_OK ? zn_comm_agree(e->comm, taken) : status;
}

zn_status zn_engine_stream_state(zn_engine *e, zn_state state, zn_take_values take, void *self)
{
    int64_t piece = (int64_t)(e->staging.n_bytes / sizeof(float)) / (e->n_ranks > 1 ? e->n_ranks + 1 : 1);
    if (keeps_optimizer(e))
        return zn_comm_agree(e->comm, stream_alone(e, state, piece, take, self));
    float *values = malloc((size_t)piece * sizeof *values);
    if (!values)
        return zn_fail(ZN_ERR_MEMORY, "no memory to hand out parameters");
    zn_status status = ZN_OK;
    for (int u = 0; u < e->units.n_units && status == ZN_OK; u++)
        status = stream_unit(e, state, u, piece, values, take, self);
    free(values);
    return status;
}
