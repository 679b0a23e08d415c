/* Quantities as every command writes them. Each function writes into `text` and returns it. */
#ifndef ZN_SHOW_WORDS_H
#define ZN_SHOW_WORDS_H

#include "zinc/progress.h"

enum { ZN_WORDS = 160 };

const char *zn_words_seconds(double seconds, char text[ZN_WORDS]); /* "0.4 s", "12 s", "3 min 05 s", "2 h 10 min", "4 d 03 h" */
const char *zn_words_rate(double bytes_per_second, char text[ZN_WORDS]); /* "1.2 GB/s" */
const char *zn_words_count(double n, char text[ZN_WORDS]);               /* "1234", "12.3 k", "1.2 M" */

/* "1.2 GiB of 2.6 GiB", "3 of 8 windows", "45%"; "" where nothing is known. */
const char *zn_words_done(const struct zn_activity *activity, char text[ZN_WORDS]);

/* The whole of it: "2.6 GiB", "8 windows"; "" where nothing is known. */
const char *zn_words_amount(const struct zn_activity *activity, char text[ZN_WORDS]);

/* "micro-batch 3 of 8, backward, segment 4 of 14"; "" before the first. */
const char *zn_words_place(const struct zn_step_place *place, char text[ZN_WORDS]);

/* The whole of it in one line: "loading the weights: 1.2 GiB of 2.6 GiB after 30 s". */
const char *zn_words_progress(const struct zn_progress_view *view, char text[2 * ZN_WORDS]);

#endif
