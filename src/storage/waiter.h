/* A thread that waits for the events that requests come after, so that nobody else has to. It sleeps
 * on the oldest request's event and looks at the others now and then: whatever the order in which
 * events are set, no request holds up another for long. */
#ifndef ZN_STORAGE_WAITER_H
#define ZN_STORAGE_WAITER_H

#include <pthread.h>

#include "storage/queue.h"

struct waiter {
    void (*ready)(void *self, struct queued *request); /* on the waiter's thread */
    void *self;
    pthread_t thread;
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t changed;
    struct queued *first, *last;
    bool ending;
};

zn_status waiter_init(struct waiter *waiter, void (*ready)(void *self, struct queued *request), void *self);

/* Blocks until every event it waits for is set and its request was handed on. */
void waiter_fini(struct waiter *waiter);

/* Whether what the request comes after is done; sleeps for each event no longer than `seconds`. */
bool waiter_may_begin(const struct queued *request, double seconds);

/* Does not block. The request, which has an `after`, belongs to the waiter until it is ready. */
void waiter_add(struct waiter *waiter, struct queued *request);

#endif
