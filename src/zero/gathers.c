/* Values of parameters for the operators: kept whole, persistent, or gathered along the trace. */
#include <stdlib.h>

#include "zero/engine_private.h"

static bool are_on_nvme(const zn_engine *e)
{
    return is_on_nvme(e->options.offload.parameters);
}

bool fetches_parameters(const zn_engine *e)
{
    return (parameters_come(e) && e->n_ranks > 1) || (are_on_nvme(e) && (parameters_come(e) || e->n_ranks > 1));
}

zn_status gathers_init(zn_engine *e)
{
    if (!e->plan)
        return ZN_OK;
    int train = e->plan->train_trace.n_gathers, evaluate = e->plan->evaluate_trace.n_gathers;
    size_t n = (size_t)(train > evaluate ? train : evaluate);
    e->gather_done = calloc(n + 1, sizeof *e->gather_done);
    e->fetch_done = calloc(n + 1, sizeof *e->fetch_done);
    e->gather_free = calloc(n + 1, sizeof *e->gather_free);
    e->fetch_free = calloc(n + 1, sizeof *e->fetch_free);
    e->landed_done = calloc(n + 1, sizeof *e->landed_done);
    e->gather_pending = calloc(n + 1, sizeof *e->gather_pending);
    e->fetch_pending = calloc(n + 1, sizeof *e->fetch_pending);
    if (!e->gather_done || !e->fetch_done || !e->gather_free || !e->fetch_free || !e->landed_done ||
        !e->gather_pending || !e->fetch_pending)
        return zn_fail(ZN_ERR_MEMORY, "no memory for an engine");
    e->n_gather_events = (int)n;
    for (size_t g = 0; g < n; g++) {
        zn_event_init(&e->gather_done[g]);
        zn_event_init(&e->fetch_done[g]);
        zn_event_init(&e->gather_free[g]);
        zn_event_init(&e->fetch_free[g]);
        zn_event_init(&e->landed_done[g]);
    }
    return ZN_OK;
}

void gathers_fini(zn_engine *e)
{
    for (int g = 0; g < e->n_gather_events; g++) {
        if (e->fetch_pending[g])
            zn_event_wait(&e->fetch_done[g], e->device->clock);
        if (e->gather_pending[g])
            zn_event_wait(&e->gather_done[g], e->device->clock);
        zn_event_fini(&e->gather_done[g]);
        zn_event_fini(&e->fetch_done[g]);
        zn_event_fini(&e->gather_free[g]);
        zn_event_fini(&e->fetch_free[g]);
        zn_event_fini(&e->landed_done[g]);
    }
    free(e->gather_free);
    free(e->fetch_free);
    free(e->landed_done);
    free(e->gather_done);
    free(e->fetch_done);
    free(e->gather_pending);
    free(e->fetch_pending);
}

zn_status gathers_start_pass(zn_engine *e, bool trains)
{
    if (e->plan)
        e->trace = trains ? &e->plan->train_trace : &e->plan->evaluate_trace;
    e->recording_trace = NULL;
    if (!e->plan) {
        zn_trace *trace = trains ? &e->train_trace : &e->evaluate_trace;
        e->recording_trace = trace->n_uses == 0 ? trace : NULL; /* a repeat is the same again */
    }
    e->position = -1;
    e->next_gather = e->next_fetch = 0;
    e->turn = false;
    return ZN_OK;
}

/* Reads the own partition of a unit from NVMe, `after` being what the device has done by now. */
static zn_status read_partition(zn_engine *e, int unit, zn_addr to, zn_event *after, zn_event *done)
{
    ZN_TRY(zn_device_record(e->device, after));
    const struct zn_unit *u = &e->units.units[unit];
    size_t width = width_of_params(e);
    zn_event_reset(done);
    return zn_storage_read_after(e->storage, e->swap_parameters.offset + (uint64_t)(u->first / e->n_ranks) * width,
                                 pointer_of(to), (size_t)u->partition * width, after, &e->unit_state[unit].updated, done);
}

/* The own partition of a unit in the host's memory. */
static zn_addr at_host(const zn_engine *e, int unit)
{
    return partition_at(e, &e->parameters, width_of_params(e), false, unit);
}

