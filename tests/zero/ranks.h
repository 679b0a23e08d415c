/* Training runs with ranks as threads, and what they leave behind, for tests that compare runs. */
#ifndef ZN_TESTS_ZERO_RANKS_H
#define ZN_TESTS_ZERO_RANKS_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sanitized.h"
#include "train/train.h"

struct rank_job {
    const struct zn_train_options *options;
    zn_comm *comm;
    zn_status status;
    char message[512];
};

static inline void *run_rank(void *arg)
{
    struct rank_job *job = arg;
    job->status = zn_train_as_rank(job->options, job->comm);
    snprintf(job->message, sizeof job->message, "%s", job->status == ZN_OK ? "" : zn_error_message());
    zn_comm_destroy(job->comm);
    return NULL;
}

/* Runs the job on n ranks; the first failure's text is printed. */
static inline zn_status train_on_ranks(const struct zn_train_options *options, int n_ranks)
{
    enum { MAX_RANKS = 16 };
    zn_clock clock;
    zn_comm *comms[MAX_RANKS];
    pthread_t threads[MAX_RANKS];
    struct rank_job jobs[MAX_RANKS];
    zn_clock_init_real(&clock);
    ZN_TRY(zn_comm_create_threads(&clock, n_ranks, comms));
    for (int r = 0; r < n_ranks; r++) {
        jobs[r] = (struct rank_job){.options = options, .comm = comms[r]};
        pthread_create(&threads[r], NULL, run_rank, &jobs[r]);
    }
    zn_status status = ZN_OK;
    for (int r = 0; r < n_ranks; r++) {
        pthread_join(threads[r], NULL);
        if (jobs[r].status != ZN_OK && status == ZN_OK) {
            status = zn_fail_text(jobs[r].status, jobs[r].message);
            fprintf(stderr, "rank %d: %s\n", r, jobs[r].message);
        }
    }
    return status;
}

/* The whole file; NULL when it cannot be read. The caller frees. */
static inline char *slurp(const char *folder, const char *name, size_t *n_bytes)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    fseek(f, 0, SEEK_END);
    long size = ftell(f);
    rewind(f);
    char *data = malloc((size_t)size + 1);
    *n_bytes = fread(data, 1, (size_t)size, f);
    data[*n_bytes] = '\0';
    fclose(f);
    return data;
}

/* What must be the same between runs: "step loss norm" of every step as printed. The caller frees. */
static inline char *losses_of(const char *folder)
{
    size_t n;
    char *log = slurp(folder, "metrics.jsonl", &n);
    if (!log)
        return NULL;
    char *out = calloc(n + 1, 1), *at = out;
    for (char *line = strtok(log, "\n"); line; line = strtok(NULL, "\n")) {
        const char *end = strstr(line, ",\"lr\"");
        size_t length = end ? (size_t)(end - line) : strlen(line);
        memcpy(at, line, length);
        at += length;
        *at++ = '\n';
    }
    free(log);
    return out;
}

/* A number of the last line of the log. */
static inline double last_number(const char *folder, const char *key)
{
    size_t n;
    char pattern[64], *log = slurp(folder, "metrics.jsonl", &n);
    snprintf(pattern, sizeof pattern, "\"%s\":", key);
    const char *found = NULL;
    for (const char *p = log; p && (p = strstr(p, pattern)); p++)
        found = p;
    double value = found ? atof(found + strlen(pattern)) : -1;
    free(log);
    return value;
}

#endif
