/* A device with memory of its own, on any driver.
 *
 * Kernels go to the driver's queue from a thread of the compute stream, so that a wait for an event of somebody else holds up
 * that thread and not the engine. Ends are told by another thread, in order: it waits for marks of the queue while the first
 * goes on launching. Each lane of copies has a thread and a queue. A failed launch or copy fails every end that comes after it.
 *
 * Marks that are not reached yet stand in a list with the events they will end. A queue that must wait for one of these is told so by
 * the driver, and its thread goes on. An end is told after the events that it waited for have been, so that who has one may free them. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "device/discrete/driver.h"

struct lane {
    zn_stream *stream;
    zn_driver_queue *queue;
};

/* A mark, and the use of an event that its end sets. */
struct pending {
    struct zn_ticket done;
    zn_driver_mark *mark;
    struct pending *next;
};

struct discrete {
    zn_device device;
    zn_driver *driver;
    struct lane compute, lanes[ZN_N_LANES];
    pthread_mutex_t lock;    /* guards the list */
    struct pending *pending; /* marks of this device that are not reached yet */
    zn_stream *ends;  /* tells of the compute queue's marks */
    zn_status status; /* of the compute queue: the first failure; only the compute stream's thread has it */
    char message[256];
};

/* A call of the compute stream: launches, or nothing but the mark that follows. */
struct call {
    struct discrete *on;
    struct zn_launch_list list;
};

struct end {
    struct discrete *on;
    struct pending pending; /* its mark is NULL where it could not be made */
    zn_event made;
};

struct copy {
    struct discrete *on;
    struct zn_transfer transfer;
    struct zn_ticket after[2], done;
    zn_lane lane;
};

/* What is launched from now on waits for an event of somebody else. */
struct foreign {
    struct discrete *on;
    struct zn_ticket event;
};

static void add_pending(struct discrete *d, struct pending *p)
{
    pthread_mutex_lock(&d->lock);
    p->next = d->pending;
    d->pending = p;
    pthread_mutex_unlock(&d->lock);
}

static void remove_pending(struct discrete *d, struct pending *p)
{
    pthread_mutex_lock(&d->lock);
    struct pending **at = &d->pending;
    while (*at && *at != p)
        at = &(*at)->next;
    if (*at)
        *at = p->next;
    pthread_mutex_unlock(&d->lock);
}

/* What the queue is given from now on begins after the use of an event: by the driver where the event's mark is known, else the
 * calling thread waits. */
static zn_status follow_ticket(struct discrete *d, zn_driver_queue *queue, struct zn_ticket ticket)
{
    const struct zn_driver_ops *ops = d->driver->ops;
    zn_status status = ZN_OK;
    bool is_told = false;
    if (!ticket.event)
        return ZN_OK;
    pthread_mutex_lock(&d->lock);
    for (const struct pending *p = ops->follow ? d->pending : NULL; p && !is_told; p = p->next)
        if (p->done.event == ticket.event && p->done.number == ticket.number) {
            status = ops->follow(d->driver, queue, p->mark);
            is_told = true;
        }
    pthread_mutex_unlock(&d->lock);
    return is_told ? status : zn_ticket_wait(ticket, d->device.clock);
}

/* On the compute stream's thread: the first failure stays. */
static zn_status note_status(struct discrete *d, zn_status status)
{
    if (d->status != ZN_OK)
        return zn_fail_text(d->status, d->message);
    d->status = status;
    if (status != ZN_OK)
        strncpy(d->message, zn_error_message(), sizeof d->message - 1);
    return status;
}

static zn_status start(struct discrete *d, const struct zn_launch *launch)
{
    const struct zn_driver_ops *ops = d->driver->ops;
    struct zn_copy_args copy;
    struct zn_zero_args zero;
    switch (launch->kernel) {
    case ZN_LAUNCH_ZERO:
        memcpy(&zero, launch->args, sizeof zero);
        return ops->zero(d->driver, d->compute.queue, zero.dst, (size_t)zero.n_bytes);
    case ZN_LAUNCH_COPY:
        memcpy(&copy, launch->args, sizeof copy);
        return ops->copy(d->driver, d->compute.queue, copy.dst, copy.src, (size_t)copy.n_bytes);
    default:
        return ops->launch(d->driver, d->compute.queue, launch);
    }
}

