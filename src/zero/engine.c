/* Making an engine, and ending it. */
#include "zero/engine.h"

#include <stdlib.h>

#include "schedule/verify.h"
#include "zero/engine_private.h"

/* The events of a unit that outlive a pass. */
enum { N_UNIT_EVENTS = 7 };

static void unit_events(struct unit_state *us, zn_event *events[N_UNIT_EVENTS])
{
    events[0] = &us->updated;
    events[1] = &us->published;
    events[2] = &us->prior_read;
    events[3] = &us->taken;
    events[4] = &us->stored;
    events[5] = &us->made;
    events[6] = &us->last_read;
}

static zn_status init_units(zn_engine *e)
{
    e->unit_state = calloc((size_t)e->units->n_units + 1, sizeof *e->unit_state);
    if (!e->unit_state)
        return zn_fail(ZN_ERR_MEMORY, "no memory for an engine");
    for (int u = 0; u < e->units->n_units; u++) {
        struct unit_state *us = &e->unit_state[u];
        zn_event *events[N_UNIT_EVENTS];
        us->engine = e;
        unit_events(us, events);
        for (int i = 0; i < N_UNIT_EVENTS; i++)
            zn_event_init(events[i]);
        zn_event_set(&us->updated, ZN_OK, NULL, 0);
    }
    return ZN_OK;
}

/* The plan is of such a device, and of so many ranks. */
static zn_status check_world(const zn_engine *e)
{
    bool is_discrete = e->placement->is_discrete;
    if (zn_device_is_discrete(e->device) != is_discrete || (is_discrete && e->host == e->device) ||
        (e->device->space == ZN_SPACE_DEVICE && !e->options.stages_comm) || e->placement->n_ranks != e->n_ranks)
        return zn_fail(ZN_ERR_INTERNAL, "the engine was not planned for such a device, or for %d ranks", e->n_ranks);
    if (e->plan->trace.n_slices != (e->tensor ? zn_comm_n_ranks(e->tensor) : 0))
        return zn_fail(ZN_ERR_INTERNAL, "the engine was not planned for such slices of parameters");
    if (e->device->space == ZN_SPACE_DEVICE && e->placement->is_delayed && !e->placement->states.on_host)
        return zn_fail(ZN_ERR_UNSUPPORTED, "--delayed-update hides an update on the host: on a device with memory of its own it needs "
                                           "--offload-optimizer cpu or nvme");
    return ZN_OK;
}

static zn_status build(zn_engine *e)
{
    ZN_TRY(check_world(e));
    if (!e->device->clock->is_virtual) /* a search plans many steps that are never run */
        ZN_TRY(zn_program_verify(e->plan));
    ZN_TRY(init_units(e));
    ZN_TRY(zn_tape_create(e->device, &zn_engine_hooks, e, e->placement->activation_type, &e->tape));
    if (!e->placement->trains)
        zn_tape_keep_fp32(e->tape);
    if (needs_updater(e))
        ZN_TRY(zn_stream_create_thread(e->device->clock, &e->updater));
    ZN_TRY(executor_init(e));
    ZN_TRY(alloc_buffers(e));
    ZN_TRY(matrices_init(e));
    return pipeline_init(e);
}

zn_status zn_zero_create(const struct zn_world *world, const zn_module *module, const struct zn_engine_options *options,
                         const zn_engine_plan *plan, zn_engine **engine)
{
    zn_engine *e = calloc(1, sizeof *e);
    if (!e)
        return zn_fail(ZN_ERR_MEMORY, "no memory for an engine");
    *e = (zn_engine){.device = world->device,
                     .host = world->host ? world->host : world->device,
                     .world = world->comm,
                     .comm = world->replica ? world->replica : world->comm,
                     .tensor = world->tensor,
                     .storage = world->storage,
                     .progress = world->progress,
                     .module = module,
                     .options = *options,
                     .plan = plan,
                     .placement = &plan->placement,
                     .units = &plan->units,
                     .offload = {.user = {-1, -1}},
                     .updates = {.next_publish = plan->units.n_units, .n_issued = plan->units.n_units}};
    e->rank = zn_comm_rank(e->comm);
    e->n_ranks = zn_comm_n_ranks(e->comm);
    e->slice = e->tensor ? zn_comm_rank(e->tensor) : 0;
    zn_event_init(&e->updates.before_pass);
    zn_event_init(&e->updates.pass_ended);
    zn_event_init(&e->matrices.ready);
    zn_event_init(&e->matrices.done);
    zn_status status = build(e);
    if (status != ZN_OK) {
        zn_comm_abort(e->comm, status); /* the others may be sharing memory that is not to be freed together */
        zn_zero_destroy(e);
        return status;
    }
    *engine = e;
    return ZN_OK;
}

/* Nothing may be under way into memory that is freed next, and no event may be waited for. */
static void quiesce(zn_engine *e)
{
    zn_stream_destroy(e->updater);
    e->device->ops->synchronize(e->device);
    executor_fini(e);
    for (int u = 0; e->unit_state && u < e->units->n_units; u++) {
        struct unit_state *us = &e->unit_state[u];
        zn_event *events[N_UNIT_EVENTS];
        if (us->publishing)
            zn_event_wait(&us->published, e->device->clock);
        if (us->storing)
            zn_event_wait(&us->stored, e->device->clock);
        if (us->marked)
            zn_event_wait(&us->updated, e->device->clock);
        unit_events(us, events);
        for (int i = 0; i < N_UNIT_EVENTS; i++)
            zn_event_fini(events[i]);
    }
    zn_event_fini(&e->updates.before_pass);
    zn_event_fini(&e->updates.pass_ended);
    zn_event_fini(&e->matrices.ready);
    zn_event_fini(&e->matrices.done);
    pipeline_fini(e);
    matrices_fini(e);
}

void zn_zero_destroy(zn_engine *e)
{
    if (!e)
        return;
    quiesce(e);
    free_buffers(e);
    zn_tape_destroy(e->tape);
    free(e->unit_state);
    free(e);
}
