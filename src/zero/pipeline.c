/* The optimizer pipeline: own elements are updated chunk by chunk. Chunks whose states lie on NVMe go
 * through a constant number of buffers: while one is updated the next are read and the ones before
 * are written (ZeRO-Infinity's infinity offload engine). The optimizer pass runs in reverse every
 * second step where no unit waits for its first chunks: the chunks still in the buffers are then used
 * first. A host cache keeps the first of all chunks in memory for good. */
#include "zero/pipeline.h"

#include <stdlib.h>

#include "base/size.h"

static const struct zn_unit *unit_of_chunk(const zn_engine *e, int chunk)
{
    return &e->units->units[e->pipeline.chunks[chunk].unit];
}

static zn_dtype type_of_chunk(const zn_engine *e, int chunk)
{
    return unit_of_chunk(e, chunk)->type;
}

static bool states_on_nvme(const zn_engine *e, int chunk)
{
    return chunk < e->pipeline.n_trained && e->pipeline.chunks[chunk].first >= e->plan->cached &&
           zn_state_bytes(e->placement, unit_of_chunk(e, chunk), ZN_PART_ALIGNMENT) > 0;
}

bool chunk_has_master(const zn_engine *e, int chunk)
{
    return chunk < e->pipeline.n_trained && e->placement->has_master;
}

bool chunk_needs_slot(const zn_engine *e, int chunk)
{
    if (chunk >= e->pipeline.n_trained || zn_is_swapped(&e->placement->parameters))
        return zn_is_swapped(&e->placement->parameters);
    return states_on_nvme(e, chunk) || e->placement->returns_parameters || zn_is_swapped(&e->placement->gradients);
}

static void list_chunks_of_unit(zn_engine *e, int unit)
{
    int64_t count = own_count(e, unit);
    for (int64_t at = 0; at < count; at += ZN_CHUNK_ELEMENTS)
        e->pipeline.chunks[e->pipeline.n_chunks++] =
            (struct chunk){.unit = unit,
                           .first = own_first(e, unit) + at,
                           .n = count - at < ZN_CHUNK_ELEMENTS ? count - at : ZN_CHUNK_ELEMENTS};
}

/* The states of chunks follow each other in the swap. */
static void place_in_swap(zn_engine *e)
{
    uint64_t at = 0;
    for (int i = 0; i < e->pipeline.n_trained; i++) {
        e->pipeline.chunks[i].swapped = at;
        if (states_on_nvme(e, i))
            at += zn_swapped_bytes(e->placement, unit_of_chunk(e, i), e->pipeline.chunks[i].n);
    }
}

static void list_chunks_of_class(zn_engine *e, zn_unit_class class)
{
    for (int u = 0; u < e->units->n_units; u++)
        if (zn_unit_class_of(&e->units->units[u]) == class)
            list_chunks_of_unit(e, u);
}

/* In the order of their elements. */
static zn_status list_chunks(zn_engine *e)
{
    int n = 0;
    for (int u = 0; u < e->units->n_units; u++)
        n += (int)((own_count(e, u) + ZN_CHUNK_ELEMENTS - 1) / ZN_CHUNK_ELEMENTS);
    e->pipeline.chunks = calloc((size_t)n + 1, sizeof *e->pipeline.chunks);
    e->pipeline.chunk_written = calloc((size_t)n + 1, 1);
    if (!e->pipeline.chunks || !e->pipeline.chunk_written)
        return zn_fail(ZN_ERR_MEMORY, "no memory for the chunks of the optimizer");
    list_chunks_of_class(e, ZN_UNIT_TRAINED);
    e->pipeline.n_trained = e->placement->trains ? e->pipeline.n_chunks : 0; /* adapters that are only read have no states */
    place_in_swap(e);
    list_chunks_of_class(e, ZN_UNIT_FROZEN);
    list_chunks_of_class(e, ZN_UNIT_QUANTISED);
    return ZN_OK;
}

