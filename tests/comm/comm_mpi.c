/* One rank of a job of processes; test_mpi.sh and test_namespaces.sh start it under mpirun.
 *
 *   comm_mpi all               every check of checks.h
 *   comm_mpi fail HOW          rank 1 fails: exit, kill, abort, agree, disagree; the others gather on
 *   comm_mpi wait              the others wait for rank 0 for a second: prints what that cost
 *   comm_mpi large BYTES       one gather and one reduce of that size
 *   comm_mpi speed BYTES       gather and reduce beside memcpy
 *   comm_mpi nodes N           whether the ranks lie on N nodes
 *   comm_mpi groups D S T      every check of group_checks.h in that mesh
 *   comm_mpi fail-group HOW D S T   rank 1 fails in its tensor group: kill, abort, disagree; those of its data group wait there */
#include <signal.h>
#include <sys/resource.h>

#include "base/size.h"
#include "comm/group_checks.h"

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static zn_status gather_round(const struct world *w, const struct zn_shared *part, int unit,
                              size_t n_bytes, unsigned char *to)
{
    zn_event done;
    zn_event_init(&done);
    struct zn_gather gather = {
        .tag = {ZN_COMM_GATHER_PARAM, unit}, .from = part, .n_bytes = n_bytes, .to = zn_extent_of(to, (size_t)w->n * n_bytes)};
    zn_status status = zn_comm_gather(w->comm, &gather, &done);
    if (status == ZN_OK)
        status = zn_event_wait(&done, w->clock);
    zn_event_fini(&done);
    return status;
}

static zn_status reduce_round(const struct world *w, const struct zn_shared *part,
                              int64_t n_elements, zn_dtype wire, float *to)
{
    zn_event done;
    zn_event_init(&done);
    struct zn_reduce reduce = {.tag = {ZN_COMM_REDUCE_GRAD, 0},
                               .from = part,
                               .n_elements = n_elements,
                               .wire = wire,
                               .to = zn_extent_of(to, (size_t)n_elements * sizeof(float))};
    zn_status status = zn_comm_reduce(w->comm, &reduce, &done);
    if (status == ZN_OK)
        status = zn_event_wait(&done, w->clock);
    zn_event_fini(&done);
    return status;
}

/* Rank 1 fails after some rounds; the others go on until they are told, which must be soon. */
static zn_status run_failure(const struct world *w, const char *how)
{
    enum { PIECE = 100000 };
    struct zn_shared part;
    unsigned char *to = malloc((size_t)w->n * PIECE);
    zn_status status = zn_comm_alloc(w->comm, PIECE, &part);
    double start = now();
    for (int round = 0; status == ZN_OK; round++) {
        if (w->rank == 1 && round == 20) {
            printf("fails at %lld\n", (long long)time(NULL));
            fflush(stdout);
            if (strcmp(how, "exit") == 0)
                _exit(3);
            if (strcmp(how, "kill") == 0)
                raise(SIGKILL);
            if (strcmp(how, "abort") == 0)
                zn_comm_abort(w->comm, zn_fail(ZN_ERR_IO, "the disk is gone"));
        }
        bool differs = strcmp(how, "disagree") == 0 && w->rank == 1 && round == 20;
        start = now();
        status = gather_round(w, &part, differs ? -1 : round, PIECE, to);
        if (status == ZN_OK && strcmp(how, "agree") == 0 && round == 20)
            status =
                zn_comm_agree(w->comm, w->rank == 1 ? zn_fail(ZN_ERR_INPUT, "bad file") : ZN_OK);
    }
    free(to);
    return now() - start < 5 ? status
                             : zn_fail(ZN_ERR_INTERNAL, "learned it after %.1f s", now() - start);
}

static double cpu_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static zn_status run_wait(const struct world *w)
{
    ZN_TRY(zn_comm_agree(w->comm, ZN_OK));
    double before = cpu_seconds();
    if (w->rank == 0)
        sleep(1);
    ZN_TRY(zn_comm_agree(w->comm, ZN_OK));
    double cost = cpu_seconds() - before;
    printf("rank %d: %.3f s of processor for 1 s of waiting\n", w->rank, cost);
    CHECK(cost < 0.15);
    return ZN_OK;
}

/* A gather with pieces of n_bytes, and a reduce with all of them together that large. Marks at the
 * ends and across 2^31 and 2^32; all of it would take too long. */