static zn_status copy_in(zn_engine *e, int unit, zn_addr to, zn_addr from, zn_event *after, zn_event *also, zn_event *done)
{
    size_t n_bytes = (size_t)e->units.units[unit].partition * width_of_params(e);
    struct zn_transfer in = {.to = to, .from = from, .n_bytes = n_bytes, .after = {after, also}, .done = done};
    return zn_device_copy(e->device, ZN_LANE_IN, &in);
}

/* Brings the own partition to where it is gathered from; for one rank on a device apart, as far as the host. */
static zn_status fetch(zn_engine *e, int g)
{
    const struct zn_gather_plan *p = &e->trace->gathers[g];
    zn_addr fetched = e->fetched.address + p->fetch_offset, landed = e->landed.address + p->fetch_offset;
    ZN_TRY(updates_reach(e, p->unit));
    bool to_host = parameters_come(e) && are_on_nvme(e), in_two = to_host && e->n_ranks > 1;
    zn_event *landing = in_two ? &e->landed_done[g] : &e->fetch_done[g];
    if (are_on_nvme(e)) {
        ZN_TRY(read_partition(e, p->unit, to_host ? landed : fetched, &e->fetch_free[g], landing));
    } else {
        ZN_TRY(zn_device_record(e->device, &e->fetch_free[g]));
        ZN_TRY(copy_in(e, p->unit, fetched, at_host(e, p->unit), &e->fetch_free[g], &e->unit_state[p->unit].updated,
                       &e->fetch_done[g]));
    }
    if (in_two)
        ZN_TRY(copy_in(e, p->unit, fetched, landed, landing, NULL, &e->fetch_done[g]));
    e->fetch_pending[g] = true;
    return ZN_OK;
}

/* One rank has the whole unit: it comes straight into its place. */
static zn_status bring(zn_engine *e, int g, zn_addr to)
{
    const struct zn_gather_plan *p = &e->trace->gathers[g];
    if (!parameters_come(e))
        return read_partition(e, p->unit, to, &e->gather_free[g], &e->gather_done[g]);
    ZN_TRY(zn_device_record(e->device, &e->gather_free[g]));
    if (!are_on_nvme(e))
        return copy_in(e, p->unit, to, at_host(e, p->unit), &e->gather_free[g], &e->unit_state[p->unit].updated,
                       &e->gather_done[g]);
    return copy_in(e, p->unit, to, e->landed.address + p->fetch_offset, &e->gather_free[g], &e->fetch_done[g],
                   &e->gather_done[g]);
}

static zn_status submit(zn_engine *e, int g)
{
    const struct zn_gather_plan *p = &e->trace->gathers[g];
    const struct zn_unit *unit = &e->units.units[p->unit];
    zn_addr to = e->gathered.address + p->offset;
    size_t width = width_of_params(e);
    bool fetched = fetches_parameters(e);
    ZN_TRY(updates_reach(e, p->unit));
    if (e->n_ranks == 1) {
        ZN_TRY(bring(e, g, to));
        e->gather_pending[g] = true;
        return ZN_OK;
    }
    ZN_TRY(zn_device_record(e->device, &e->gather_free[g]));
    struct zn_gather gather = {
        .tag = {ZN_COMM_GATHER_PARAM, p->unit},
        .from = fetched ? &e->fetched.shared : &e->parameters.shared,
        .offset = fetched ? p->fetch_offset : (size_t)(unit->first / e->n_ranks) * width,
        .n_bytes = (size_t)unit->partition * width,
        .to = pointer_of(to),
        .after = {&e->gather_free[g], fetched ? &e->fetch_done[g] : &e->unit_state[p->unit].updated},
    };
    zn_event_reset(&e->gather_done[g]);
    ZN_TRY(zn_comm_gather(e->comm, &gather, &e->gather_done[g]));
    e->gather_pending[g] = true;
    return ZN_OK;
}

