/* An engine to measure: random weights, the same tokens in every step, one rank or several as threads of this process. */
#ifndef ZN_CLI_BENCH_ENGINE_H
#define ZN_CLI_BENCH_ENGINE_H

#include "models/model.h"
#include "zero/engine.h"

/* All pointers are borrowed. */
struct bench_job {
    const zn_model *model;
    struct zn_engine_options options;
    int n_ranks, n_threads; /* threads of a rank */
    const char *nvme_path;  /* where states on NVMe go */
};

struct bench_time {
    double seconds, cpu_seconds;
};

typedef struct bench_engine bench_engine;

/* The caller closes it; NULL is legal there. Blocks. */
zn_status bench_engine_open(const struct bench_job *job, bench_engine **engine);
void bench_engine_close(bench_engine *engine);

/* A step of all ranks: its seconds, and those of all threads of the process meanwhile. */
zn_status bench_engine_step(bench_engine *engine, struct bench_time *time);

/* Bytes that a rank's steps have moved to and from drives. */
struct zn_moved bench_engine_moved(const bench_engine *engine);

/* The device of rank 0, which records (device/recording.h). */
zn_device *bench_engine_device(const bench_engine *engine);

/* Options of an engine in memory, as `zinc train` has them by default but for the clip, which is off. */
struct zn_engine_options bench_options(zn_dtype type, int64_t micro_batch, int64_t seq_len);

/* Wall and CPU seconds since then. */
struct bench_time bench_now(zn_clock *clock);
struct bench_time bench_since(zn_clock *clock, struct bench_time start);

#endif
