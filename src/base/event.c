/* Events on a mutex and a condition: whoever waits sleeps. */
#include "base/event.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void zn_event_init(zn_event *event)
{
    *event = (zn_event){.present = 1};
    pthread_mutex_init(&event->lock, NULL);
    pthread_condattr_t attributes; /* zn_ticket_poll counts time that nobody sets back */
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&event->changed, &attributes);
    pthread_condattr_destroy(&attributes);
}

void zn_event_fini(zn_event *event)
{
    free(event->message);
    pthread_cond_destroy(&event->changed);
    pthread_mutex_destroy(&event->lock);
}

void zn_event_reset(zn_event *event)
{
    pthread_mutex_lock(&event->lock);
    event->present++;
    pthread_mutex_unlock(&event->lock);
}

struct zn_ticket zn_event_ticket(zn_event *event)
{
    struct zn_ticket ticket = {.event = event};
    if (!event)
        return ticket;
    pthread_mutex_lock(&event->lock);
    ticket.number = event->present;
    pthread_mutex_unlock(&event->lock);
    return ticket;
}

/* A failure stays with its ticket when later uses end well: who comes late to wait for it hears of it. */
void zn_ticket_set(struct zn_ticket ticket, zn_status status, const char *message, double time)
{
    zn_event *event = ticket.event;
    if (!event)
        return;
    pthread_mutex_lock(&event->lock);
    if (ticket.number >= event->ended) {
        event->ended = ticket.number;
        event->time = time;
    }
    if (status != ZN_OK && ticket.number >= event->failed) {
        event->failed = ticket.number;
        event->status = status;
        free(event->message);
        event->message = message ? strdup(message) : NULL;
    }
    pthread_cond_broadcast(&event->changed);
    pthread_mutex_unlock(&event->lock);
}

bool zn_ticket_poll(struct zn_ticket ticket, double seconds)
{
    zn_event *event = ticket.event;
    if (!event)
        return true;
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    int64_t nanoseconds = end.tv_nsec + (int64_t)(seconds * 1e9);
    end.tv_sec += (time_t)(nanoseconds / 1000000000);
    end.tv_nsec = (long)(nanoseconds % 1000000000);
    pthread_mutex_lock(&event->lock);
    int result = 0;
    while (event->ended < ticket.number && seconds > 0 && result != ETIMEDOUT)
        result = pthread_cond_timedwait(&event->changed, &event->lock, &end);
    bool done = event->ended >= ticket.number;
    pthread_mutex_unlock(&event->lock);
    return done;
}

zn_status zn_ticket_wait(struct zn_ticket ticket, zn_clock *clock)
{
    zn_event *event = ticket.event;
    if (!event)
        return ZN_OK;
    pthread_mutex_lock(&event->lock);
    while (event->ended < ticket.number)
        pthread_cond_wait(&event->changed, &event->lock);
    zn_status status = event->failed >= ticket.number ? event->status : ZN_OK;
    if (status != ZN_OK)
        zn_fail_text(status, event->message ? event->message : "");
    zn_clock_advance(clock, event->time);
    pthread_mutex_unlock(&event->lock);
    return status;
}

void zn_event_set(zn_event *event, zn_status status, const char *message, double time)
{
    zn_ticket_set(zn_event_ticket(event), status, message, time);
}

bool zn_event_poll(zn_event *event, double seconds)
{
    return zn_ticket_poll(zn_event_ticket(event), seconds);
}

zn_status zn_event_wait(zn_event *event, zn_clock *clock)
{
    return zn_ticket_wait(zn_event_ticket(event), clock);
}

zn_status zn_event_fail(zn_event *event, zn_status status)
{
    if (event && status != ZN_OK)
        zn_event_set(event, status, zn_error_message(), 0);
    return status;
}
