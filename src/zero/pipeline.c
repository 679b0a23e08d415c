/* The optimizer pipeline: own elements are updated chunk by chunk. Chunks whose states lie on NVMe go
 * through a constant number of buffers: while one is updated the next are read and the ones before
 * are written (ZeRO-Infinity's infinity offload engine). Where nobody waits for the first units, the
 * sweep turns round every step, so that the chunks still in the buffers are used first; a host cache
 * keeps the first of all chunks in memory for good. */
#include "zero/pipeline.h"

#include <stdlib.h>

#include "base/size.h"

size_t states_width(const zn_engine *e)
{
    size_t states = e->options.trains ? zn_optimizer_bytes(e->options.optimizer) : 0;
    return states + (has_master(e) ? sizeof(float) : 0);
}

bool params_on_nvme(const zn_engine *e)
{
    return is_on_nvme(e->options.offload.parameters);
}

bool grads_on_nvme(const zn_engine *e)
{
    return is_on_nvme(e->options.offload.gradients);
}

static bool states_on_nvme(const zn_engine *e, int chunk)
{
    return e->chunks[chunk].first >= e->cached && states_width(e) > 0;
}

/* Working parameters that are not where the update is computed pass through the slot; in fp32 they return as their
 * masters. */
bool params_pass(const zn_engine *e)
{
    return params_on_nvme(e) || (parameters_return(e) && e->options.type != ZN_F32);
}

bool chunk_needs_slot(const zn_engine *e, int chunk)
{
    return states_on_nvme(e, chunk) || params_on_nvme(e) || parameters_return(e) || grads_on_nvme(e);
}

static zn_status list_chunks(zn_engine *e)
{
    int n = 0;
    for (int u = 0; u < e->units.n_units; u++)
        n += (int)((own_count(e, u) + CHUNK_ELEMENTS - 1) / CHUNK_ELEMENTS);
    e->chunks = calloc((size_t)n + 1, sizeof *e->chunks);
    e->chunk_written = calloc((size_t)n + 1, 1);
    if (!e->chunks || !e->chunk_written)
        return zn_fail(ZN_ERR_MEMORY, "no memory for the chunks of the optimizer");
    for (int u = 0; u < e->units.n_units; u++) {
        int64_t count = own_count(e, u);
        for (int64_t at = 0; at < count; at += CHUNK_ELEMENTS)
            e->chunks[e->n_chunks++] =
                (struct chunk){.unit = u,
                               .first = own_first(e, u) + at,
                               .n = count - at < CHUNK_ELEMENTS ? count - at : CHUNK_ELEMENTS};
    }
    return ZN_OK;
}

/* How many own elements keep their states in memory though the optimizer is on NVMe: whole chunks. */
static int64_t choose_cached(const zn_engine *e)
{
    if (!is_on_nvme(e->options.offload.optimizer))
        return own_total(e);
    size_t element = states_width(e);
    int64_t cached = 0;
    for (int c = 0; c < e->n_chunks; c++) {
        int64_t end = e->chunks[c].first + e->chunks[c].n;
        if ((size_t)end * element > e->options.host_cache)
            break;
        cached = end;
    }
    return cached;
}

