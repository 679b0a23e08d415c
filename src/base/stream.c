/* Streams: inline, on a worker thread, or in virtual time. */
#include "base/stream.h"

#include <stdio.h>
#include <stdlib.h>

enum kind { INLINE, THREAD, VIRTUAL };

/* A task with the uses of events that it was submitted for. */
struct queued {
    struct zn_task task;
    struct zn_ticket after[ZN_TASK_AFTER], done;
    struct queued *next;
};

struct zn_stream {
    enum kind kind;
    zn_clock *clock;
    double free_at; /* virtual: when the last task ends */
    zn_stream *cores; /* virtual: whose time its tasks take, too; NULL: nobody's */
    double part;
    pthread_t worker;
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t changed;
    struct queued *first, *last;
    struct queued spare; /* for a task without memory: what ends a job must not fail for want of it */
    bool busy, ending, spare_is_used;
    zn_status status; /* the first failure */
    char message[256];
};

static void note_failure(zn_stream *s, zn_status status)
{
    if (status != ZN_OK && s->status == ZN_OK) {
        s->status = status;
        snprintf(s->message, sizeof s->message, "%s", zn_error_message());
    }
}

/* Waits for the dependencies; virtual streams look at their times instead of moving the clock. */
static zn_status dependencies(zn_stream *s, const struct queued *q, double *start)
{
    for (int i = 0; i < ZN_TASK_AFTER && q->after[i].event; i++) {
        zn_clock still = *s->clock;
        ZN_TRY(zn_ticket_wait(q->after[i], &still));
        if (still.is_virtual && zn_clock_now(&still) > *start)
            *start = zn_clock_now(&still);
    }
    return ZN_OK;
}

/* Takes the time from the other stream, which has no task for it: it works on, but not on its own. */
static void take_cores(zn_stream *cores, double seconds, const struct zn_mark *mark)
{
    double begin = zn_clock_now(cores->clock);
    struct zn_mark there = {.timeline = mark->timeline, .track = ZN_TRACK_COMPUTE, .label = mark->label, .unit = -1};
    if (cores->free_at > begin)
        begin = cores->free_at;
    cores->free_at = begin + seconds;
    zn_timeline_note(&there, begin, cores->free_at);
}

static zn_status execute(zn_stream *s, const struct queued *q)
{
    const struct zn_task *task = &q->task;
    double begin = zn_clock_now(s->clock), end;
    if (s->kind == VIRTUAL && s->free_at > begin)
        begin = s->free_at;
    zn_status status = dependencies(s, q, &begin);
    if (s->kind == VIRTUAL) {
        end = begin + (status == ZN_OK ? task->seconds : 0); /* a task that does not run takes no time */
        s->free_at = end;
        if (s->cores && end > begin)
            take_cores(s->cores, (end - begin) * s->part, &task->mark);
    } else {
        begin = zn_clock_now(s->clock);
        if (status == ZN_OK && task->run)
            status = task->run(task->arg);
        end = zn_clock_now(s->clock);
    }
    zn_timeline_note(&task->mark, begin, end);
    zn_ticket_set(q->done, status, status == ZN_OK ? NULL : zn_error_message(), end);
    return status;
}

static void *work(void *arg)
{
    zn_stream *s = arg;
    pthread_mutex_lock(&s->lock);
    for (;;) {
        while (!s->first && !s->ending)
            pthread_cond_wait(&s->changed, &s->lock);
        struct queued *q = s->first;
        if (!q)
            break;
        s->first = q->next;
        if (!s->first)
            s->last = NULL;
        s->busy = true;
        pthread_mutex_unlock(&s->lock);
        zn_status status = execute(s, q);
        pthread_mutex_lock(&s->lock);
        if (q == &s->spare)
            s->spare_is_used = false;
        else
            free(q);
        note_failure(s, status);
        s->busy = false;
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static zn_status create(enum kind kind, zn_clock *clock, zn_stream **stream)
{
    zn_stream *s = calloc(1, sizeof *s);
    if (!s)
        return zn_fail(ZN_ERR_MEMORY, "no memory for a stream");
    s->kind = kind;
    s->clock = clock;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    if (kind == THREAD && pthread_create(&s->worker, NULL, work, s) != 0) {
        pthread_cond_destroy(&s->changed);
        pthread_mutex_destroy(&s->lock);
        free(s);
        return zn_fail(ZN_ERR_MEMORY, "cannot start a thread for a stream");
    }
    *stream = s;
    return ZN_OK;
}

zn_status zn_stream_create_inline(zn_clock *clock, zn_stream **stream)
{
    return create(INLINE, clock, stream);
}

zn_status zn_stream_create_thread(zn_clock *clock, zn_stream **stream)
{
    return create(THREAD, clock, stream);
}

zn_status zn_stream_create_virtual(zn_clock *clock, zn_stream **stream)
{
    return create(VIRTUAL, clock, stream);
}

void zn_stream_share(zn_stream *s, zn_stream *cores, double part)
{
    s->cores = cores;
    s->part = part;
}

void zn_stream_destroy(zn_stream *s)
{
    if (!s)
        return;
    if (s->kind == THREAD) {
        pthread_mutex_lock(&s->lock);
        s->ending = true;
        pthread_cond_broadcast(&s->changed);
        pthread_mutex_unlock(&s->lock);
        pthread_join(s->worker, NULL);
    }
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

zn_status zn_stream_submit(zn_stream *s, const struct zn_task *task)
{
    struct queued submitted = {.task = *task, .done = zn_event_ticket(task->done)};
    for (int i = 0; i < ZN_TASK_AFTER; i++)
        submitted.after[i] = zn_event_ticket(task->after[i]);
    if (s->kind != THREAD) {
        zn_status status = execute(s, &submitted);
        note_failure(s, status);
        return status;
    }
    struct queued *q = malloc(sizeof *q);
    pthread_mutex_lock(&s->lock);
    if (!q && !s->spare_is_used) {
        s->spare_is_used = true;
        q = &s->spare;
    }
    if (!q) {
        pthread_mutex_unlock(&s->lock);
        return zn_event_fail(task->done, zn_fail(ZN_ERR_MEMORY, "no memory for a task"));
    }
    *q = submitted;
    if (s->last)
        s->last->next = q;
    else
        s->first = q;
    s->last = q;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    return ZN_OK;
}

zn_status zn_stream_synchronize(zn_stream *s)
{
    pthread_mutex_lock(&s->lock);
    while (s->first || s->busy)
        pthread_cond_wait(&s->changed, &s->lock);
    zn_status status = s->status;
    if (status != ZN_OK)
        zn_fail_text(status, s->message);
    pthread_mutex_unlock(&s->lock);
    zn_clock_advance(s->clock, s->free_at);
    return status;
}