static zn_status run_large(const struct world *w, size_t n_bytes)
{
    struct zn_shared part;
    const size_t at[] = {0, 12344, 0x7ffffffc, 0x80000000, 0xfffffffc, 0x100000000, n_bytes - 4};
    enum { N_MARKS = sizeof at / sizeof *at };
    int64_t n_elements = (int64_t)(n_bytes / 4) / w->n;
    unsigned char *to = calloc((size_t)w->n, n_bytes);
    float *sums = (float *)(void *)to;
    ZN_TRY(zn_comm_alloc(w->comm, n_bytes, &part));
    CHECK(to && n_bytes % ((size_t)w->n * 4) == 0);
    for (int i = 0; i < N_MARKS; i++)
        if (at[i] < n_bytes)
            *(float *)(void *)(part.address + at[i]) = (float)(100 * w->rank + i);
    ZN_TRY(gather_round(w, &part, 0, n_bytes, to));
    for (int r = 0; r < w->n; r++)
        for (int i = 0; i < N_MARKS; i++)
            if (at[i] < n_bytes)
                CHECK(sums[((size_t)r * n_bytes + at[i]) / 4] == (float)(100 * r + i));
    ZN_TRY(reduce_round(w, &part, n_elements, ZN_F32, sums));
    for (int i = 0; i < N_MARKS; i++) {
        int64_t element = (int64_t)(at[i] / 4) - (int64_t)w->rank * n_elements;
        if (at[i] < n_bytes && element >= 0 && element < n_elements)
            CHECK(sums[element] == (float)(50 * w->n * (w->n - 1) + w->n * i));
    }
    free(to);
    zn_comm_free(w->comm, &part);
    return ZN_OK;
}

static zn_status run_speed(const struct world *w, size_t n_bytes)
{
    enum { ROUNDS = 10 };
    struct zn_shared part;
    size_t total = (size_t)w->n * n_bytes;
    ZN_TRY(zn_comm_alloc(w->comm, total, &part));
    unsigned char *to = malloc(total);
    CHECK(to);
    memset(to, 1, total);
    memset(part.address, 0, total);
    double start = now();
    for (int i = 0; i < ROUNDS; i++)
        memcpy(to, part.address, n_bytes);
    double copy = (now() - start) / ROUNDS;
    ZN_TRY(zn_comm_agree(w->comm, ZN_OK));
    start = now();
    for (int i = 0; i < ROUNDS; i++)
        ZN_TRY(gather_round(w, &part, 0, n_bytes, to));
    double gather = (now() - start) / ROUNDS;
    double reduce[3];
    for (int t = 0; t < 3; t++) {
        start = now();
        for (int i = 0; i < ROUNDS; i++)
            ZN_TRY(reduce_round(w, &part, (int64_t)(n_bytes / 4),
                                (zn_dtype[]){ZN_F32, ZN_BF16, ZN_F16}[t], (float *)(void *)to));
        reduce[t] = (now() - start) / ROUNDS;
    }
    double all = (double)total;
    if (w->rank == 0)
        printf("{\"ranks\":%d,\"piece_bytes\":%zu,\"memcpy_GBps\":%.3g,\"gather_GBps\":%.3g,"
               "\"reduce_fp32_GBps\":%.3g,\"reduce_bf16_GBps\":%.3g,\"reduce_fp16_GBps\":%.3g}\n",
               w->n, n_bytes, (double)n_bytes / copy * 1e-9, all / gather * 1e-9,
               all / reduce[0] * 1e-9, all / reduce[1] * 1e-9, all / reduce[2] * 1e-9);
    free(to);
    zn_comm_free(w->comm, &part);
    return ZN_OK;
}

static zn_status run_nodes(const struct world *w, int n_nodes)
{
    int leads = zn_comm_local_rank(w->comm) == 0, n = 0, *all = malloc((size_t)w->n * sizeof *all);
    zn_status status = zn_comm_exchange(w->comm, &leads, sizeof leads, all);
    for (int r = 0; r < w->n && status == ZN_OK; r++)
        n += all[r];
    free(all);
    if (status == ZN_OK && n != n_nodes)
        status = zn_fail(ZN_ERR_INTERNAL, "%d nodes, not %d", n, n_nodes);
    return status;
}

/* After some rounds in both groups rank 1 fails in its tensor group. Others of that group go on there, all others in their data
 * groups, until they are told, which must be soon. */
