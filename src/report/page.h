/* The page of a report, put together from what was read. */
#ifndef ZN_REPORT_PAGE_H
#define ZN_REPORT_PAGE_H

#include "base/json.h"
#include "base/text.h"
#include "report/log.h"

/* All borrowed. */
struct zn_report_facts {
    const char *folder;
    zn_json *run;           /* run.json, an object; NULL: there is none */
    int64_t steps;          /* that the run was to have; -1: not known */
    bool has_weights;       /* the model is written */
    const char *checkpoint; /* the newest; NULL: none */
    const struct zn_report_log *log;
};

/* Adds the whole page; page->failed tells of a lack of memory. */
void zn_report_page(zn_text *page, const struct zn_report_facts *facts);

/* ---- Its parts ---- */

/* run.json key by key, in its order. */
void report_add_configuration(zn_text *page, zn_json *run);

/* Where the bytes were, and what moved. */
void report_add_bytes(zn_text *page, const struct zn_report_facts *facts);

/* What is between <style> and </style>. */
extern const char report_style[];

#endif
