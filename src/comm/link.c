/* MPI's thread, and the messages by which nodes learn of each other's failures. */
#include "comm/link.h"

#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "comm/private.h"

enum {
    TAG_FAILURE = 1,
    TELL_MS = 200, /* for the messages of a failure to be taken */
    LOOK_AROUND_MS = 100,
};

static const double shortest_nap = 20e-6, longest_nap = 1e-3;

/* A step that a thread waits for. */
struct call {
    zn_status (*step)(void *arg, bool *done);
    void *arg;
    bool has_ended; /* guarded by the link's lock, as is `next` */
    pthread_cond_t ended;
    zn_status status;
    char text[COMM_TEXT];
    struct call *next;
};

struct comm_link {
    pthread_t thread;
    pthread_mutex_t lock; /* guards the next three lines */
    pthread_cond_t changed;
    struct call *calls; /* in the order in which they came */
    bool has_to_tell, is_ending;
    /* Of the thread: */
    struct comm_node *world; /* NULL: not connected */
    MPI_Comm comm;
    int n_ranks, *node_of;
    MPI_Request failure;          /* a message that may come at any time */
    struct comm_vote heard, told; /* what another node's failure is, and this one's */
    MPI_Request *tells;           /* of `told`, which is MPI's until they are done: perhaps never; one of each rank */
    bool has_told;
};

/* Another node's failure becomes this node's, when one has come. */
static void hear(comm_link *link)
{
    int there = 0;
    if (link->failure == MPI_REQUEST_NULL)
        return;
    if (MPI_Test(&link->failure, &there, MPI_STATUS_IGNORE) != MPI_SUCCESS || !there)
        return;
    job_hear(link->world->job, (zn_status)link->heard.status, link->heard.text);
    node_wake(link->world);
}