static zn_status launch_all(void *arg)
{
    struct call *call = arg;
    struct discrete *d = call->on;
    for (int i = 0; i < call->list.n && d->status == ZN_OK; i++)
        note_status(d, start(d, &call->list.launches[i]));
    free(call);
    return note_status(d, ZN_OK);
}

static zn_status discrete_run(zn_device *device, zn_kernel kernel, const void *args)
{
    struct discrete *d = (struct discrete *)device;
    struct call *call = malloc(sizeof *call);
    if (!call)
        return zn_fail(ZN_ERR_MEMORY, "no memory to launch a kernel");
    call->on = d;
    zn_status status = zn_launch_plan(kernel, args, &call->list);
    if (status == ZN_OK && call->list.n > 0) {
        status = zn_stream_submit(d->compute.stream, &(struct zn_task){.run = launch_all, .arg = call});
        if (status == ZN_OK)
            return ZN_OK;
    }
    free(call);
    return status;
}

static zn_status make_mark(void *arg)
{
    struct end *end = arg;
    struct discrete *d = end->on;
    ZN_TRY(note_status(d, ZN_OK));
    zn_status status = note_status(d, d->driver->ops->mark(d->driver, d->compute.queue, &end->pending.mark));
    if (end->pending.mark)
        add_pending(d, &end->pending);
    return status;
}

/* Blocks until a mark of the list is reached. Others may follow it meanwhile: it is freed after it has left the list. */
static zn_status end_pending(struct discrete *d, struct pending *p)
{
    zn_status status = d->driver->ops->wait(d->driver, p->mark);
    remove_pending(d, p);
    d->driver->ops->free_mark(d->driver, p->mark);
    return status;
}

/* On the thread that tells of ends; the event that the mark was made is waited for here, so that `end` is freed in any case. */
static zn_status reach_mark(void *arg)
{
    struct end *end = arg;
    struct discrete *d = end->on;
    zn_status status = zn_event_wait(&end->made, d->device.clock);
    if (end->pending.mark)
        status = end_pending(d, &end->pending);
    zn_event_fini(&end->made);
    free(end);
    return status;
}

static zn_status discrete_record(zn_device *device, zn_event *done)
{
    struct discrete *d = (struct discrete *)device;
    struct end *end = calloc(1, sizeof *end);
    if (!end)
        return zn_fail(ZN_ERR_MEMORY, "no memory for the end of kernels");
    end->on = d;
    end->pending.done = zn_event_ticket(done);
    zn_event_init(&end->made);
    zn_status status = zn_stream_submit(d->compute.stream, &(struct zn_task){.run = make_mark, .arg = end, .done = &end->made});
    if (status != ZN_OK) {
        zn_event_fini(&end->made);
        free(end);
        return status;
    }
    return zn_stream_submit(d->ends, &(struct zn_task){.run = reach_mark, .arg = end, .done = done});
}

static zn_status wait_foreign(void *arg)
{
    struct foreign *foreign = arg;
    struct discrete *d = foreign->on;
    zn_status status = follow_ticket(d, d->compute.queue, foreign->event);
    free(foreign);
    return note_status(d, status);
}

static zn_status discrete_wait(zn_device *device, zn_event *event)
{
    struct discrete *d = (struct discrete *)device;
    struct foreign *foreign = malloc(sizeof *foreign);
    if (!foreign)
        return zn_fail(ZN_ERR_MEMORY, "no memory to wait for an event");
    *foreign = (struct foreign){d, zn_event_ticket(event)};
    zn_status status = zn_stream_submit(d->compute.stream, &(struct zn_task){.run = wait_foreign, .arg = foreign});
    if (status != ZN_OK) {
        free(foreign);
        return status;
    }
    return d->driver->ops->follow ? zn_stream_submit(d->ends, &(struct zn_task){.after = {event}}) : ZN_OK;
}

