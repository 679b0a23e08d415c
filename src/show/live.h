/* The live part of a terminal: a few rows below everything that was printed, drawn over several times a second by a thread of its
 * own. Lines that are printed go above it and stay. Where there is no terminal, long work is told in a line every half minute.
 *
 * All functions but create and destroy may be called from any thread. */
#ifndef ZN_SHOW_LIVE_H
#define ZN_SHOW_LIVE_H

#include <stdio.h>

#include "base/progress.h"
#include "show/canvas.h"
#include "show/terminal.h"

struct zn_live_options { /* borrowed until the end */
    const char *command; /* "zinc train": begins the lines on standard error */
    struct zn_terminal *terminal;
    zn_progress *progress;
    bool is_quiet;   /* warnings and failures alone are shown */
    bool is_verbose; /* what took how long is told, too */
    void *self;      /* of the functions below, which are called on the live part's thread; each may be NULL */
    void (*draw)(void *self, struct zn_canvas *canvas, const struct zn_progress_view *view); /* in the place of the progress */
    bool (*is_stopping)(void *self); /* somebody asked the run to stop: said once, at once */
    void (*flush)(void *self, FILE *out); /* after what is printed where there is no terminal */
};

typedef struct zn_live zn_live;

zn_status zn_live_create(const struct zn_live_options *options, zn_live **live);
void zn_live_destroy(zn_live *live); /* what was drawn is cleared, what was printed is there; NULL is legal */

/* Whole lines for standard output; dropped where quiet. */
void zn_live_print(zn_live *live, const char *format, ...) ZN_PRINTF(2, 3);

/* A line for standard error, behind the command's name. */
void zn_live_note(zn_live *live, const char *format, ...) ZN_PRINTF(2, 3);

/* Around a change of what `draw` reads. */
void zn_live_lock(zn_live *live);
void zn_live_unlock(zn_live *live);

/* Draws the progress of one thing as a row. */
void zn_live_draw_progress(struct zn_canvas *canvas, const struct zn_activity *activity);

#define ZN_LIVE_STOPPING "stopping after this step; once more to stop now"

#endif
