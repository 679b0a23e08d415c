/* What a call that takes long is doing, for another thread to show. */
#ifndef ZINC_PROGRESS_H
#define ZINC_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "zinc/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Written by the call it is given to, read by any thread. */
typedef struct zn_progress zn_progress;

/* Not collective. The caller destroys it. */
ZN_API zn_status zn_progress_create(zn_progress **progress);

/* After the call that writes it; NULL is legal. */
ZN_API void zn_progress_destroy(zn_progress *progress);

/* One thing that is done. Strings live as long as the program. */
struct zn_activity {
    const char *what; /* "loading the weights"; NULL: nothing */
    const char *unit; /* of `done` and `total`: "bytes", "parameters", "windows"; NULL: a share alone */
    int64_t done, total; /* total 0: nobody knows */
    double seconds;   /* since it began */
};

/* Where a step is. Micro-batches and segments count from 1; 0: not within one. */
struct zn_step_place {
    int64_t step; /* 0: no step is under way */
    int64_t micro_batch, n_micro_batches; /* 0 where all of them take each segment together */
    const char *pass; /* "forward", "backward", "update" */
    int64_t segment, n_segments;
};

struct zn_progress_view {
    struct zn_activity now;
    struct zn_step_place place; /* of a step */
    uint64_t n_ended;           /* things that were done before this one */
};

/* What is done now. From any thread; does not block. */
ZN_API void zn_progress_read(zn_progress *progress, struct zn_progress_view *view);

/* The thing that ended as number `i` of view.n_ended, counted from 0, with the seconds it took. False: it is long ago. */
ZN_API bool zn_progress_ended(zn_progress *progress, uint64_t i, struct zn_activity *activity);

#ifdef __cplusplus
}
#endif
#endif
