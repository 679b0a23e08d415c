/* The table of a worker: submits to its thread, and waits there for what blocks. */
#include "comm/worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/memory.h"

/* How long the ranks of a failed job wait for each other, so that each can say why it ends. */
static const double farewell_seconds = 1;

struct job {
    struct worker *worker;
    struct comm_request request;
};

static zn_status run_job(void *arg)
{
    struct job *job = arg;
    zn_status status = worker_run(job->worker, &job->request);
    free(job);
    return status;
}

static zn_status start(zn_comm *comm, const struct comm_request *request, zn_event *done)
{
    struct worker *w = (struct worker *)comm;
    if (!w->stream) {
        zn_status status = worker_run(w, request);
        const char *text = status == ZN_OK ? NULL : zn_error_message();
        if (done)
            zn_event_set(done, status, text, zn_clock_now(comm->clock));
        return status;
    }
    struct job *job = malloc(sizeof *job);
    if (!job)
        return zn_fail(ZN_ERR_MEMORY, "no memory for a request");
    *job = (struct job){w, *request};
    zn_status status =
        zn_stream_submit(w->stream, &(struct zn_task){.run = run_job, .arg = job, .done = done});
    if (status != ZN_OK)
        free(job);
    return status;
}

/* A call that the caller waits for. It keeps its whole message, longer than an event's. */
struct call {
    struct worker *worker;
    zn_status (*function)(struct worker *worker, void *arg);
    void *arg;
    char text[COMM_TEXT];
};

static zn_status run_call(void *arg)
{
    struct call *call = arg;
    zn_status status = call->function(call->worker, call->arg);
    if (status != ZN_OK)
        snprintf(call->text, sizeof call->text, "%s", zn_error_message());
    return status;
}

zn_status worker_call(struct worker *w, zn_status (*function)(struct worker *worker, void *arg), void *arg)
{
    struct call call = {.worker = w, .function = function, .arg = arg};
    if (!w->stream)
        return function(w, arg);
    zn_event done;
    zn_event_init(&done);
    zn_status status = zn_stream_submit(
        w->stream, &(struct zn_task){.run = run_call, .arg = &call, .done = &done});
    if (status == ZN_OK) {
        status = zn_event_wait(&done, w->head.clock);
        if (status != ZN_OK)
            zn_fail_text(status, call.text);
    }
    zn_event_fini(&done);
    return status;
}

struct exchange {
    enum comm_op op;
    const void *mine;
    size_t n_bytes;
    void *all;
};

static zn_status run_exchange(struct worker *w, void *arg)
{
    const struct exchange *e = arg;
    return worker_exchange(w, e->op, e->mine, e->n_bytes, e->all);
}

static zn_status exchange(zn_comm *comm, enum comm_op op, const void *mine, size_t n_bytes,
                          void *all)
{
    return worker_call((struct worker *)comm, run_exchange,
                         &(struct exchange){op, mine, n_bytes, all});
}

static zn_status run_alloc(struct worker *w, void *arg)
{
    struct zn_shared *shared = arg;
    return worker_alloc(w, shared->n_bytes, shared);
}

static zn_status alloc(zn_comm *comm, size_t n_bytes, struct zn_shared *shared)
{
    struct zn_shared made = {.n_bytes = n_bytes};
    ZN_TRY(worker_call((struct worker *)comm, run_alloc, &made));
    *shared = made;
    return ZN_OK;
}

static zn_status run_release(struct worker *w, void *arg)
{
    worker_release(w, arg);
    return ZN_OK;
}

static void release(zn_comm *comm, struct zn_shared *shared)
{
    worker_call((struct worker *)comm, run_release, shared);
}

static void abort_ranks(zn_comm *comm, zn_status status, const char *text)
{
    struct worker *w = (struct worker *)comm;
    char whole[COMM_TEXT];
    if (comm->world->n_ranks > 1 && !comm_is_agreed(comm, text))
        snprintf(whole, sizeof whole, "rank %d: %s", w->node.job->rank, text);
    else
        snprintf(whole, sizeof whole, "%s", text);
    node_fail(&w->node, status, whole);
    job_check(w->node.job); /* whose failure it is */
    if (w->link)
        link_tell(w->link);
}