static zn_status run_group_failure(const struct world *w, const char *how, const struct zn_mesh *mesh)
{
    enum { SMALL = 50000 };
    struct split s;
    struct zn_shared parts[ZN_N_AXES];
    unsigned char *to = malloc((size_t)w->n * SMALL);
    split_begin(&s, w, mesh);
    for (zn_axis axis = ZN_DATA; axis <= ZN_TENSOR; axis++)
        CHECK(zn_comm_alloc(s.groups[axis], SMALL, &parts[axis]) == ZN_OK);
    for (int round = 0; round < 10; round++)
        for (zn_axis axis = ZN_DATA; axis <= ZN_TENSOR; axis++)
            CHECK(gather_round(&s.of[axis], &parts[axis], round, SMALL, to) == ZN_OK);
    zn_status status = zn_comm_agree(w->comm, ZN_OK); /* rank 1 may fail while others are still in it */
    CHECK(status == ZN_OK || w->rank != 1);
    if (w->rank == 1) {
        printf("fails at %lld\n", (long long)time(NULL));
        fflush(stdout);
        if (strcmp(how, "kill") == 0)
            raise(SIGKILL);
        if (strcmp(how, "abort") == 0)
            zn_comm_abort(s.groups[ZN_TENSOR], zn_fail(ZN_ERR_IO, "the disk is gone"));
    }
    bool is_beside = w->rank / mesh->tensor == 1 / mesh->tensor, differs = strcmp(how, "disagree") == 0 && w->rank == 1;
    zn_axis axis = is_beside ? ZN_TENSOR : ZN_DATA;
    double start = now();
    for (int round = 10; status == ZN_OK && now() - start < 20; round++)
        status = gather_round(&s.of[axis], &parts[axis], differs ? -1 : round, SMALL, to);
    if (status != ZN_OK && now() - start >= 5)
        status = zn_fail(ZN_ERR_INTERNAL, "learned it after %.1f s", now() - start);
    char text[1024];
    snprintf(text, sizeof text, "%s", zn_error_message());
    for (zn_axis other = ZN_WORLD; other < ZN_N_AXES && status != ZN_OK; other++) /* all groups have the same failure */
        CHECK(zn_comm_agree(s.groups[other], ZN_OK) == status && strcmp(zn_error_message(), text) == 0);
    free(to);
    split_end(&s);
    return status == ZN_OK ? ZN_OK : zn_fail_text(status, text);
}

static zn_status run(const struct world *w, int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "", *how = argc > 2 ? argv[2] : "";
    size_t n_bytes = 0;
    if (strcmp(what, "all") == 0) {
        check_all(w);
        check_speaks(w);
        for (int n = 1; n < 3; n++) /* several blocks between nodes */
            check_reduce(w, 11, n * 3000000, n == 1 ? ZN_BF16 : ZN_F32, n == 1, n == 2);
        return ZN_OK;
    }
    if (strcmp(what, "fail") == 0)
        return run_failure(w, how);
    if (strcmp(what, "wait") == 0)
        return run_wait(w);
    if (strcmp(what, "nodes") == 0)
        return run_nodes(w, atoi(how));
    bool is_group = strcmp(what, "groups") == 0;
    if (argc == (is_group ? 5 : 6) && (is_group || strcmp(what, "fail-group") == 0)) {
        struct zn_mesh mesh = {atoi(argv[argc - 3]), atoi(argv[argc - 2]), atoi(argv[argc - 1])};
        if (!is_group)
            return run_group_failure(w, how, &mesh);
        check_groups(w, &mesh);
        return ZN_OK;
    }
    ZN_TRY(zn_size_parse(how, "BYTES", &n_bytes));
    if (strcmp(what, "large") == 0)
        return run_large(w, n_bytes);
    if (strcmp(what, "speed") == 0)
        return run_speed(w, n_bytes);
    return zn_fail(ZN_ERR_USAGE, "unknown: %s", what);
}

int main(int argc, char **argv)
{
    zn_clock clock;
    zn_comm *comm;
    zn_clock_init_real(&clock);
    CHECK(zn_comm_is_launched());
    zn_status status = zn_comm_create_mpi(&clock, &comm);
    if (status != ZN_OK) {
        fprintf(stderr, "cannot start: %s\n", zn_error_message());
        return 1;
    }
    struct world world = {.comm = comm, .clock = &clock, .rank = zn_comm_rank(comm), .n = zn_comm_n_ranks(comm)};
    status = run(&world, argc, argv);
    if (status != ZN_OK)
        fprintf(stderr, "on rank %d: %s\n", world.rank, zn_error_message());
    zn_comm_destroy(comm);
    if (status == ZN_OK && world.rank == 0)
        printf("done: %d ranks\n", world.n);
    return status == ZN_OK ? 0 : 1;
}
