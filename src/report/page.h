/* The page of a report, put together from what was read. */
#ifndef ZN_REPORT_PAGE_H
#define ZN_REPORT_PAGE_H

#include "base/json.h"
#include "base/text.h"
#include "report/chart.h"
#include "report/lanes.h"
#include "report/log.h"

/* All borrowed. */
struct zn_report_facts {
    const char *folder;
    zn_json *run;           /* run.json, an object; NULL: there is none */
    int64_t steps;          /* that the run was to have; -1: not known */
    bool has_weights;       /* the model is written */
    const char *checkpoint; /* the newest; NULL: none */
    const struct zn_report_log *log;
    const struct zn_report_lanes *lanes; /* one step's time line; NULL: none was found */
};

/* Adds the whole page; page->failed tells of a lack of memory. */
void zn_report_page(zn_text *page, const struct zn_report_facts *facts);

/* ---- Its parts ---- */

/* run.json key by key, in its order. */
void report_add_configuration(zn_text *page, zn_json *run);

/* Where the bytes were, and what moved. */
void report_add_bytes(zn_text *page, const struct zn_report_facts *facts);

/* When, how and where the run was started; nothing where run.json does not tell. */
void report_add_origin(zn_text *page, const struct zn_report_facts *facts);

/* What was planned beside what was measured. */
void report_add_plan(zn_text *page, const struct zn_report_facts *facts);

/* Memory by tier over the steps. */
void report_add_memory(zn_text *page, const struct zn_report_log *log);

/* One step by lane. */
void report_add_lanes(zn_text *page, const struct zn_report_lanes *lanes);

/* A chart for wide screens and another for phones, of which the style shows one. */
void report_add_chart(zn_text *page, const struct zn_chart *chart);

/* The sign of a line in a key; `style` is its class, `shape` the path that is drawn. */
void report_add_key(zn_text *page, const char *style, const char *shape, const char *name);

/* The last part of a path, escaped. */
void report_add_last_part(zn_text *page, const char *path);

/* The page's begin, up to <main>; `name` adds its title. */
void report_begin_page(zn_text *page, void (*name)(zn_text *page, const void *self), const void *self);

/* The page of several runs, one over the other. */
void zn_report_runs(zn_text *page, const struct zn_report_facts *runs, size_t n);
enum { ZN_REPORT_RUNS = 8 };

/* What is between <style> and </style>. */
extern const char report_style[];

#endif
