/* The time line of one step for a report, from a file of `zinc train --trace`: when each lane of rank 0 was at work. */
#ifndef ZN_REPORT_LANES_H
#define ZN_REPORT_LANES_H

#include <stddef.h>

#include "base/status.h"

enum { ZN_REPORT_LANES = 6, ZN_REPORT_SLICES = 800 };

struct zn_report_lanes {
    char title[96]; /* "rank 0 of 2, step 3" */
    double seconds; /* of the step, to the end of the last span */
    size_t n;
    struct {
        char name[32];
        double busy;                    /* seconds, spans that overlap counted once */
        float share[ZN_REPORT_SLICES]; /* of each slice of the step */
    } lane[ZN_REPORT_LANES];
};

/* The caller frees *lanes. Fails where the file cannot be read or is no time line of ours. */
zn_status zn_report_lanes_read(const char *path, struct zn_report_lanes **lanes);

#endif
