/* Events on a mutex and a condition: whoever waits sleeps. */
#include "base/event.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void zn_event_init(zn_event *event)
{
    pthread_mutex_init(&event->lock, NULL);
    pthread_condattr_t attributes; /* zn_event_poll counts time that nobody sets back */
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&event->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    event->done = false;
    event->status = ZN_OK;
    event->time = 0;
    event->message = NULL;
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
    event->done = false;
    pthread_mutex_unlock(&event->lock);
}

void zn_event_set(zn_event *event, zn_status status, const char *message, double time)
{
    pthread_mutex_lock(&event->lock);
    event->done = true;
    event->status = status;
    event->time = time;
    free(event->message);
    event->message = status != ZN_OK && message ? strdup(message) : NULL;
    pthread_cond_broadcast(&event->changed);
    pthread_mutex_unlock(&event->lock);
}

zn_status zn_event_fail(zn_event *event, zn_status status)
{
    if (event && status != ZN_OK)
        zn_event_set(event, status, zn_error_message(), 0);
    return status;
}

bool zn_event_poll(zn_event *event, double seconds)
{
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    int64_t nanoseconds = end.tv_nsec + (int64_t)(seconds * 1e9);
    end.tv_sec += (time_t)(nanoseconds / 1000000000);
    end.tv_nsec = (long)(nanoseconds % 1000000000);
    pthread_mutex_lock(&event->lock);
    int result = 0;
    while (!event->done && seconds > 0 && result != ETIMEDOUT)
        result = pthread_cond_timedwait(&event->changed, &event->lock, &end);
    bool done = event->done;
    pthread_mutex_unlock(&event->lock);
    return done;
}

zn_status zn_event_wait(zn_event *event, zn_clock *clock)
{
    pthread_mutex_lock(&event->lock);
    while (!event->done)
        pthread_cond_wait(&event->changed, &event->lock);
    zn_status status = event->status;
    if (status != ZN_OK)
        zn_fail_text(status, event->message ? event->message : "");
    zn_clock_advance(clock, event->time);
    pthread_mutex_unlock(&event->lock);
    return status;
}
