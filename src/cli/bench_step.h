/* `zinc bench step` from inside. */
#ifndef ZN_CLI_BENCH_STEP_H
#define ZN_CLI_BENCH_STEP_H

#include <stdbool.h>

#include "cli/bench_engine.h"

enum { BENCH_ROUNDS = 101 };

struct bench_step_flags {
    const char *model, *shape, *precision, *nvme_path;
    int64_t micro_batch, seq_len, threads, rounds;
    bool recompute, sweep, json;
};

/* The median of some values, and the least and the largest. Puts them in order. */
struct bench_spread {
    double median, least, most;
};
struct bench_spread bench_spread_of(double *values, int n);

/* `--sweep`: how the seconds of a step grow with one size at a time, beside what the plan says. */
zn_status bench_sweep(const struct bench_step_flags *flags);

#endif
