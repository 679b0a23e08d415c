/* metrics.jsonl for a report: read once, in memory that does not depend on its length. */
#ifndef ZN_REPORT_LOG_H
#define ZN_REPORT_LOG_H

#include <stdbool.h>
#include <time.h>

#include "memory/ledger.h"
#include "report/curve.h"

enum {
    ZN_REPORT_REASONS = 8,  /* skipped steps that are told one by one */
    ZN_REPORT_REASON = 160, /* bytes of a reason, the rest is cut */
    ZN_REPORT_FAULT = 256
};

typedef enum zn_traffic { ZN_TRAFFIC_SENT, ZN_TRAFFIC_READ, ZN_TRAFFIC_WRITTEN, ZN_N_TRAFFIC } zn_traffic;

/* The lines of one run. Bytes are those of the rank that wrote the log, rank 0. */
struct zn_report_log {
    int64_t n_steps;   /* lines that are steps */
    int64_t last_step; /* the highest number; 0: none */
    double tokens, targets, seconds;
    zn_curve loss, held_out, grad_norm, lr, speed; /* over steps; skipped steps are gaps of the loss */
    zn_curve tier[ZN_N_TIERS], resident; /* bytes */
    zn_curve skipped;                              /* only the places count */
    int64_t n_skipped, n_skipped_at_end;
    struct {
        int64_t step;
        char text[ZN_REPORT_REASON];
    } reasons[ZN_REPORT_REASONS]; /* of the first skipped steps */
    /* As the last line that has them says; bytes, negative: no line has it. */
    double tier_bytes[ZN_N_TIERS], resident_bytes;
    double kind_bytes[ZN_N_KINDS];
    double traffic_last[ZN_N_TRAFFIC], traffic_sum[ZN_N_TRAFFIC];
    /* Lines that are no steps, and what is wrong with the first of them. */
    int64_t n_lines, n_bad;
    char fault[ZN_REPORT_FAULT];
    bool is_cut; /* the last line has no end and is no step: it was not written to its end */
    time_t written;
};

/* The caller frees *log. Fails when the file cannot be read, and when it has lines but none is a step. */
zn_status zn_report_log_read(const char *path, struct zn_report_log **log);

#endif
