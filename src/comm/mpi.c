/* Starting and ending a job of processes. MPI is started, used and ended on the link's thread only; it finds out who is where,
 * carries what goes between nodes, and nothing else. */
#include <errno.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "comm/memory.h"
#include "comm/worker.h"

/* Time that ranks of other nodes have to tell what they heard before they are ended. */
static const struct timespec last_words = {.tv_nsec = 500 * 1000 * 1000};

/* After a failure MPI cannot be ended in good order. When the process exits, its message printed,
 * this ends the ranks that are left. One rank does it, since a crowd of them makes launchers
 * stumble; the others just leave, which launchers take for a failure as well. */
static void abort_at_exit(void)
{
    int started = 0, ended = 0;
    MPI_Initialized(&started);
    MPI_Finalized(&ended);
    if (!started || ended)
        return;
    fflush(NULL); /* MPI_Abort does not return to do it */
    nanosleep(&last_words, NULL);
    MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
}

struct ending {
    struct worker *worker;
    bool failed;
};

static zn_status end_on_thread(void *arg, bool *done)
{
    const struct ending *e = arg;
    *done = true;
    link_disconnect(e->worker->link, e->failed);
    if (!e->failed)
        MPI_Finalize();
    else if (atomic_load(&e->worker->job.failed_first))
        atexit(abort_at_exit);
    return ZN_OK;
}

static void end(struct worker *w, bool failed)
{
    link_run(w->link, end_on_thread, &(struct ending){w, failed});
    link_destroy(w->link, failed);
}

/* A launcher that MPI does not understand starts N jobs of one rank each: they must not run. */
static zn_status check_launcher(int n_ranks)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *text = getenv(names[i]);
        if (text && atoi(text) > n_ranks)
            return zn_fail(
                ZN_ERR_USAGE,
                "the launcher started %s processes (%s) but MPI found %d: start them with "
                "the mpirun of the MPI that Zinc was built with, or srun --mpi=pmix",
                text, names[i], n_ranks);
    }
    return ZN_OK;
}

static zn_status start_mpi(int *rank, int *n_ranks)
{
    int started = 0, threads;
    MPI_Initialized(&started);
    if (started)
        return zn_fail(ZN_ERR_UNSUPPORTED, "MPI was already started in this process");
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &threads) != MPI_SUCCESS)
        return zn_fail(ZN_ERR_IO, "MPI did not start");
    if (threads < MPI_THREAD_FUNNELED)
        return zn_fail(ZN_ERR_UNSUPPORTED, "this MPI may not be used beside threads");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, rank);
    MPI_Comm_size(MPI_COMM_WORLD, n_ranks);
    return check_launcher(*n_ranks);
}

/* The ranks that share memory with this one, ascending. The caller frees both. */
static zn_status find_node(int rank, MPI_Comm *local, int *n_local, int **ranks)
{
    if (MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, local) !=
        MPI_SUCCESS)
        return zn_fail(ZN_ERR_IO, "MPI did not tell which ranks share a node");
    MPI_Comm_size(*local, n_local);
    *ranks = malloc((size_t)*n_local * sizeof **ranks);
    if (!*ranks)
        return zn_fail(ZN_ERR_MEMORY, "no memory for a table of %d ranks", *n_local);
    MPI_Allgather(&rank, 1, MPI_INT, *ranks, 1, MPI_INT, *local);
    return ZN_OK;
}

/* The first rank of the node makes the control block, the others map it. */
static zn_status share_control(struct worker *w, MPI_Comm local)
{
    struct {
        struct comm_vote vote;
        struct memory_offer memory;
    } made = {.memory.fd = -1};
    size_t n_bytes = worker_control_bytes(w->node.n_local);
    unsigned char *address = NULL;
    if (w->node.me == 0)
        made.vote =
            comm_vote(NULL, w->node.n_local > 1 ? memory_create_shared(n_bytes, &made.memory, &address)
                                          : memory_create_private(n_bytes, &made.memory, &address));
    MPI_Bcast(&made, sizeof made, MPI_BYTE, 0, local);
    zn_status status = zn_fail_text((zn_status)made.vote.status, made.vote.text);
    if (status == ZN_OK && w->node.me != 0)
        status = memory_attach(&made.memory, &address);
    MPI_Barrier(local); /* all have mapped it */
    if (w->node.me == 0)
        memory_close(&made.memory);
    if (status == ZN_OK)
        worker_use_control(w, address);
    return status;
}

