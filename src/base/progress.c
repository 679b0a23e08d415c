/* What is being done, behind a lock. The last things that ended are kept in a ring, so that a reader that looks now and then
 * misses none of the slow ones. */
#include "base/progress.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/status.h"

enum { KEPT = 32 };

struct zn_progress {
    pthread_mutex_t lock; /* guards all below */
    zn_clock clock;
    double began;
    struct zn_progress_view view;
    struct zn_activity ended[KEPT];
};

zn_status zn_progress_create(zn_progress **progress)
{
    zn_progress *p = calloc(1, sizeof *p);
    if (!p)
        return zn_fail(ZN_ERR_MEMORY, "no memory to show progress");
    pthread_mutex_init(&p->lock, NULL);
    zn_clock_init_real(&p->clock);
    *progress = p;
    return ZN_OK;
}

void zn_progress_destroy(zn_progress *p)
{
    if (!p)
        return;
    pthread_mutex_destroy(&p->lock);
    free(p);
}

static void begin(zn_progress *p, const struct zn_activity *next, int64_t step)
{
    double now = zn_clock_now(&p->clock);
    if (p->view.now.what) {
        p->view.now.seconds = now - p->began;
        p->ended[p->view.n_ended++ % KEPT] = p->view.now;
    }
    p->began = now;
    p->view.now = *next;
    p->view.place = (struct zn_step_place){.step = step};
}

static void begin_locked(zn_progress *p, const struct zn_activity *next, int64_t step)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    begin(p, next, step);
    pthread_mutex_unlock(&p->lock);
}

void zn_progress_begin(zn_progress *p, const char *what, const char *unit, int64_t total)
{
    begin_locked(p, &(struct zn_activity){.what = what, .unit = unit, .total = total}, 0);
}

void zn_progress_end(zn_progress *p)
{
    begin_locked(p, &(struct zn_activity){0}, 0);
}

void zn_progress_begin_step(zn_progress *p, int64_t step)
{
    begin_locked(p, &(struct zn_activity){.what = "step"}, step);
}

void zn_progress_set(zn_progress *p, int64_t done)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->view.now.done = done;
    pthread_mutex_unlock(&p->lock);
}

void zn_progress_add(zn_progress *p, int64_t n)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->view.now.done += n;
    pthread_mutex_unlock(&p->lock);
}

void zn_progress_place(zn_progress *p, const struct zn_step_place *place, int64_t done, int64_t total)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    if (p->view.place.step) { /* an evaluation runs the same passes, and is counted in windows */
        int64_t step = p->view.place.step;
        p->view.place = *place;
        p->view.place.step = step;
        p->view.now.done = done;
        p->view.now.total = total;
    }
    pthread_mutex_unlock(&p->lock);
}

void zn_progress_read(zn_progress *p, struct zn_progress_view *view)
{
    pthread_mutex_lock(&p->lock);
    *view = p->view;
    if (view->now.what)
        view->now.seconds = zn_clock_now(&p->clock) - p->began;
    pthread_mutex_unlock(&p->lock);
}

bool zn_progress_ended(zn_progress *p, uint64_t i, struct zn_activity *activity)
{
    pthread_mutex_lock(&p->lock);
    bool is_there = i < p->view.n_ended && i + KEPT >= p->view.n_ended;
    if (is_there)
        *activity = p->ended[i % KEPT];
    pthread_mutex_unlock(&p->lock);
    return is_there;
}
