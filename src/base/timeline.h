/* A time line: which part of a world works on what, and when, in the time of its clock.
 *
 * Tracks are the parts that work side by side. What is noted comes from the streams and threads that do the work, so
 * all functions may be called from any thread. Where there is no time line a note costs one comparison. */
#ifndef ZN_BASE_TIMELINE_H
#define ZN_BASE_TIMELINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef enum zn_track {
    ZN_TRACK_COMPUTE,  /* of the device */
    ZN_TRACK_HOST,     /* updates on the host beside the device */
    ZN_TRACK_COPY_OUT, /* from a device with memory of its own to the host */
    ZN_TRACK_COPY_IN,
    ZN_TRACK_COMM,
    ZN_TRACK_NVME,
    ZN_N_TRACKS
} zn_track;

const char *zn_track_name(zn_track track);

typedef struct zn_timeline zn_timeline;

/* Where and as what a piece of work is noted; all zero: nowhere. */
struct zn_mark {
    zn_timeline *timeline; /* NULL: nowhere */
    zn_track track;
    const char *label; /* lives as long as the program */
    int unit;          /* of communication; -1: none */
    uint64_t n_bytes;  /* that it moves; 0: not told */
};

/* Without spans only when each track worked is kept, which takes little memory. The caller destroys it, after all who
 * note in it. */
zn_status zn_timeline_create(bool keeps_spans, zn_timeline **timeline);
void zn_timeline_destroy(zn_timeline *timeline); /* NULL is legal */

/* Notes from now on, and forgets what ended by `from`. A new time line notes nothing before. NULL is legal. */
void zn_timeline_start(zn_timeline *timeline, double from);
void zn_timeline_stop(zn_timeline *timeline); /* NULL is legal */

/* What takes no time is not noted. */
void zn_timeline_note(const struct zn_mark *mark, double begin, double end);

/* A set of tracks. */
#define ZN_TRACK_BIT(track) (1u << (track))

/* Seconds between begin and end in which one of the tracks `working` works and none of `idle` does. */
double zn_timeline_measure(zn_timeline *timeline, unsigned working, unsigned idle, double begin, double end);

/* Whether all was noted: there was memory for it. */
zn_status zn_timeline_status(zn_timeline *timeline);

/* The spans between begin and end as trace events of one process, which `process` counts and `name` names. The caller frees
 * *events. */
zn_status zn_timeline_print(zn_timeline *timeline, int process, const char *name, double begin, double end, char **events);

/* Writes the events of n processes into one file. One that cannot be written in full is removed. Blocks. */
zn_status zn_trace_write(const char *path, const char *const *events, int n);

/* Writes the spans between begin and end as trace events, which Perfetto and Chrome open; `process` names the whole.
 * Work of one track that overlaps is put on several lines. A file that cannot be written in full is removed. Blocks. */
zn_status zn_timeline_write(zn_timeline *timeline, const char *path, const char *process, double begin, double end);

#endif