/* Before the control block serves, ranks agree by MPI itself. */
static zn_status agree_by_mpi(zn_status mine, int n_ranks)
{
    struct comm_vote vote = comm_vote(NULL, mine), *votes = malloc((size_t)n_ranks * sizeof vote);
    if (!votes)
        return zn_fail(ZN_ERR_MEMORY, "no memory to agree with %d ranks", n_ranks);
    zn_status status = ZN_ERR_IO;
    if (MPI_Allgather(&vote, sizeof vote, MPI_BYTE, votes, sizeof vote, MPI_BYTE, MPI_COMM_WORLD) ==
        MPI_SUCCESS)
        status = comm_count_votes(votes, sizeof vote, n_ranks, NULL);
    else
        zn_fail(status, "MPI did not start");
    free(votes);
    return status;
}

/* On the worker's thread. Learns the local ranks' processes, so that the death of one is seen. */
static zn_status watch_peers(struct worker *w, void *arg)
{
    (void)arg;
    int32_t pid = getpid(), *pids = malloc((size_t)w->head.n_ranks * sizeof *pids);
    int *watched = malloc((size_t)w->node.n_local * sizeof *watched);
    zn_status status = ZN_OK;
    if (!pids || !watched)
        status = zn_fail(ZN_ERR_MEMORY, "no memory for a table of processes");
    if (status == ZN_OK)
        status = worker_exchange(w, COMM_START, &pid, sizeof pid, pids);
    if (status != ZN_OK) {
        free(watched);
        free(pids);
        return status;
    }
    for (int i = 0; i < w->node.n_local; i++) {
        w->pids[i] = pids[w->ranks[i]];
        watched[i] = (int)syscall(SYS_pidfd_open, w->pids[i], 0); /* -1 on old kernels */
    }
    w->job.watched = watched;
    free(pids);
    return ZN_OK;
}

struct start {
    zn_clock *clock;
    comm_link *link;
    zn_stream *stream;
    struct worker *worker;
};

static zn_status start_worker(struct start *s, int rank, int n_ranks)
{
    MPI_Comm local = MPI_COMM_NULL;
    int n_local = 0, *ranks = NULL;
    struct worker *w = NULL;
    /* A rank that fails here has left the others of its node inside a collective: it ends the job, as it cannot agree. */
    ZN_TRY(find_node(rank, &local, &n_local, &ranks));
    zn_status status = worker_create(s->clock, rank, n_ranks, ranks, n_local, &w);
    free(ranks);
    s->worker = w;
    ZN_TRY(agree_by_mpi(status, n_ranks));
    w->processes = true;
    w->stream = s->stream;
    w->link = s->link;
    w->end = end;
    status = share_control(w, local);
    MPI_Comm_free(&local);
    ZN_TRY(agree_by_mpi(status, n_ranks));
    if (n_local == n_ranks)
        return ZN_OK;
    size_t n_bytes = 0;
    status = link_connect(w->link, &w->node, n_ranks);
    if (status == ZN_OK)
        status = network_create(w->link, &w->node, rank, n_ranks, &w->network, &n_bytes);
    w->head.buffer_bytes += n_bytes;
    return agree_by_mpi(status, n_ranks);
}

static zn_status start_on_thread(void *arg, bool *done)
{
    int rank, n_ranks;
    *done = true;
    ZN_TRY(start_mpi(&rank, &n_ranks));
    return start_worker(arg, rank, n_ranks);
}

zn_status zn_comm_create_mpi(zn_clock *clock, zn_comm **comm)
{
    struct start start = {.clock = clock};
    ZN_TRY(link_create(&start.link));
    zn_status status = zn_stream_create_thread(clock, &start.stream);
    if (status != ZN_OK) {
        link_destroy(start.link, false);
        return status;
    }
    status = link_run(start.link, start_on_thread, &start);
    if (status == ZN_OK)
        status = worker_call(start.worker, watch_peers, NULL);
    if (status != ZN_OK) {
        atexit(abort_at_exit); /* the job cannot go on without this rank */
        zn_stream_destroy(start.stream);
        link_destroy(start.link, true);
        if (start.worker)
            worker_free(start.worker);
        return status;
    }
    *comm = &start.worker->head;
    return ZN_OK;
}