int chunk_of(const zn_engine *e, int64_t own)
{
    int low = 0, high = e->pipeline.n_chunks - 1;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (e->pipeline.chunks[middle].first <= own)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* Each slot has room for what of a chunk is not in its place. */
static void place_slots(zn_engine *e)
{
    size_t n = ZN_CHUNK_ELEMENTS;
    size_t states = e->plan->cached < zn_own_total(e->placement, e->units) ? zn_swapped_most(e->placement, e->units) : 0;
    size_t grad = zn_is_swapped(&e->placement->gradients) ? n * sizeof(float) : 0;
    size_t param = zn_passed_bytes(e->placement, e->units);
    for (int s = 0; s < ZN_PIPELINE_BUFFERS; s++) {
        struct slot *slot = &e->pipeline.slots[s];
        zn_addr at = e->buffers[ZN_BUFFER_PIPELINE].base + (zn_addr)s * (states + grad + param);
        slot->states = states ? at : 0;
        slot->grad = grad ? at + states : 0;
        slot->param = param ? at + states + grad : 0;
    }
}

zn_status pipeline_init(zn_engine *e)
{
    for (int s = 0; s < ZN_PIPELINE_BUFFERS; s++) {
        e->pipeline.slots[s].chunk = e->pipeline.slots[s].marks = -1;
        for (int k = 0; k < N_TRANSFERS; k++)
            zn_event_init(&e->pipeline.slots[s].done[k]);
        zn_event_init(&e->pipeline.slots[s].computed);
        zn_event_set(&e->pipeline.slots[s].computed, ZN_OK, NULL, 0);
    }
    place_slots(e);
    ZN_TRY(list_chunks(e));
    return list_visits(e);
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
    for (int s = 0; s < ZN_PIPELINE_BUFFERS; s++) {
        zn_status one = slot_wait(e, &e->pipeline.slots[s]);
        status = status == ZN_OK ? one : status;
    }
    return status;
}

void pipeline_fini(zn_engine *e)
{
    pipeline_drain(e);
    for (int s = 0; s < ZN_PIPELINE_BUFFERS; s++) {
        for (int k = 0; k < N_TRANSFERS; k++)
            zn_event_fini(&e->pipeline.slots[s].done[k]);
        zn_event_fini(&e->pipeline.slots[s].computed);
    }
    free(e->pipeline.chunks);
    free(e->pipeline.chunk_written);
    free(e->pipeline.visits);
}

/* ---- Transfers of one chunk ---- */

zn_status transfer(zn_engine *e, struct slot *slot, int kind, uint64_t offset, zn_addr address,
                          size_t n_bytes)
{
    zn_event *done = &slot->done[kind];
    const struct zn_buffer *slots = &e->buffers[ZN_BUFFER_PIPELINE];
    struct zn_extent memory = zn_buffer_extent(slots, address - slots->base);
    zn_event_reset(done);
    if (kind < WRITE_STATES)
        ZN_TRY(zn_storage_read(e->storage, offset, memory, n_bytes, &slot->computed, done));
    else
        ZN_TRY(zn_storage_write(e->storage, offset, memory, n_bytes, &slot->computed, done));
    slot->pending[kind] = true;
    return ZN_OK;
}

/* Masters come before the optimizer's states. */
static zn_status transfer_states(zn_engine *e, int chunk, struct slot *slot, int kind, int what)
{
    const struct chunk *c = &e->pipeline.chunks[chunk];
    size_t masters = e->placement->has_master ? (size_t)c->n * sizeof(float) : 0;
    size_t begin = what & HAS_VALUES ? 0 : masters;
    size_t end = what & HAS_STATES ? zn_swapped_bytes(e->placement, unit_of_chunk(e, chunk), c->n) : masters;
    if (!states_on_nvme(e, chunk) || begin == end)
        return ZN_OK;
    return transfer(e, slot, kind, e->buffers[ZN_BUFFER_SWAPPED_STATES].swap_offset + c->swapped + begin, slot->states + begin,
                    end - begin);
}

zn_status narrow_values(zn_device *device, zn_addr to, zn_dtype type, zn_addr from, int64_t n)
{
    if (type == ZN_F32)
        return zn_run_copy(device, &(struct zn_copy_args){.dst = to, .src = from, .n_bytes = n * (int64_t)sizeof(float)});
    return zn_run_cast(device, &(struct zn_cast_args){
                                   .dst = to, .src = from, .dst_type = type, .src_type = ZN_F32, .n_elements = n});
}

/* ZeRO-Offload: a finished chunk goes back to the device while the next is updated. */
static zn_status return_params(zn_engine *e, const struct chunk *c, struct slot *slot)
{
    size_t width = width_of_params(e);
    zn_addr to = own_values_at(e, c->unit, c->first - own_first(e, c->unit));
    struct operands x = operands_of(e, (int)(c - e->pipeline.chunks), slot);
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
    const struct chunk *c = &e->pipeline.chunks[chunk];
    zn_dtype type = type_of_chunk(e, chunk);
    if (e->placement->returns_parameters)
        return kind == WRITE_PARAM && !delayed ? return_params(e, c, slot) : ZN_OK;
    if (!zn_is_swapped(&e->placement->parameters))
        return ZN_OK;
    uint64_t at = delayed ? e->buffers[ZN_BUFFER_NEXT].swap_offset + zn_dtype_size(type, c->first)
                          : own_values_in_swap(e, c->unit, c->first - own_first(e, c->unit));
    return transfer(e, slot, kind, at, slot->param, zn_dtype_size(type, c->n));
}

zn_status read_grad(zn_engine *e, int chunk, struct slot *slot, const struct update *update)
{
    const struct chunk *c = &e->pipeline.chunks[chunk];
    const struct unit_state *us = &e->unit_state[c->unit];
    const struct zn_buffer *from = &e->buffers[update->delayed ? ZN_BUFFER_PENDING : ZN_BUFFER_GRADIENTS];
    if (!zn_is_swapped(&e->placement->gradients))
        return ZN_OK;
    if (us->update_absent)
        return zn_run_zero(update->device,
                           &(struct zn_zero_args){.dst = slot->grad, .n_bytes = c->n * (int64_t)sizeof(float)});
    return transfer(e, slot, READ_GRAD, from->swap_offset + (uint64_t)c->first * sizeof(float), slot->grad,
                    (size_t)c->n * sizeof(float));
}

/* A parameter that is its own master is read; one that has another is only written. */
zn_status read_chunk(zn_engine *e, int chunk, struct slot *slot, int what)
{
    int missing = slot->chunk == chunk ? what & ~slot->held : what, held = what | (slot->chunk == chunk ? slot->held : 0);
    if (missing) {
        slot->chunk = -1;
        ZN_TRY(transfer_states(e, chunk, slot, READ_STATES, missing));
        if (missing & HAS_VALUES && !chunk_has_master(e, chunk))
            ZN_TRY(transfer_param(e, chunk, slot, READ_PARAM, false));
    }
    slot->chunk = chunk;
    slot->held = held;
    return ZN_OK;
}

zn_status write_chunk(zn_engine *e, int chunk, struct slot *slot, int what, bool delayed)
{
    e->pipeline.chunk_written[chunk] = 1;
    ZN_TRY(transfer_states(e, chunk, slot, WRITE_STATES, what));
    return what & HAS_VALUES ? transfer_param(e, chunk, slot, WRITE_PARAM, delayed) : ZN_OK;
}

/* A state of the chunk, so many bytes for each `grain` elements: in its buffer, where those that have it are counted to `first`, or,
 * where the chunk is on NVMe, in the slot at `swapped`, after which the next follows. */
static zn_addr state_of(const struct zn_buffer *buffer, int64_t first, const struct chunk *c, size_t width, int grain, zn_addr *swapped)
{
    zn_addr at = *swapped;
    if (!at)
        return buffer->base + (zn_addr)(first / grain) * width;
    *swapped += (zn_addr)(c->n / grain) * width;
    return at;
}

struct operands operands_of(const zn_engine *e, int chunk, const struct slot *slot)
{
    const struct zn_placement *p = e->placement;
    const struct chunk *c = &e->pipeline.chunks[chunk];
    bool is_updated = chunk < e->pipeline.n_trained, has_master = chunk_has_master(e, chunk);
    int64_t at = c->first - own_first(e, c->unit);
    zn_addr swapped = states_on_nvme(e, chunk) ? slot->states : 0;
    bool passes = is_updated ? zn_passes_parameters(p) : zn_is_swapped(&p->parameters);
    zn_addr working = passes ? slot->param : own_values_at(e, c->unit, at);
    struct operands x = {
        .param = has_master ? state_of(&e->buffers[ZN_BUFFER_MASTER], c->first, c, sizeof(float), 1, &swapped) : working,
        .copy = type_of_chunk(e, chunk) != ZN_F32 || (has_master && !p->returns_parameters) ? working : 0,
    };
    if (!is_updated)
        return x;
    if (unit_of_chunk(e, chunk)->by_matrix)
        x.direction = direction_at(e, c->unit, at);
    x.grad = zn_is_swapped(&p->gradients) ? slot->grad : own_at(e, ZN_BUFFER_GRADIENTS, sizeof(float), p->gradients.form, c->unit, at);
    for (int i = 0; i < p->optimizer->n_states; i++) {
        const struct zn_optimizer_state *s = &p->optimizer->state[i];
        int64_t first = zn_own_first_of_state(p, unit_of_chunk(e, chunk), s) + at;
        if (!zn_optimizer_keeps(s, unit_of_chunk(e, chunk)->by_matrix))
            continue;
        x.state[i] = state_of(&e->buffers[ZN_BUFFER_STATES + i], first, c, zn_dtype_bytes(s->type), 1, &swapped);
        if (s->block)
            x.scales[i] = state_of(&e->buffers[ZN_BUFFER_SCALES + i], first, c, sizeof(float), s->block, &swapped);
    }
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
    bool emptied[ZN_PIPELINE_BUFFERS] = {false};
    for (int i = 0; i < ZN_PIPELINE_BUFFERS; i++) { /* in the order of their visits */
        int next = -1;
        for (int s = 0; s < ZN_PIPELINE_BUFFERS; s++) {
            if (!emptied[s] && (next < 0 || e->pipeline.slots[s].visit < e->pipeline.slots[next].visit))
                next = s;
        }
        emptied[next] = true;
        ZN_TRY(slot_empty(e, &e->pipeline.slots[next], device));
    }
    return ZN_OK;
}
