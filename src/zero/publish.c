/* Where ranks keep whole units but update their own parts alone, they send each other what they have updated (ZeRO stages 1 and 2,
 * and units that stay gathered at stage 3). */
#include "zero/engine_private.h"

zn_status updates_wait_unit(zn_engine *e, int unit)
{
    return e->updates.is_running ? zn_device_wait(e->device, &e->unit_state[unit].updated) : ZN_OK;
}

zn_status publish_wait(zn_engine *e, int unit)
{
    struct unit_state *us = &e->unit_state[unit];
    if (!us->publishing)
        return ZN_OK;
    us->publishing = false;
    return zn_event_wait(&us->published, e->device->clock);
}

zn_status publish_wait_all(zn_engine *e)
{
    for (int u = 0; u < e->units->n_units; u++) {
        ZN_TRY(updates_wait_unit(e, u));
        ZN_TRY(publish_wait(e, u));
    }
    return ZN_OK;
}

zn_status publish_unit(zn_engine *e, int unit)
{
    const struct zn_unit *u = &e->units->units[unit];
    struct unit_state *us = &e->unit_state[unit];
    const struct zn_placement *p = e->placement;
    int64_t persistent = e->plan->persistent_at[unit];
    bool is_kept = !p->gathers_parameters;
    if (e->n_ranks == 1 || (!is_kept && persistent < 0) || u->n_elements == 0)
        return ZN_OK;
    struct zn_span from = zn_span_of_own_values(p, e->units, u), whole = zn_span_of_values(e->units, u);
    struct zn_extent to = is_kept ? span_extent(e, &whole) : zn_buffer_extent(&e->buffers[ZN_BUFFER_PERSISTENT], (uint64_t)persistent);
    struct zn_gather gather = {.tag = {ZN_COMM_GATHER_PARAM, unit},
                               .from = &e->shared[from.buffer],
                               .offset = (size_t)span_offset(e, &from),
                               .n_bytes = from.n_bytes,
                               .to = to,
                               .after = {&us->updated}};
    ZN_TRY(updates_wait_unit(e, unit));
    ZN_TRY(publish_wait(e, unit));
    zn_event_reset(&us->published);
    ZN_TRY(zn_comm_gather(e->comm, &gather, &us->published));
    us->publishing = true;
    return ZN_OK;
}
