/* An event: the end of something asynchronous, with its status. A failed event fails what
 * depends on it.
 *
 * An event is used again and again. Each use has a ticket: a reset begins the next use, whoever will wait for an
 * event or end it takes the ticket when that is submitted, and a later reset changes nothing for them. The uses of an
 * event end in the order of their tickets; one that nobody ends, because a reset came first, has ended with the next. */
#ifndef ZN_BASE_EVENT_H
#define ZN_BASE_EVENT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/status.h"

typedef struct zn_event {
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t changed;
    uint64_t present; /* the ticket of the present use; the first is 1 */
    uint64_t ended;   /* the last that ended */
    uint64_t failed;  /* the last that failed, with `status` and `message`; 0: none */
    zn_status status;
    double time; /* when the last one ended, in the time of its clock */
    char *message; /* or NULL */
} zn_event;

/* One use of an event. */
struct zn_ticket {
    zn_event *event; /* NULL: nothing to wait for, and nobody to tell */
    uint64_t number;
};

/* A new event is pending until it is set. The caller owns the storage and calls fini. */
void zn_event_init(zn_event *event);
void zn_event_fini(zn_event *event);

/* Begins the next use: the event is pending. Tickets of the uses before it stay what they are. */
void zn_event_reset(zn_event *event);

/* The ticket of the present use; an empty one of NULL. */
struct zn_ticket zn_event_ticket(zn_event *event);

/* Ends the use. `message` is the failure's text, or NULL. */
void zn_ticket_set(struct zn_ticket ticket, zn_status status, const char *message, double time);

/* Whether the use has ended; sleeps for it no longer than `seconds`. */
bool zn_ticket_poll(struct zn_ticket ticket, double seconds);

/* Blocks until the use has ended; its failure, or that of a later use, becomes the caller's. A virtual clock moves on to
 * the event's time. */
zn_status zn_ticket_wait(struct zn_ticket ticket, zn_clock *clock);

/* The same for the present use. */
void zn_event_set(zn_event *event, zn_status status, const char *message, double time);
bool zn_event_poll(zn_event *event, double seconds);
zn_status zn_event_wait(zn_event *event, zn_clock *clock);

/* For a submission that failed: whoever waits for its event hears of the failure. Returns the status; ZN_OK, and an event
 * that is NULL, are left alone. */
zn_status zn_event_fail(zn_event *event, zn_status status);

#endif