/* Moves along the trace to this use of the unit and issues what the plan issues by now. */
static zn_status advance(zn_engine *e, int unit)
{
    const zn_trace *t = e->trace;
    bool same = e->position >= 0 && !e->turn && t->units[e->position] == unit;
    e->turn = false;
    if (!same) {
        e->position++;
        if (e->position >= t->n_uses || t->units[e->position] != unit)
            return zn_fail(ZN_ERR_INTERNAL, "the program left its trace at use %d (unit %d)", e->position,
                           unit);
    }
    for (; fetches_parameters(e) && e->next_fetch < t->n_gathers && t->gathers[e->next_fetch].fetch <= e->position;
         e->next_fetch++)
        ZN_TRY(fetch(e, e->next_fetch));
    for (; e->next_gather < t->n_gathers && t->gathers[e->next_gather].issue <= e->position;
         e->next_gather++)
        ZN_TRY(submit(e, e->next_gather));
    return ZN_OK;
}

/* Whole units that are kept: the own part is updated, and those of the others have come. */
static zn_status wait_published(zn_engine *e, int unit)
{
    struct unit_state *us = &e->unit_state[unit];
    if (e->sweeping)
        ZN_TRY(zn_device_wait(e->device, &us->updated));
    if (!us->publishing)
        return ZN_OK;
    us->publishing = false;
    return zn_event_wait(&us->published, e->device->clock);
}

zn_status gathers_acquire(zn_engine *e, const struct zn_part *part, zn_addr *address)
{
    int unit = part->unit;
    size_t width = width_of_params(e);
    ZN_TRY(updates_follow(e, unit));
    ZN_TRY(update_moment(e, unit));
    if (e->recording_trace) {
        ZN_TRY(zn_trace_add(e->recording_trace, unit, e->turn));
        e->turn = false;
    }
    if (keeps_parameters(e)) {
        *address = whole_at(e, &e->parameters, width, part, 0);
        return wait_published(e, unit);
    }
    int64_t in_unit = part->place - e->units.units[unit].first;
    if (e->persistent_at[unit] >= 0) {
        *address = e->persistent.address + (zn_addr)(e->persistent_at[unit] + in_unit) * width;
        ZN_TRY(e->plan ? advance(e, unit) : ZN_OK);
        return wait_published(e, unit);
    }
    if (!e->plan) {
        *address = e->ids.address; /* on sim any address serves */
        return ZN_OK;
    }
    ZN_TRY(advance(e, unit));
    int g = e->trace->gather_of[e->position];
    if (e->gather_pending[g]) {
        e->gather_pending[g] = e->fetch_pending[g] = false;
        ZN_TRY(zn_device_wait(e->device, &e->gather_done[g]));
    }
    *address = e->gathered.address + e->trace->gathers[g].offset + (zn_addr)in_unit * width;
    return ZN_OK;
}

zn_status gathers_wait_published(zn_engine *e)
{
    for (int u = 0; u < e->units.n_units; u++)
        ZN_TRY(wait_published(e, u));
    return ZN_OK;
}

zn_status publish_unit(zn_engine *e, int unit)
{
    const struct zn_unit *u = &e->units.units[unit];
    struct unit_state *us = &e->unit_state[unit];
    bool kept = keeps_parameters(e);
    if (e->n_ranks == 1 || !e->plan || (!kept && e->persistent_at[unit] < 0) || u->n_elements == 0)
        return ZN_OK;
    size_t width = width_of_params(e);
    zn_addr to = kept ? e->parameters.address + (zn_addr)u->first * width
                      : e->persistent.address + (zn_addr)e->persistent_at[unit] * width;
    zn_addr from = partition_at(e, &e->parameters, width, kept, unit);
    struct zn_gather gather = {.tag = {ZN_COMM_GATHER_PARAM, unit},
                               .from = &e->parameters.shared,
                               .offset = (size_t)(from - e->parameters.address),
                               .n_bytes = (size_t)u->partition * width,
                               .to = (unsigned char *)(uintptr_t)to,
                               .after = {&us->updated}};
    ZN_TRY(wait_published(e, unit));
    zn_event_reset(&us->published);
    ZN_TRY(zn_comm_gather(e->comm, &gather, &us->published));
    us->publishing = true;
    return ZN_OK;
}
