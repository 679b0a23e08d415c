/* A stream runs tasks one after the other, in the order they were submitted.
 *
 *   inline   on the caller, at once
 *   thread   on a worker of its own, that sleeps when there is nothing to do
 *   virtual  not at all: a task takes `seconds` of virtual time, beginning when the stream is
 *            free, its dependencies are done and the clock has come to its submission */
#ifndef ZN_BASE_STREAM_H
#define ZN_BASE_STREAM_H

#include "base/clock.h"
#include "base/event.h"
#include "base/timeline.h"

typedef struct zn_stream zn_stream;

enum { ZN_TASK_AFTER = 4 };

struct zn_task {
    zn_status (*run)(void *arg); /* not called by a virtual stream */
    void *arg;                   /* belongs to the stream until `done` is set */
    double seconds;              /* what it takes in virtual time */
    zn_event *after[ZN_TASK_AFTER]; /* NULL-padded; a failed one fails the task unrun */
    zn_event *done;              /* set when the task ends, or could not be submitted; may be NULL */
    struct zn_mark mark;         /* where its time is noted */
};

zn_status zn_stream_create_inline(zn_clock *clock, zn_stream **stream);
zn_status zn_stream_create_thread(zn_clock *clock, zn_stream **stream);
zn_status zn_stream_create_virtual(zn_clock *clock, zn_stream **stream);

/* Virtual: the stream's tasks are done by cores that also do those of `cores`, another virtual stream: what one of them
 * takes there is added to that stream, as far as `part` says. Work of both is the time of both, whatever their order. */
void zn_stream_share(zn_stream *stream, zn_stream *cores, double part);

/* Runs what is queued, then ends. NULL is legal. */
void zn_stream_destroy(zn_stream *stream);

/* Does not block, except inline. Events mean their present use: they may be reset afterwards. The first failure of a task sticks to the stream. */
zn_status zn_stream_submit(zn_stream *stream, const struct zn_task *task);

/* Blocks until all that was submitted has ended; returns the stream's first failure. */
zn_status zn_stream_synchronize(zn_stream *stream);

#endif
