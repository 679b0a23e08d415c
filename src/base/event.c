/* Events on a mutex and a condition: whoever waits sleeps. */
#include "base/event.h"

#include <stdio.h>

void zn_event_init(zn_event *event)
{
    pthread_mutex_init(&event->lock, NULL);
    pthread_cond_init(&event->changed, NULL);
    event->done = false;
    event->status = ZN_OK;
    event->time = 0;
    event->message[0] = '\0';
}

void zn_event_fini(zn_event *event)
{
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
    snprintf(event->message, sizeof event->message, "%s", message ? message : "");
    pthread_cond_broadcast(&event->changed);
    pthread_mutex_unlock(&event->lock);
}

zn_status zn_event_wait(zn_event *event, zn_clock *clock)
{
    pthread_mutex_lock(&event->lock);
    while (!event->done)
        pthread_cond_wait(&event->changed, &event->lock);
    zn_status status = event->status;
    if (status != ZN_OK)
        zn_fail_text(status, event->message);
    zn_clock_advance(clock, event->time);
    pthread_mutex_unlock(&event->lock);
    return status;
}
