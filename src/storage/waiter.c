/* Waiting for other people's events. */
#include "storage/waiter.h"

/* How long an event that is not the first one's may go unseen: about as long as nothing happened, within
 * these bounds, so that a long wait costs next to nothing. */
static const double min_look_seconds = 0.25e-3, max_look_seconds = 8e-3;

/* Adds what came in to the end of the thread's own list; sleeps while both are empty. False at the
 * end. */
static bool collect(struct waiter *w, struct queued **mine)
{
    struct queued **end = mine;
    while (*end)
        end = &(*end)->next;
    pthread_mutex_lock(&w->lock);
    while (!*mine && !w->first && !w->ending)
        pthread_cond_wait(&w->changed, &w->lock);
    *end = w->first;
    w->first = w->last = NULL;
    pthread_mutex_unlock(&w->lock);
    return *mine != NULL;
}

bool waiter_may_begin(const struct queued *r, double seconds)
{
    return zn_ticket_poll(r->asked.after, seconds) && zn_ticket_poll(r->asked.also, seconds);
}

/* Hands on what is ready; sleeps on the first one's event. Whether there was any. */
static bool look(struct waiter *w, struct queued **mine, double seconds)
{
    bool found = false;
    for (struct queued **at = mine; *at;) {
        struct queued *r = *at;
        bool ready = waiter_may_begin(r, seconds);
        seconds = 0;
        if (ready) {
            *at = r->next;
            w->ready(w->self, r);
            found = true;
        } else {
            at = &r->next;
        }
    }
    return found;
}

static void *work(void *arg)
{
    struct waiter *w = arg;
    struct queued *mine = NULL;
    double seconds = min_look_seconds;
    while (collect(w, &mine)) {
        if (look(w, &mine, seconds))
            seconds = min_look_seconds;
        else if (seconds < max_look_seconds)
            seconds *= 2;
    }
    return NULL;
}

zn_status waiter_init(struct waiter *w, void (*ready)(void *self, struct queued *request), void *self)
{
    *w = (struct waiter){.ready = ready, .self = self};
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
    if (pthread_create(&w->thread, NULL, work, w) == 0)
        return ZN_OK;
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    return zn_fail(ZN_ERR_MEMORY, "cannot start a thread for the storage");
}

void waiter_fini(struct waiter *w)
{
    pthread_mutex_lock(&w->lock);
    w->ending = true;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
}

void waiter_add(struct waiter *w, struct queued *r)
{
    r->next = NULL;
    pthread_mutex_lock(&w->lock);
    if (w->last)
        w->last->next = r;
    else
        w->first = r;
    w->last = r;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}
