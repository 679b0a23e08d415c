/* A device on a virtual clock. Nothing is moved: a request takes the device for bytes / rate, from the
 * moment it was asked for and what it comes after is done. It takes all free time from then on until
 * it has enough; who asked earlier for a later moment does not hold it up. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/private.h"

struct busy {
    double start, end;
};

struct sim {
    zn_storage head;
    zn_clock *clock;
    struct zn_sim_storage device;
    struct busy *busy; /* times that are taken: apart from each other, in order */
    size_t n, capacity;
};

/* Nothing begins before now, so what is over need not be kept. */
static void forget(struct sim *s)
{
    size_t n_over = 0;
    while (n_over < s->n && s->busy[n_over].end <= zn_clock_now(s->clock))
        n_over++;
    s->n -= n_over;
    memmove(s->busy, s->busy + n_over, s->n * sizeof *s->busy);
}

static zn_status make_room(struct sim *s)
{
    if (s->n < s->capacity)
        return ZN_OK;
    size_t capacity = 2 * s->capacity + 16;
    struct busy *larger = realloc(s->busy, capacity * sizeof *larger);
    if (!larger)
        return zn_fail(ZN_ERR_MEMORY, "no memory for the times of a simulated storage");
    s->busy = larger;
    s->capacity = capacity;
    return ZN_OK;
}

/* The first of those that do not end before `start`: most requests come late among many. */
static size_t find(const struct sim *s, double start)
{
    size_t low = 0, high = s->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->busy[middle].end < start)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Takes `seconds` of free time from `start` on and notes each piece; when they end. There is room for one more entry. */
static double take(struct sim *s, double start, double seconds, const struct zn_mark *mark)
{
    size_t first = find(s, start), next;
    struct busy taken = {start, start};
    for (next = first; next < s->n; next++) {
        const struct busy *b = &s->busy[next];
        if (b->start >= taken.end + seconds)
            break;
        zn_timeline_note(mark, taken.end, b->start);
        if (b->start > taken.end)
            seconds -= b->start - taken.end;
        if (b->start < taken.start)
            taken.start = b->start;
        taken.end = b->end > taken.end ? b->end : taken.end;
    }
    zn_timeline_note(mark, taken.end, taken.end + seconds);
    taken.end += seconds;
    /* From `start` to the end all is taken now: one entry instead of those it met. */
    memmove(s->busy + first + 1, s->busy + next, (s->n - next) * sizeof *s->busy);
    s->busy[first] = taken;
    s->n = s->n - (next - first) + 1;
    return taken.end;
}

static zn_status start(zn_storage *storage, const struct storage_request *r)
{
    struct sim *s = (struct sim *)storage;
    double begin = zn_clock_now(s->clock);
    ZN_TRY(make_room(s));
    const struct zn_ticket before[] = {r->after, r->also};
    for (int i = 0; i < 2; i++) {
        zn_clock still = *s->clock;
        zn_status status = zn_ticket_wait(before[i], &still);
        begin = still.virtual_now > begin ? still.virtual_now : begin;
        if (status != ZN_OK) {
            zn_ticket_set(r->done, status, zn_error_message(), begin);
            return ZN_OK;
        }
    }
    double rate = r->write ? s->device.write_bytes : s->device.read_bytes;
    forget(s);
    double end = r->n_bytes ? take(s, begin, (double)r->n_bytes / rate, &r->mark) : begin;
    zn_ticket_set(r->done, ZN_OK, NULL, end + s->device.latency);
    return ZN_OK;
}

static void destroy(zn_storage *storage)
{
    struct sim *s = (struct sim *)storage;
    free(s->busy);
    free(s);
}

static const struct storage_ops sim_ops = {
    .start = start,
    .destroy = destroy,
};

zn_status zn_storage_create_sim(zn_clock *clock, const struct zn_sim_storage *device, zn_storage **storage)
{
    if (!clock->is_virtual)
        return zn_fail(ZN_ERR_USAGE, "a simulated storage needs a virtual clock");
    if (!(device->read_bytes > 0) || !(device->write_bytes > 0) || !(device->latency >= 0))
        return zn_fail(ZN_ERR_USAGE, "a simulated storage needs rates above 0 and a latency, not %g B/s, %g B/s, %g s",
                       device->read_bytes, device->write_bytes, device->latency);
    struct sim *s = calloc(1, sizeof *s);
    if (!s)
        return zn_fail(ZN_ERR_MEMORY, "no memory for a storage");
    s->head = (zn_storage){.ops = &sim_ops, .n_bytes = device->n_bytes};
    snprintf(s->head.description, sizeof s->head.description, "sim, reads %.3g and writes %.3g GB/s",
             device->read_bytes / 1e9, device->write_bytes / 1e9);
    s->clock = clock;
    s->device = *device;
    *storage = &s->head;
    return ZN_OK;
}