int chunk_of(const zn_engine *e, int64_t own)
{
    int low = 0, high = e->n_chunks - 1;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (e->chunks[middle].first <= own)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static zn_status place_slots(zn_engine *e)
{
    size_t n = CHUNK_ELEMENTS;
    size_t states = e->cached < own_total(e) ? n * states_width(e) : 0;
    size_t grad = grads_on_nvme(e) ? n * sizeof(float) : 0;
    size_t param = params_pass(e) ? n * width_of_params(e) : 0;
    size_t n_bytes = states + grad + param;
    ZN_TRY(region_alloc(e, &e->pipeline, "optimizer pipeline", ZN_TIER_HOST, ZN_KIND_BUFFERS,
                        PIPELINE_SLOTS * n_bytes, false));
    for (int s = 0; s < PIPELINE_SLOTS; s++) {
        struct slot *slot = &e->slots_of_pipeline[s];
        zn_addr at = e->pipeline.address + (zn_addr)s * n_bytes;
        slot->states = states ? at : 0;
        slot->grad = grad ? at + states : 0;
        slot->param = param ? at + states + grad : 0;
        slot->chunk = -1;
    }
    if (e->storage && n_bytes)
        zn_storage_register(e->storage, pointer_of(e->pipeline.address), e->pipeline.n_bytes);
    return ZN_OK;
}

zn_status pipeline_init(zn_engine *e)
{
    for (int s = 0; s < PIPELINE_SLOTS; s++) {
        e->slots_of_pipeline[s].chunk = e->slots_of_pipeline[s].marks = -1;
        for (int k = 0; k < N_TRANSFERS; k++)
            zn_event_init(&e->slots_of_pipeline[s].done[k]);
        zn_event_init(&e->slots_of_pipeline[s].computed);
        zn_event_set(&e->slots_of_pipeline[s].computed, ZN_OK, NULL, 0);
    }
    ZN_TRY(list_chunks(e));
    e->cached = choose_cached(e);
    return place_slots(e);
}

static zn_status transfer_wait(zn_engine *e, struct slot *slot, int kind)
{
    if (!slot->pending[kind])
        return ZN_OK;
    slot->pending[kind] = false;
    return zn_event_wait(&slot->done[kind], e->device->clock);
}

zn_status slot_wait(zn_engine *e, struct slot *slot)
{
    zn_status status = ZN_OK;
    for (int k = 0; k < N_TRANSFERS; k++) {
        zn_status one = transfer_wait(e, slot, k);
        status = status == ZN_OK ? one : status;
    }
    return status;
}

zn_status pipeline_drain(zn_engine *e)
{
    zn_status status = ZN_OK;
    for (int s = 0; s < PIPELINE_SLOTS; s++) {
        zn_status one = slot_wait(e, &e->slots_of_pipeline[s]);
        status = status == ZN_OK ? one : status;
    }
    return status;
}

void pipeline_fini(zn_engine *e)
{
    pipeline_drain(e);
    for (int s = 0; s < PIPELINE_SLOTS; s++) {
        for (int k = 0; k < N_TRANSFERS; k++)
            zn_event_fini(&e->slots_of_pipeline[s].done[k]);
        zn_event_fini(&e->slots_of_pipeline[s].computed);
    }
    free(e->chunks);
    free(e->chunk_written);
}

/* ---- Transfers of one chunk ---- */

zn_status transfer(zn_engine *e, struct slot *slot, int kind, uint64_t offset, zn_addr address,
                          size_t n_bytes)
{
    if (!e->storage)
        return ZN_OK;
    zn_event *done = &slot->done[kind];
    void *memory = pointer_of(address);
    zn_event_reset(done);
    if (kind < WRITE_STATES)
        ZN_TRY(zn_storage_read(e->storage, offset, memory, n_bytes, &slot->computed, done));
    else
        ZN_TRY(zn_storage_write(e->storage, offset, memory, n_bytes, &slot->computed, done));
    slot->pending[kind] = true;
    return ZN_OK;
}

static zn_status transfer_states(zn_engine *e, int chunk, struct slot *slot, int kind)
{
    const struct chunk *c = &e->chunks[chunk];
    size_t element = states_width(e);
    if (!states_on_nvme(e, chunk))
        return ZN_OK;
    return transfer(e, slot, kind, e->swap_states.offset + (uint64_t)(c->first - e->cached) * element, slot->states,
                    (size_t)c->n * element);
}

zn_status narrow_values(zn_engine *e, zn_device *device, zn_addr to, zn_addr from, int64_t n)
{
    if (e->options.type == ZN_F32)
        return zn_run_copy(device, &(struct zn_copy_args){.dst = to, .src = from, .n_bytes = n * (int64_t)sizeof(float)});
    return zn_run_cast(device, &(struct zn_cast_args){
                                   .dst = to, .src = from, .dst_type = e->options.type, .src_type = ZN_F32, .n_elements = n});
}

/* ZeRO-Offload: a finished chunk goes back to the device while the next is updated. */
static zn_status return_params(zn_engine *e, const struct chunk *c, struct slot *slot)
{
    size_t width = width_of_params(e);
    zn_addr to = own_at(e, &e->parameters, width, keeps_parameters(e), c->unit, c->first - own_first(e, c->unit));
    if (!e->plan)
        return ZN_OK;
    struct operands x = operands_of(e, (int)(c - e->chunks), slot);
    struct zn_transfer back = {.to = to,
                               .from = x.copy ? x.copy : x.param,
                               .n_bytes = (size_t)c->n * width,
                               .after = {&slot->computed},
                               .done = &slot->done[WRITE_PARAM]};
    ZN_TRY(zn_device_copy(e->device, ZN_LANE_BACK, &back));
    slot->pending[WRITE_PARAM] = true;
    return ZN_OK;
}

static zn_status transfer_param(zn_engine *e, int chunk, struct slot *slot, int kind, bool delayed)
{
    const struct chunk *c = &e->chunks[chunk];
    size_t width = width_of_params(e);
    uint64_t base = delayed ? e->swap_next.offset : e->swap_parameters.offset;
    if (parameters_return(e))
        return kind == WRITE_PARAM && !delayed ? return_params(e, c, slot) : ZN_OK;
    if (!params_on_nvme(e))
        return ZN_OK;
    return transfer(e, slot, kind, base + (uint64_t)c->first * width, slot->param, (size_t)c->n * width);
}

zn_status read_grad(zn_engine *e, int chunk, struct slot *slot, const struct update *update)
{
    const struct chunk *c = &e->chunks[chunk];
    const struct unit_state *us = &e->unit_state[c->unit];
    const struct extent *from = update->delayed ? &e->swap_pending : &e->swap_gradients;
    if (!grads_on_nvme(e))
        return ZN_OK;
    if (us->update_absent)
        return zn_run_zero(update->device,
                           &(struct zn_zero_args){.dst = slot->grad, .n_bytes = c->n * (int64_t)sizeof(float)});
    return transfer(e, slot, READ_GRAD, from->offset + (uint64_t)c->first * sizeof(float), slot->grad,
                    (size_t)c->n * sizeof(float));
}

/* A parameter that is its own master is read; one that has another is only written. */
zn_status read_chunk(zn_engine *e, int chunk, struct slot *slot)
{
    if (slot->chunk != chunk) {
        slot->chunk = -1;
        ZN_TRY(transfer_states(e, chunk, slot, READ_STATES));
        if (!has_master(e))
            ZN_TRY(transfer_param(e, chunk, slot, READ_PARAM, false));
    }
    return ZN_OK;
}

zn_status write_chunk(zn_engine *e, int chunk, struct slot *slot, bool delayed)
{
    e->chunk_written[chunk] = 1;
    ZN_TRY(transfer_states(e, chunk, slot, WRITE_STATES));
    return transfer_param(e, chunk, slot, WRITE_PARAM, delayed);
}

/* A state of the chunk: in its region, or, where the chunk is on NVMe, in the slot at `swapped`, after which the next follows. */
static zn_addr state_of(const struct region *region, const struct chunk *c, size_t width, zn_addr *swapped)
{
    zn_addr at = *swapped;
    if (!at)
        return region->address + (zn_addr)c->first * width;
    *swapped += (zn_addr)c->n * width;
    return at;
}

struct operands operands_of(const zn_engine *e, int chunk, const struct slot *slot)
{
    const struct chunk *c = &e->chunks[chunk];
    bool mixed = has_master(e);
    int64_t at = c->first - own_first(e, c->unit);
    zn_addr swapped = states_on_nvme(e, chunk) ? slot->states : 0;
    zn_addr working = params_pass(e) ? slot->param
                                        : own_at(e, &e->parameters, width_of_params(e), keeps_parameters(e), c->unit, at);
    struct operands x = {
        .param = mixed ? state_of(&e->master, c, sizeof(float), &swapped) : working,
        .grad = grads_on_nvme(e) ? slot->grad
                                 : own_at(e, &e->gradients, sizeof(float), keeps_gradients(e), c->unit, at),
        .copy = e->options.type != ZN_F32 || (mixed && !parameters_return(e)) ? working : 0,
    };
    for (int i = 0; e->options.trains && i < e->options.optimizer->n_states; i++)
        x.state[i] = state_of(&e->states[i], c, zn_dtype_bytes(e->options.optimizer->state[i].type), &swapped);
    return x;
}

/* What is read into the slot next comes after all that is under way in it. */
zn_status slot_empty(zn_engine *e, struct slot *slot, zn_device *device)
{
    for (int k = 0; k < N_TRANSFERS; k++) {
        if (slot->pending[k])
            ZN_TRY(zn_device_wait(device, &slot->done[k]));
        slot->pending[k] = false;
    }
    if (slot->marks >= 0) {
        e->unit_state[slot->marks].marked = true;
        ZN_TRY(zn_device_record(device, &e->unit_state[slot->marks].updated));
        slot->marks = -1;
    }
    return zn_device_record(device, &slot->computed);
}

zn_status pipeline_mark(zn_engine *e, zn_device *device)
{
    bool emptied[PIPELINE_SLOTS] = {false};
    for (int i = 0; i < PIPELINE_SLOTS; i++) { /* in the order of their visits */
        int next = -1;
        for (int s = 0; s < PIPELINE_SLOTS; s++) {
            if (!emptied[s] && (next < 0 || e->slots_of_pipeline[s].visit < e->slots_of_pipeline[next].visit))
                next = s;
        }
        emptied[next] = true;
        ZN_TRY(slot_empty(e, &e->slots_of_pipeline[next], device));
    }
    return ZN_OK;
}