static zn_status discrete_synchronize(zn_device *device)
{
    zn_event done;
    zn_event_init(&done);
    zn_status status = discrete_record(device, &done);
    if (status == ZN_OK)
        status = zn_event_wait(&done, device->clock);
    zn_event_fini(&done);
    return status;
}

/* Queues a copy and waits for its end, the end of event `done`. */
static zn_status finish_copy(struct discrete *d, zn_driver_queue *queue, const struct zn_transfer *t, bool is_out,
                             struct zn_ticket done)
{
    const struct zn_driver_ops *ops = d->driver->ops;
    struct pending end = {.done = done};
    zn_status status = is_out ? ops->read(d->driver, queue, (void *)(uintptr_t)t->to, t->from, t->n_bytes)
                              : ops->write(d->driver, queue, t->to, (const void *)(uintptr_t)t->from, t->n_bytes);
    if (status == ZN_OK)
        status = ops->mark(d->driver, queue, &end.mark);
    if (!end.mark)
        return status;
    add_pending(d, &end);
    zn_status ended = end_pending(d, &end);
    return status != ZN_OK ? status : ended;
}

static zn_status run_copy(void *arg)
{
    struct copy *copy = arg;
    struct discrete *d = copy->on;
    const struct zn_transfer *t = &copy->transfer;
    bool is_out = zn_lane_is_out(copy->lane);
    zn_driver_queue *queue = d->lanes[copy->lane].queue;
    zn_status status = ZN_OK;
    for (int i = 0; i < 2 && status == ZN_OK; i++)
        status = follow_ticket(d, queue, copy->after[i]);
    double begin = zn_clock_now(d->device.clock);
    if (status == ZN_OK && t->n_bytes)
        status = finish_copy(d, queue, t, is_out, copy->done);
    for (int i = 0; i < 2 && status == ZN_OK; i++)
        status = copy->after[i].event ? zn_ticket_wait(copy->after[i], d->device.clock) : ZN_OK;
    const struct zn_mark mark = {.timeline = d->device.timeline,
                                 .track = is_out ? ZN_TRACK_COPY_OUT : ZN_TRACK_COPY_IN,
                                 .label = "copy",
                                 .n_bytes = t->n_bytes};
    zn_timeline_note(&mark, begin, zn_clock_now(d->device.clock));
    free(copy);
    return status;
}

static zn_status discrete_copy(zn_device *device, zn_lane lane, const struct zn_transfer *t)
{
    struct discrete *d = (struct discrete *)device;
    struct copy *copy = malloc(sizeof *copy);
    if (!copy)
        return zn_fail(ZN_ERR_MEMORY, "no memory for a copy");
    *copy = (struct copy){.on = d,
                          .transfer = *t,
                          .after = {zn_event_ticket(t->after[0]), zn_event_ticket(t->after[1])},
                          .done = zn_event_ticket(t->done),
                          .lane = lane};
    zn_status status =
        zn_stream_submit(d->lanes[lane].stream, &(struct zn_task){.run = run_copy, .arg = copy, .done = t->done});
    if (status != ZN_OK)
        free(copy);
    return status;
}

static zn_status discrete_write(zn_device *device, zn_addr dst, const void *src, size_t n_bytes)
{
    struct discrete *d = (struct discrete *)device;
    const struct zn_transfer t = {.to = dst, .from = (zn_addr)(uintptr_t)src, .n_bytes = n_bytes};
    ZN_TRY(discrete_synchronize(device));
    return n_bytes ? finish_copy(d, d->compute.queue, &t, false, (struct zn_ticket){0}) : ZN_OK;
}