static bool speaks(zn_comm *comm)
{
    return job_claim(((struct worker *)comm)->node.job);
}

/* Ranks of a whole job leave together; those of a failed one when they can. */
static zn_status run_end(struct worker *w, void *arg)
{
    bool *failed = arg;
    unsigned char mine = 0;
    *failed = worker_exchange(w, COMM_END, &mine, sizeof mine, w->ends) != ZN_OK;
    return ZN_OK;
}

static void destroy(zn_comm *comm)
{
    struct worker *w = (struct worker *)comm;
    bool failed = true;
    worker_call(w, run_end, &failed);
    zn_stream_destroy(w->stream);
    network_destroy(w->network, failed);
    if (w->end)
        w->end(w, failed);
    bool is_world = comm->world == comm;
    bool last = node_leave(&w->node, w->processes ? (failed && is_world ? farewell_seconds : 0) : -1);
    worker_release_all(w);
    if (is_world && (w->processes || last))
        memory_unmap((unsigned char *)w->job.control, worker_control_bytes(w->node.n_local));
    worker_free(w);
}

static const struct comm_ops worker_ops = {
    .alloc = alloc,
    .free = release,
    .start = start,
    .exchange = exchange,
    .abort = abort_ranks,
    .speaks = speaks,
    .split = worker_split,
    .destroy = destroy,
};

size_t worker_control_bytes(int n_local)
{
    return job_control_bytes() + (size_t)n_local * node_slot_bytes();
}

void worker_use_control(struct worker *w, unsigned char *control)
{
    w->job.control = (struct comm_control *)(void *)control;
    for (int i = 0; i < w->node.n_local; i++)
        w->node.slots[i] = (struct comm_slot *)(void *)(control + job_control_bytes() + (size_t)i * node_slot_bytes());
}

static zn_status allocate(struct worker *w, int n_ranks, int n_local)
{
    w->ranks = calloc((size_t)n_local * 2, sizeof *w->ranks);
    w->job_ranks = calloc((size_t)n_ranks, sizeof *w->job_ranks);
    w->node.slots = calloc((size_t)n_local, sizeof *w->node.slots);
    w->ends = malloc((size_t)n_ranks);
    if (!w->ranks || !w->job_ranks || !w->node.slots || !w->ends)
        return zn_fail(ZN_ERR_MEMORY, "no memory for a communicator");
    w->pids = w->ranks + n_local;
    return ZN_OK;
}

zn_status worker_create(zn_clock *clock, int rank, int n_ranks, const int *local_ranks, int n_local,
                        struct worker **worker)
{
    struct worker *w = calloc(1, sizeof *w);
    if (!w)
        return zn_fail(ZN_ERR_MEMORY, "no memory for a communicator");
    zn_status status = allocate(w, n_ranks, n_local);
    if (status != ZN_OK) {
        worker_free(w);
        return status;
    }
    memcpy(w->ranks, local_ranks, (size_t)n_local * sizeof *w->ranks);
    for (int i = 0; i < n_ranks; i++)
        w->job_ranks[i] = i;
    w->job.rank = rank;
    w->job.n_local = n_local;
    w->job.ranks = w->ranks;
    w->job.pids = w->pids;
    w->node.job = &w->job;
    w->node.n_local = n_local;
    w->node.ranks = w->ranks;
    w->node.job_ranks = w->job_ranks;
    for (int i = 0; i < n_local; i++)
        if (w->ranks[i] == rank)
            w->node.me = i;
    w->head = (zn_comm){
        .ops = &worker_ops,
        .clock = clock,
        .world = &w->head,
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .rank = rank,
        .n_ranks = n_ranks,
        .job_ranks = w->job_ranks,
        .local_rank = w->node.me,
        .n_local = n_local,
        .buffer_bytes = worker_control_bytes(n_local),
    };
    *worker = w;
    return ZN_OK;
}

void worker_free(struct worker *w)
{
    for (int i = 0; w->job.watched && i < w->job.n_local; i++)
        if (w->job.watched[i] >= 0)
            close(w->job.watched[i]);
    free(w->job.watched);
    free(w->ends);
    free(w->node.slots);
    free(w->job_ranks);
    free(w->ranks);
    free(w);
}
