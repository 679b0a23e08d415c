/* The writing side of zinc/progress.h. Every function takes NULL, which notes nothing; a note costs an uncontended lock. */
#ifndef ZN_BASE_PROGRESS_H
#define ZN_BASE_PROGRESS_H

#include "zinc/progress.h"

/* Begins the next thing, which ends the one before. total 0: nobody knows how much it is. */
void zn_progress_begin(zn_progress *progress, const char *what, const char *unit, int64_t total);
void zn_progress_end(zn_progress *progress); /* nothing follows at once */

void zn_progress_set(zn_progress *progress, int64_t done);
void zn_progress_add(zn_progress *progress, int64_t n);

/* A step is a thing of its own: its points are what is done of it. */
void zn_progress_begin_step(zn_progress *progress, int64_t step);
void zn_progress_place(zn_progress *progress, const struct zn_step_place *place, int64_t done, int64_t total);

#endif
