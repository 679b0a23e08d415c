/* The cursor: one chunk of the swap at a time in the first slot of the pipeline, to be read or changed by hand. */
#include "zero/pipeline.h"

zn_status cursor_flush(zn_engine *e)
{
    struct slot *slot = &e->pipeline.slots[0];
    if (!e->pipeline.cursor_is_dirty)
        return ZN_OK;
    e->pipeline.cursor_is_dirty = false;
    ZN_TRY(zn_device_record(states_device(e), &slot->computed));
    ZN_TRY(write_chunk(e, slot->chunk, slot, HAS_ALL, false));
    return slot_wait(e, slot);
}

void cursor_changed(zn_engine *e)
{
    e->pipeline.cursor_is_dirty = true;
}

zn_status cursor_open(zn_engine *e, int chunk, struct slot **cursor)
{
    struct slot *slot = &e->pipeline.slots[0];
    *cursor = slot;
    if (slot->chunk == chunk && slot->held == HAS_ALL)
        return slot_wait(e, slot);
    ZN_TRY(cursor_flush(e));
    ZN_TRY(pipeline_drain(e));
    for (int s = 1; s < ZN_PIPELINE_BUFFERS; s++) /* what is changed here is changed for all */
        e->pipeline.slots[s].chunk = -1;
    if (e->pipeline.chunk_written[chunk]) {
        ZN_TRY(read_chunk(e, chunk, slot, HAS_ALL));
        ZN_TRY(slot_wait(e, slot));
        struct operands x = operands_of(e, chunk, slot);
        /* Working values that have masters are not read: they are made from them. */
        if (x.copy && zn_passes_parameters(e->placement) && chunk_has_master(e, chunk))
            ZN_TRY(narrow_values(states_device(e), x.copy, e->placement->type, x.param, e->pipeline.chunks[chunk].n));
    } else {
        size_t states = zn_swapped_most(e->placement, e->units);
        size_t param = zn_passed_bytes(e->placement, e->units);
        if (slot->states)
            ZN_TRY(zn_run_zero(states_device(e), &(struct zn_zero_args){.dst = slot->states, .n_bytes = (int64_t)states}));
        if (slot->param)
            ZN_TRY(zn_run_zero(states_device(e), &(struct zn_zero_args){.dst = slot->param, .n_bytes = (int64_t)param}));
    }
    slot->chunk = chunk;
    slot->held = HAS_ALL;
    return ZN_OK;
}

zn_status cursor_pending(zn_engine *e, bool back)
{
    struct slot *slot = &e->pipeline.slots[0];
    const struct chunk *c = &e->pipeline.chunks[slot->chunk];
    uint64_t offset = e->buffers[ZN_BUFFER_PENDING].swap_offset + (uint64_t)c->first * sizeof(float);
    if (!back && e->unit_state[c->unit].update_absent)
        return zn_run_zero(states_device(e),
                           &(struct zn_zero_args){.dst = slot->grad, .n_bytes = c->n * (int64_t)sizeof(float)});
    e->unit_state[c->unit].update_absent = false;
    ZN_TRY(zn_device_record(states_device(e), &slot->computed));
    ZN_TRY(transfer(e, slot, back ? WRITE_STATES : READ_GRAD, offset, slot->grad, (size_t)c->n * sizeof(float)));
    return slot_wait(e, slot);
}
