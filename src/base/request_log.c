/* A file of lines, written under a lock. */
#include "base/request_log.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum { MAX_THREADS = 16 };

struct zn_request_log {
    char *path;
    FILE *file;
    pthread_mutex_t lock; /* guards all below, and the file */
    pthread_t threads[MAX_THREADS];
    int n_threads;
};

static zn_status fail_log(const char *path)
{
    return zn_fail(ZN_ERR_IO, "%s: cannot write the log of requests: %s", zn_shown(path).text, strerror(errno));
}

zn_status zn_request_log_create(int rank, zn_request_log **log)
{
    const char *prefix = getenv("ZINC_REQUEST_LOG");
    *log = NULL;
    if (!prefix || !prefix[0])
        return ZN_OK;
    zn_request_log *made = calloc(1, sizeof *made);
    if (!made || asprintf(&made->path, "%s.%d", prefix, rank) < 0) {
        free(made);
        return zn_fail(ZN_ERR_MEMORY, "no memory for the log of requests");
    }
    made->file = fopen(made->path, "we");
    if (!made->file) {
        zn_status status = fail_log(made->path);
        free(made->path);
        free(made);
        return status;
    }
    pthread_mutex_init(&made->lock, NULL);
    made->threads[made->n_threads++] = pthread_self();
    *log = made;
    return ZN_OK;
}

/* With the lock held: the number of the calling thread, -1 where there are too many. */
static int number_of_thread(zn_request_log *log)
{
    for (int i = 0; i < log->n_threads; i++)
        if (pthread_equal(log->threads[i], pthread_self()))
            return i;
    if (log->n_threads == MAX_THREADS)
        return -1;
    log->threads[log->n_threads] = pthread_self();
    return log->n_threads++;
}

/* With the lock held. */
static zn_status write_line(zn_request_log *log, const char *format, va_list args)
{
    int thread = number_of_thread(log);
    if (thread < 0)
        return zn_fail(ZN_ERR_INTERNAL, "the log of requests takes at most %d threads", MAX_THREADS);
    if (fprintf(log->file, "%d ", thread) < 0 || vfprintf(log->file, format, args) < 0 ||
        fputc('\n', log->file) == EOF || fflush(log->file) != 0)
        return fail_log(log->path);
    return ZN_OK;
}

zn_status zn_request_log_add(zn_request_log *log, const char *format, ...)
{
    if (!log)
        return ZN_OK;
    va_list args;
    va_start(args, format);
    pthread_mutex_lock(&log->lock);
    zn_status status = write_line(log, format, args);
    pthread_mutex_unlock(&log->lock);
    va_end(args);
    return status;
}

void zn_request_log_destroy(zn_request_log *log)
{
    if (!log)
        return;
    fclose(log->file); /* every line was flushed */
    pthread_mutex_destroy(&log->lock);
    free(log->path);
    free(log);
}
