/* A ring of jobs, threads that run them, and a caller that takes them in order. */
#include "base/team.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct outcome {
    bool done;
    zn_status status;
    char *error; /* of the thread that failed */
};

/* Jobs are counted from the start; job i lies at i % n_jobs. taken <= started <= submitted <= taken + n_jobs. */
struct zn_team {
    struct zn_team_work work;
    char *jobs;
    size_t job_bytes, n_jobs;
    size_t taken;     /* of the caller's thread alone, as is `failure` */
    zn_status failure; /* the first one */
    char *error;
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t submitted_one, done_one;
    size_t started, submitted;
    bool ending;
    struct outcome *outcome; /* of each place in the ring */
    int n_workers;
    pthread_t worker[];
};

/* Runs the first job that waits; the lock is held before and after. */
static void run_next(zn_team *t)
{
    size_t at = t->started++ % t->n_jobs;
    pthread_mutex_unlock(&t->lock);
    zn_status status = t->work.run(t->work.self, t->jobs + at * t->job_bytes);
    char *error = status == ZN_OK ? NULL : strdup(zn_error_message());
    pthread_mutex_lock(&t->lock);
    t->outcome[at] = (struct outcome){.done = true, .status = status, .error = error};
    pthread_cond_signal(&t->done_one);
}

static void *work(void *self)
{
    zn_team *t = self;
    pthread_mutex_lock(&t->lock);
    for (;;) {
        while (t->started == t->submitted && !t->ending)
            pthread_cond_wait(&t->submitted_one, &t->lock);
        if (t->ending)
            break;
        run_next(t);
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

zn_status zn_team_create(int n_threads, const struct zn_team_work *jobs_work, void *jobs, size_t job_bytes,
                         size_t n_jobs, zn_team **team)
{
    int n_workers = n_threads > 1 ? n_threads - 1 : 0;
    zn_team *t = calloc(1, sizeof *t + (size_t)n_workers * sizeof t->worker[0]);
    struct outcome *outcome = calloc(n_jobs, sizeof *outcome);
    if (!t || !outcome) {
        free(t);
        free(outcome);
        return zn_fail(ZN_ERR_MEMORY, "no memory for %d threads", n_threads);
    }
    t->work = *jobs_work;
    t->jobs = jobs;
    t->job_bytes = job_bytes;
    t->n_jobs = n_jobs;
    t->outcome = outcome;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->submitted_one, NULL);
    pthread_cond_init(&t->done_one, NULL);
    while (t->n_workers < n_workers && pthread_create(&t->worker[t->n_workers], NULL, work, t) == 0)
        t->n_workers++;
    if (t->n_workers < n_workers) {
        zn_team_destroy(t);
        return zn_fail(ZN_ERR_MEMORY, "cannot start %d threads", n_threads);
    }
    *team = t;
    return ZN_OK;
}

void zn_team_destroy(zn_team *t)
{
    if (!t)
        return;
    pthread_mutex_lock(&t->lock);
    t->ending = true;
    pthread_cond_broadcast(&t->submitted_one);
    pthread_mutex_unlock(&t->lock);
    for (int i = 0; i < t->n_workers; i++)
        pthread_join(t->worker[i], NULL);
    for (size_t i = 0; i < t->n_jobs; i++)
        free(t->outcome[i].error);
    pthread_cond_destroy(&t->done_one);
    pthread_cond_destroy(&t->submitted_one);
    pthread_mutex_destroy(&t->lock);
    free(t->outcome);
    free(t->error);
    free(t);
}

/* Waits until the oldest job is done, and runs others meanwhile. */
static struct outcome wait_oldest(zn_team *t)
{
    struct outcome *oldest = &t->outcome[t->taken % t->n_jobs], outcome;
    pthread_mutex_lock(&t->lock);
    while (!oldest->done) {
        if (t->started < t->submitted)
            run_next(t);
        else
            pthread_cond_wait(&t->done_one, &t->lock);
    }
    outcome = *oldest;
    *oldest = (struct outcome){0};
    pthread_mutex_unlock(&t->lock);
    return outcome;
}

static zn_status told(const zn_team *t)
{
    return t->failure == ZN_OK ? ZN_OK : zn_fail_text(t->failure, t->error ? t->error : "out of memory");
}

zn_status zn_team_take(zn_team *t)
{
    if (t->failure != ZN_OK || t->taken == t->submitted) /* only this thread submits */
        return told(t);
    struct outcome outcome = wait_oldest(t);
    if (outcome.status == ZN_OK) {
        outcome.status = t->work.take(t->work.self, t->jobs + t->taken % t->n_jobs * t->job_bytes);
        if (outcome.status != ZN_OK)
            outcome.error = strdup(zn_error_message());
    }
    t->taken++;
    t->failure = outcome.status;
    t->error = outcome.error;
    return told(t);
}

zn_status zn_team_next(zn_team *t, void **job)
{
    if (t->submitted - t->taken == t->n_jobs)
        ZN_TRY(zn_team_take(t));
    ZN_TRY(told(t));
    *job = t->jobs + t->submitted % t->n_jobs * t->job_bytes;
    return ZN_OK;
}

void zn_team_submit(zn_team *t)
{
    pthread_mutex_lock(&t->lock);
    t->submitted++;
    pthread_cond_signal(&t->submitted_one);
    pthread_mutex_unlock(&t->lock);
}

zn_status zn_team_finish(zn_team *t)
{
    while (t->failure == ZN_OK && t->taken < t->submitted)
        ZN_TRY(zn_team_take(t));
    return told(t);
}