/* They are small: MPI takes most of them at once. */
static void drain(MPI_Request *requests, int n)
{
    for (int ms = 0; ms <= TELL_MS; ms++) {
        int done = 0;
        if (MPI_Testall(n, requests, &done, MPI_STATUSES_IGNORE) != MPI_SUCCESS || done)
            return;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

static void tell(comm_link *link)
{
    if (!link->world || link->has_told || !atomic_load(&link->world->job->failed_first))
        return;
    link->has_told = true;
    int home = link->node_of[link->world->job->rank];
    link->told = comm_vote(NULL, job_check(link->world->job));
    for (int i = 0; i < link->n_ranks; i++)
        if (link->node_of[i] != home)
            MPI_Isend(&link->told, sizeof link->told, MPI_BYTE, i, TAG_FAILURE, link->comm, &link->tells[i]);
    drain(link->tells, link->n_ranks);
}

/* ---- The thread ---- */

static bool take_step(struct call *call)
{
    bool done = false;
    call->status = call->step(call->arg, &done);
    if (call->status != ZN_OK)
        snprintf(call->text, sizeof call->text, "%s", zn_error_message());
    return done || call->status != ZN_OK;
}

/* With the lock held, but for while a step runs. Whether one has ended. */
static bool take_steps(comm_link *link)
{
    bool any = false;
    for (struct call **at = &link->calls; *at;) {
        struct call *call = *at;
        pthread_mutex_unlock(&link->lock);
        bool ended = take_step(call);
        pthread_mutex_lock(&link->lock);
        if (ended) {
            *at = call->next;
            call->has_ended = true;
            pthread_cond_signal(&call->ended); /* the call is its thread's again */
            any = true;
        } else {
            at = &call->next;
        }
    }
    return any;
}

/* With the lock held. Whether something was handed in before the time was up. */
static bool sleep_for(comm_link *link, double seconds)
{
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_nsec += (long)(seconds * 1e9);
    end.tv_sec += end.tv_nsec / 1000000000;
    end.tv_nsec %= 1000000000;
    return pthread_cond_timedwait(&link->changed, &link->lock, &end) == 0;
}

/* Failures are told before other work, and heard. */
static void carry_failures(comm_link *link)
{
    bool has_to_tell = link->has_to_tell;
    link->has_to_tell = false;
    pthread_mutex_unlock(&link->lock);
    if (has_to_tell)
        tell(link);
    hear(link);
    pthread_mutex_lock(&link->lock);
}

static void *work(void *arg)
{
    comm_link *link = arg;
    double nap = shortest_nap, since_look = 0;
    pthread_mutex_lock(&link->lock);
    for (;;) {
        while (!link->calls && !link->has_to_tell && !link->is_ending)
            pthread_cond_wait(&link->changed, &link->lock);
        if (!link->calls && !link->has_to_tell)
            break;
        carry_failures(link);
        if (take_steps(link) || sleep_for(link, nap)) {
            nap = shortest_nap;
            continue;
        }
        since_look += nap;
        nap = nap * 2 < longest_nap ? nap * 2 : longest_nap;
        if (since_look * 1e3 >= LOOK_AROUND_MS && link->world) {
            job_look_for_dead(link->world->job);
            since_look = 0;
        }
    }
    pthread_mutex_unlock(&link->lock);
    return NULL;
}

zn_status link_run(comm_link *link, zn_status (*step)(void *arg, bool *done), void *arg)
{
    struct call call = {.step = step, .arg = arg};
    pthread_cond_init(&call.ended, NULL);
    pthread_mutex_lock(&link->lock);
    struct call **last = &link->calls;
    while (*last)
        last = &(*last)->next;
    *last = &call;
    pthread_cond_signal(&link->changed);
    while (!call.has_ended)
        pthread_cond_wait(&call.ended, &link->lock);
    pthread_mutex_unlock(&link->lock);
    pthread_cond_destroy(&call.ended);
    return call.status == ZN_OK ? ZN_OK : zn_fail_text(call.status, call.text);
}

void link_tell(comm_link *link)
{
    pthread_mutex_lock(&link->lock);
    link->has_to_tell = true;
    pthread_cond_signal(&link->changed);
    pthread_mutex_unlock(&link->lock);
}

static zn_status do_nothing(void *arg, bool *done)
{
    (void)arg; /* the thread hears before each step */
    *done = true;
    return ZN_OK;
}

static void look_around(void *context)
{
    link_run(context, do_nothing, NULL);
}

/* ---- Start and end ---- */

zn_status link_create(comm_link **out)
{
    comm_link *link = calloc(1, sizeof *link);
    if (!link)
        return zn_fail(ZN_ERR_MEMORY, "no memory for a network");
    link->comm = MPI_COMM_NULL;
    link->failure = MPI_REQUEST_NULL;
    pthread_mutex_init(&link->lock, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&link->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    if (pthread_create(&link->thread, NULL, work, link) != 0) {
        free(link);
        return zn_fail(ZN_ERR_MEMORY, "cannot start a thread for MPI");
    }
    *out = link;
    return ZN_OK;
}

void link_destroy(comm_link *link, bool failed)
{
    pthread_mutex_lock(&link->lock);
    link->is_ending = true;
    pthread_cond_signal(&link->changed);
    pthread_mutex_unlock(&link->lock);
    pthread_join(link->thread, NULL);
    if (failed)
        return;
    pthread_cond_destroy(&link->changed);
    pthread_mutex_destroy(&link->lock);
    free(link->tells);
    free(link->node_of);
    free(link);
}

static zn_status mpi_failed(const char *what)
{
    return zn_fail(ZN_ERR_IO, "the network between nodes failed: %s", what);
}

zn_status link_connect(comm_link *link, struct comm_node *world, int n_ranks)
{
    link->n_ranks = n_ranks;
    link->node_of = calloc((size_t)n_ranks, sizeof *link->node_of);
    link->tells = calloc((size_t)n_ranks, sizeof *link->tells);
    if (!link->node_of || !link->tells)
        return zn_fail(ZN_ERR_MEMORY, "no memory for a table of %d ranks", n_ranks);
    for (int i = 0; i < n_ranks; i++)
        link->tells[i] = MPI_REQUEST_NULL;
    if (MPI_Allgather(&world->ranks[0], 1, MPI_INT, link->node_of, 1, MPI_INT, MPI_COMM_WORLD) != MPI_SUCCESS)
        return mpi_failed("MPI_Allgather");
    if (MPI_Comm_dup(MPI_COMM_WORLD, &link->comm) != MPI_SUCCESS)
        return mpi_failed("MPI_Comm_dup");
    if (MPI_Irecv(&link->heard, sizeof link->heard, MPI_BYTE, MPI_ANY_SOURCE, TAG_FAILURE, link->comm, &link->failure) !=
        MPI_SUCCESS)
        return mpi_failed("MPI_Irecv");
    link->world = world;
    world->job->look_around = look_around;
    world->job->context = link;
    return ZN_OK;
}

void link_disconnect(comm_link *link, bool failed)
{
    int done = 0;
    if (!link->world || failed)
        return;
    link->world->job->look_around = NULL;
    link->world = NULL;
    MPI_Cancel(&link->failure);
    MPI_Test(&link->failure, &done, MPI_STATUS_IGNORE);
    if (link->failure != MPI_REQUEST_NULL)
        MPI_Request_free(&link->failure);
    MPI_Comm_free(&link->comm);
}

const void *link_mpi_comm(const comm_link *link)
{
    return &link->comm;
}

int link_node_of(const comm_link *link, int job_rank)
{
    return link->node_of[job_rank];
}
