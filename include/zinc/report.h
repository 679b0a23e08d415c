/* One HTML page of a run, from the folder that it wrote. */
#ifndef ZINC_REPORT_H
#define ZINC_REPORT_H

#include <stddef.h>

#include "zinc/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Strings are borrowed for the call. */
struct zn_report_options {
    const char *folder; /* the run's output: run.json and metrics.jsonl */
    const char *log;    /* NULL: metrics.jsonl in the folder */
    const char *const *others; /* further folders, to be shown over the first; NULL: none */
    size_t n_others;           /* at most 7 */
    const char *trace;  /* of `zinc train --trace`; NULL: the one that run.json names, if it is still there */
    const char *output; /* the page, .html; NULL: report.html in the folder, runs.html where there are several */
    void *self;
    void (*note)(void *self, const char *text); /* what the log lacks; may be NULL */
};

/* Writes the page, which needs no other file and no script. Several runs have their curves in one chart. A run that was cut short, or still goes on, has one
 * too. Blocks. */
ZN_API zn_status zn_report(const struct zn_report_options *options);

#ifdef __cplusplus
}
#endif
#endif
