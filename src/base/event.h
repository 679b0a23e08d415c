/* An event: the end of something asynchronous, with its status. A failed event fails what
 * depends on it. */
#ifndef ZN_BASE_EVENT_H
#define ZN_BASE_EVENT_H

#include <pthread.h>
#include <stdbool.h>

#include "base/clock.h"
#include "base/status.h"

typedef struct zn_event {
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t changed;
    bool done;
    zn_status status;
    double time; /* when it was done, in the time of its clock */
    char *message; /* of a failure, or NULL */
} zn_event;

/* A new event is pending until it is set. The caller owns the storage and calls fini. */
void zn_event_init(zn_event *event);
void zn_event_fini(zn_event *event);

/* Makes a done event pending again. */
void zn_event_reset(zn_event *event);

/* Ends the event. `message` is the failure's text, or NULL. */
void zn_event_set(zn_event *event, zn_status status, const char *message, double time);

/* For a submission that failed: whoever waits for its event hears of the failure. Returns the status; ZN_OK, and an event
 * that is NULL, are left alone. */
zn_status zn_event_fail(zn_event *event, zn_status status);

/* Whether the event is set; sleeps for it no longer than `seconds`. */
bool zn_event_poll(zn_event *event, double seconds);

/* Blocks until the event is set; its failure becomes the caller's. A virtual clock moves on to
 * the event's time. */
zn_status zn_event_wait(zn_event *event, zn_clock *clock);

#endif
