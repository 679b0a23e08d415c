/* Noting, and measuring what was noted. */
#include "base/timeline_private.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *zn_track_name(zn_track track)
{
    static const char *const names[] = {"compute", "host compute", "copy out", "copy in", "communication", "nvme"};
    return names[track];
}

zn_status zn_timeline_create(bool keeps_spans, zn_timeline **timeline)
{
    zn_timeline *t = calloc(1, sizeof *t);
    if (!t)
        return zn_fail(ZN_ERR_MEMORY, "no memory for a time line");
    t->keeps_spans = keeps_spans;
    pthread_mutex_init(&t->lock, NULL);
    *timeline = t;
    return ZN_OK;
}

void zn_timeline_destroy(zn_timeline *t)
{
    if (!t)
        return;
    for (int i = 0; i < ZN_N_TRACKS; i++)
        free(t->track[i].times);
    free(t->spans);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

/* Room for one more of `size` bytes. */
static bool grow(void **items, size_t n, size_t *capacity, size_t size)
{
    if (n < *capacity)
        return true;
    size_t more = *capacity ? 2 * *capacity : 64;
    void *larger = more > SIZE_MAX / size ? NULL : realloc(*items, more * size);
    if (!larger)
        return false;
    *items = larger;
    *capacity = more;
    return true;
}

/* ---- Noting ---- */

static void forget_times(zn_timeline *t, int track, double from)
{
    struct busy *times = t->track[track].times;
    size_t n_over = 0;
    while (n_over < t->track[track].n && times[n_over].end <= from)
        n_over++;
    t->track[track].n -= n_over;
    if (n_over)
        memmove(times, times + n_over, t->track[track].n * sizeof *times);
}

void zn_timeline_start(zn_timeline *t, double from)
{
    size_t n = 0;
    if (!t)
        return;
    pthread_mutex_lock(&t->lock);
    for (int i = 0; i < ZN_N_TRACKS; i++)
        forget_times(t, i, from);
    for (size_t i = 0; i < t->n_spans; i++)
        if (t->spans[i].end > from)
            t->spans[n++] = t->spans[i];
    t->n_spans = n;
    pthread_mutex_unlock(&t->lock);
    atomic_store(&t->is_on, true);
}

void zn_timeline_stop(zn_timeline *t)
{
    if (t)
        atomic_store(&t->is_on, false);
}

/* The first of the track's times that does not end before `begin`. */
static size_t find(const struct busy *times, size_t n, double begin)
{
    size_t low = 0, high = n;
    if (n == 0 || times[n - 1].end < begin)
        return n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (times[middle].end < begin)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Work that follows on work without a gap makes one time of both. */
static bool add_time(zn_timeline *t, zn_track track, struct busy new)
{
    size_t n = t->track[track].n;
    if (!grow((void **)&t->track[track].times, n, &t->track[track].capacity, sizeof new))
        return false;
    struct busy *times = t->track[track].times;
    size_t first = find(times, n, new.begin), next = first;
    for (; next < n && times[next].begin <= new.end; next++) {
        new.begin = fmin(new.begin, times[next].begin);
        new.end = fmax(new.end, times[next].end);
    }
    memmove(times + first + 1, times + next, (n - next) * sizeof *times);
    times[first] = new;
    t->track[track].n = n - (next - first) + 1;
    return true;
}

static bool add_span(zn_timeline *t, const struct zn_mark *m, double begin, double end)
{
    if (!t->keeps_spans)
        return true;
    if (!grow((void **)&t->spans, t->n_spans, &t->spans_capacity, sizeof *t->spans))
        return false;
    t->spans[t->n_spans++] = (struct span){
        .label = m->label, .begin = begin, .end = end, .n_bytes = m->n_bytes, .unit = m->unit, .track = m->track};
    return true;
}

void zn_timeline_note(const struct zn_mark *m, double begin, double end)
{
    zn_timeline *t = m->timeline;
    if (!t || !(end > begin) || !atomic_load(&t->is_on))
        return;
    pthread_mutex_lock(&t->lock);
    if (!add_time(t, m->track, (struct busy){begin, end}) || !add_span(t, m, begin, end))
        t->lacks_memory = true;
    pthread_mutex_unlock(&t->lock);
}

zn_status zn_timeline_status(zn_timeline *t)
{
    pthread_mutex_lock(&t->lock);
    bool lacks_memory = t->lacks_memory;
    pthread_mutex_unlock(&t->lock);
    return lacks_memory ? zn_fail(ZN_ERR_MEMORY, "no memory for the time line of a step") : ZN_OK;
}

/* ---- Measuring ---- */

/* Of the tracks of a set at a moment: whether one works. *until becomes earlier where one of them begins or ends
 * before it. */
static bool works(const zn_timeline *t, unsigned set, double moment, size_t next[ZN_N_TRACKS], double *until)
{
    bool one = false;
    for (int i = 0; i < ZN_N_TRACKS; i++) {
        if (!(set & ZN_TRACK_BIT(i)))
            continue;
        const struct busy *times = t->track[i].times;
        while (next[i] < t->track[i].n && times[next[i]].end <= moment)
            next[i]++;
        if (next[i] == t->track[i].n)
            continue;
        bool begun = times[next[i]].begin <= moment;
        one |= begun;
        *until = fmin(*until, begun ? times[next[i]].end : times[next[i]].begin);
    }
    return one;
}

double zn_timeline_measure(zn_timeline *t, unsigned working, unsigned idle, double begin, double end)
{
    size_t next[ZN_N_TRACKS] = {0};
    double sum = 0;
    pthread_mutex_lock(&t->lock);
    for (double now = begin, until; now < end; now = until) {
        until = end;
        bool one = works(t, working, now, next, &until);
        if (!works(t, idle, now, next, &until) && one)
            sum += until - now;
    }
    pthread_mutex_unlock(&t->lock);
    return sum;
}