static zn_status discrete_read(zn_device *device, void *dst, zn_addr src, size_t n_bytes)
{
    struct discrete *d = (struct discrete *)device;
    const struct zn_transfer t = {.to = (zn_addr)(uintptr_t)dst, .from = src, .n_bytes = n_bytes};
    ZN_TRY(discrete_synchronize(device));
    return n_bytes ? finish_copy(d, d->compute.queue, &t, true, (struct zn_ticket){0}) : ZN_OK;
}

static zn_status discrete_alloc(zn_device *device, size_t n_bytes, zn_addr *address)
{
    zn_driver *driver = ((struct discrete *)device)->driver;
    return driver->ops->alloc(driver, n_bytes, address);
}

/* Nothing on its way uses the memory: who frees has waited for it. */
static void discrete_free(zn_device *device, zn_addr address, size_t n_bytes)
{
    zn_driver *driver = ((struct discrete *)device)->driver;
    driver->ops->free(driver, address, n_bytes);
}

static void discrete_pin(zn_device *device, struct zn_extent memory)
{
    zn_driver *driver = ((struct discrete *)device)->driver;
    void *pointer;
    if (driver->ops->pin && zn_extent_pointer(memory, memory.n_bytes, "pinning", &pointer) == ZN_OK)
        driver->ops->pin(driver, pointer, memory.n_bytes);
}

static void discrete_unpin(zn_device *device, struct zn_extent memory)
{
    zn_driver *driver = ((struct discrete *)device)->driver;
    void *pointer;
    if (driver->ops->pin && zn_extent_pointer(memory, memory.n_bytes, "pinning", &pointer) == ZN_OK)
        driver->ops->unpin(driver, pointer);
}

static void discrete_destroy(zn_device *device)
{
    struct discrete *d = (struct discrete *)device;
    zn_stream_destroy(d->compute.stream); /* before the ends, which wait for what it makes */
    zn_stream_destroy(d->ends);
    d->driver->ops->destroy_queue(d->driver, d->compute.queue);
    for (int lane = 0; lane < ZN_N_LANES; lane++) {
        zn_stream_destroy(d->lanes[lane].stream);
        d->driver->ops->destroy_queue(d->driver, d->lanes[lane].queue);
    }
    d->driver->ops->destroy(d->driver);
    pthread_mutex_destroy(&d->lock);
    free(d);
}

static zn_status create_lane(struct discrete *d, struct lane *lane, bool launches)
{
    ZN_TRY(zn_stream_create_thread(d->device.clock, &lane->stream));
    return d->driver->ops->create_queue(d->driver, launches, &lane->queue);
}

zn_status zn_device_create_discrete(zn_driver *driver, zn_ledger *ledger, zn_clock *clock, zn_device **device)
{
    static const struct zn_device_ops ops = {.name = "discrete",
                                             .destroy = discrete_destroy,
                                             .alloc = discrete_alloc,
                                             .free = discrete_free,
                                             .write = discrete_write,
                                             .read = discrete_read,
                                             .run = discrete_run,
                                             .synchronize = discrete_synchronize,
                                             .record = discrete_record,
                                             .wait = discrete_wait,
                                             .copy = discrete_copy,
                                             .pin = discrete_pin,
                                             .unpin = discrete_unpin};
    struct discrete *d = calloc(1, sizeof *d);
    if (!d) {
        driver->ops->destroy(driver);
        return zn_fail(ZN_ERR_MEMORY, "no memory for a device");
    }
    d->device = (zn_device){.ops = &ops, .space = ZN_SPACE_DEVICE, .ledger = ledger, .clock = clock};
    d->driver = driver;
    pthread_mutex_init(&d->lock, NULL);
    zn_status status = create_lane(d, &d->compute, true);
    if (status == ZN_OK)
        status = zn_stream_create_thread(clock, &d->ends);
    for (int lane = 0; lane < ZN_N_LANES && status == ZN_OK; lane++)
        status = create_lane(d, &d->lanes[lane], false);
    if (status != ZN_OK) {
        discrete_destroy(&d->device);
        return status;
    }
    *device = &d->device;
    return ZN_OK;
}
