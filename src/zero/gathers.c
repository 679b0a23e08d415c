/* Values of parameters for the operators: kept whole, persistent, or gathered along the trace. */
#include <stdlib.h>

#include "zero/engine_private.h"

zn_status gathers_init(zn_engine *e)
{
    if (!e->plan)
        return ZN_OK;
    int train = e->plan->train_trace.n_gathers, evaluate = e->plan->evaluate_trace.n_gathers;
    e->n_gather_events = train > evaluate ? train : evaluate;
    e->gather_done = calloc((size_t)e->n_gather_events + 1, sizeof *e->gather_done);
    e->gather_pending = calloc((size_t)e->n_gather_events + 1, sizeof *e->gather_pending);
    if (!e->gather_done || !e->gather_pending)
        return zn_fail(ZN_ERR_MEMORY, "no memory for an engine");
    for (int g = 0; g < e->n_gather_events; g++)
        zn_event_init(&e->gather_done[g]);
    return ZN_OK;
}

void gathers_fini(zn_engine *e)
{
    for (int g = 0; e->gather_done && e->gather_pending && g < e->n_gather_events; g++) {
        if (e->gather_pending[g])
            zn_event_wait(&e->gather_done[g], e->device->clock);
        zn_event_fini(&e->gather_done[g]);
    }
    free(e->gather_done);
    free(e->gather_pending);
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
    e->next_gather = 0;
    e->turn = false;
    return ZN_OK;
}

static zn_status submit(zn_engine *e, int g)
{
    const struct zn_gather_plan *p = &e->trace->gathers[g];
    const struct zn_unit *unit = &e->units.units[p->unit];
    size_t width = width_of_params(e);
    struct zn_gather gather = {
        .tag = {ZN_COMM_GATHER_PARAM, p->unit},
        .from = &e->parameters.shared,
        .offset = (size_t)(unit->first / e->n_ranks) * width,
        .n_bytes = (size_t)unit->partition * width,
        .to = (unsigned char *)(uintptr_t)(e->gathered.address + p->offset),
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
    for (; e->next_gather < t->n_gathers && t->gathers[e->next_gather].issue <= e->position;
         e->next_gather++)
        ZN_TRY(submit(e, e->next_gather));
    return ZN_OK;
}

static zn_status wait_published(zn_engine *e, int unit)
{
    struct unit_state *us = &e->unit_state[unit];
    if (!us->publishing)
        return ZN_OK;
    us->publishing = false;
    return zn_event_wait(&us->published, e->device->clock);
}

zn_status gathers_acquire(zn_engine *e, const zn_param *p, zn_addr *address)
{
    int unit = e->units.unit_of[p->index];
    size_t width = width_of_params(e);
    if (e->recording_trace) {
        ZN_TRY(zn_trace_add(e->recording_trace, unit, e->turn));
        e->turn = false;
    }
    if (keeps_parameters(e)) {
        *address = whole_at(e, &e->parameters, width, p, 0);
        return wait_published(e, unit);
    }
    int64_t in_unit = e->units.place_of[p->index] - e->units.units[unit].first;
    if (e->persistent_at[unit] >= 0) {
        *address = e->persistent.address + (zn_addr)(e->persistent_at[unit] + in_unit) * width;
        ZN_TRY(e->plan ? advance(e, unit) : ZN_OK);
        return wait_published(e, unit);
    }
    if (!e->plan) {
        *address = e->parameters.address; /* on sim any address serves */
        return ZN_OK;
    }
    ZN_TRY(advance(e, unit));
    int g = e->trace->gather_of[e->position];
    if (e->gather_pending[g]) {
        e->gather_pending[g] = false;
        ZN_TRY(zn_event_wait(&e->gather_done[g], e->device->clock));
    }
    *address = e->gathered.address + e->trace->gathers[g].offset + (zn_addr)in_unit * width;
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
                               .to = (unsigned char *)(uintptr_t)to};
    ZN_TRY(wait_published(e, unit));
    zn_event_reset(&us->published);
    ZN_TRY(zn_comm_gather(e->comm, &gather, &us->published));
    us->publishing = true;
    return ZN_OK;
}
