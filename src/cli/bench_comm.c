/* `zinc bench comm`: gathers and reductions between ranks, beside copies of memory that all ranks make at once.
 *
 * Ranks are threads of this process, which meet in shared memory as processes of a node do; under mpirun or srun they are the job's. */
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/machine.h"
#include "base/median.h"
#include "base/size.h"
#include "cli/bench.h"
#include "cli/commands.h"
#include "comm/comm.h"

enum { MAX_ROUNDS = 101, N_SIZES = 3, MAX_RANKS = 64 };

struct flags {
    int64_t ranks, rounds;
    bool json;
};

#define AT(field) offsetof(struct flags, field)

static const struct zn_option options[] = {
    {.name = "--ranks", .kind = ZN_OPTION_INT, .offset = AT(ranks), .value = "N", .range = "[1, 64]",
     .otherwise = "physical cores; under mpirun the job's", .help = "Ranks, as threads of this process."},
    {.name = "--rounds", .kind = ZN_OPTION_INT, .offset = AT(rounds), .value = "N", .initial = "9", .range = "[1, 101]",
     .help = "Rounds that the medians are taken of."},
    {.name = "--json", .kind = ZN_OPTION_FLAG, .offset = AT(json), .help = "Print one JSON value."},
};

static const struct zn_command command = {
    .name = "zinc bench comm",
    .summary = "gathers and reductions between ranks, beside a copy of memory",
    .usage = "[flags]",
    .example = "mpirun -n 4 zinc bench comm --json",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
};

static const size_t sizes[N_SIZES] = {1 << 20, 8 << 20, 64 << 20}; /* of all pieces together */

enum { GATHER, REDUCE_FP32, REDUCE_BF16, COPY, N_KINDS };
static const char *const kinds[N_KINDS] = {"gather", "reduce_fp32", "reduce_bf16", "copy"};

/* A rank and what it measures. */
struct rank {
    const struct flags *flags;
    zn_comm *comm;
    zn_clock clock;
    struct zn_shared from;
    unsigned char *to;
    double seconds[N_SIZES][N_KINDS]; /* medians; the slowest rank's, on all */
    zn_status status;
    char message[512];
};

static zn_status do_once(struct rank *r, int kind, size_t n_bytes)
{
    size_t piece = n_bytes / (size_t)zn_comm_n_ranks(r->comm);
    zn_event done;
    if (kind == COPY) {
        memcpy(r->to, r->from.address, n_bytes);
        return ZN_OK;
    }
    zn_event_init(&done);
    zn_event_reset(&done);
    zn_status status;
    if (kind == GATHER)
        status = zn_comm_gather(r->comm, &(struct zn_gather){.tag = {ZN_COMM_GATHER_PARAM, 0}, .from = &r->from,
                                                             .n_bytes = piece, .to = zn_extent_of(r->to, n_bytes)}, &done);
    else
        status = zn_comm_reduce(r->comm, &(struct zn_reduce){.tag = {ZN_COMM_REDUCE_GRAD, 0}, .from = &r->from,
                                                             .n_elements = (int64_t)(piece / sizeof(float)),
                                                             .wire = kind == REDUCE_FP32 ? ZN_F32 : ZN_BF16,
                                                             .to = zn_extent_of(r->to, piece)}, &done);
    if (status == ZN_OK)
        status = zn_event_wait(&done, &r->clock);
    zn_event_fini(&done);
    return status;
}

/* A round begins on all ranks together and ends with the last. */
static zn_status time_once(struct rank *r, int kind, size_t n_bytes, double *seconds)
{
    double all[MAX_RANKS], mine;
    int n_ranks = zn_comm_n_ranks(r->comm);
    ZN_TRY(zn_comm_exchange(r->comm, &(char){0}, 1, all));
    double begin = zn_clock_now(&r->clock);
    ZN_TRY(do_once(r, kind, n_bytes));
    mine = zn_clock_now(&r->clock) - begin;
    ZN_TRY(zn_comm_exchange(r->comm, &mine, sizeof mine, all));
    *seconds = 0;
    for (int i = 0; i < n_ranks; i++)
        *seconds = all[i] > *seconds ? all[i] : *seconds;
    return ZN_OK;
}

static zn_status measure(struct rank *r)
{
    double seconds[N_KINDS][MAX_ROUNDS], warm;
    for (int size = 0; size < N_SIZES; size++) {
        size_t granule = (size_t)zn_comm_n_ranks(r->comm) * 64, n_bytes = sizes[size] / granule * granule;
        for (int64_t round = -1; round < r->flags->rounds; round++)
            for (int kind = 0; kind < N_KINDS; kind++)
                ZN_TRY(time_once(r, kind, n_bytes, round >= 0 ? &seconds[kind][round] : &warm));
        for (int kind = 0; kind < N_KINDS; kind++)
            r->seconds[size][kind] = zn_median(seconds[kind], (int)r->flags->rounds);
    }
    return ZN_OK;
}

static zn_status run_rank(struct rank *r)
{
    r->to = aligned_alloc(4096, sizes[N_SIZES - 1]);
    if (!r->to)
        return zn_fail(ZN_ERR_MEMORY, "no memory for a measurement");
    memset(r->to, 0, sizes[N_SIZES - 1]);
    ZN_TRY(zn_comm_alloc(r->comm, sizes[N_SIZES - 1], &r->from));
    zn_status status = measure(r);
    if (status == ZN_OK)
        zn_comm_free(r->comm, &r->from);
    return status;
}

static void *rank_main(void *self)
{
    struct rank *r = self;
    zn_clock_init_real(&r->clock);
    r->status = run_rank(r);
    if (r->status != ZN_OK) {
        zn_comm_abort(r->comm, r->status);
        snprintf(r->message, sizeof r->message, "%s", zn_error_message());
    }
    free(r->to);
    zn_comm_destroy(r->comm);
    return NULL;
}

/* Bytes that a rank brings together a second: what a copy of as much moves. */
static void print(const struct rank *r, int n_ranks)
{
    char text[ZN_SIZE_TEXT];
    if (r->flags->json)
        printf("{\"benchmark\":\"comm\",\"ranks\":%d,\"rounds\":%lld,\"sizes\":[", n_ranks, (long long)r->flags->rounds);
    else
        printf("%d ranks; GB/s that each of them brings together, all at once\n%10s %12s %12s %12s %12s\n", n_ranks, "", kinds[0],
               kinds[1], kinds[2], kinds[3]);
    for (int size = 0; size < N_SIZES; size++) {
        printf(r->flags->json ? "%s{\"bytes\":%s" : "%s%10s", r->flags->json && size ? "," : "",
               r->flags->json ? (snprintf(text, sizeof text, "%zu", sizes[size]), text) : zn_size_text(sizes[size], text));
        for (int kind = 0; kind < N_KINDS; kind++) {
            double rate = (double)sizes[size] / r->seconds[size][kind];
            if (r->flags->json)
                printf(",\"%s\":%.6g", kinds[kind], rate);
            else
                printf(" %12.2f", 1e-9 * rate);
        }
        printf(r->flags->json ? "}" : "\n");
    }
    printf(r->flags->json ? "]}\n" : "");
}

/* The ranks that mpirun started: this process is one. */
static zn_status run_job(const struct flags *f)
{
    struct rank r = {.flags = f};
    zn_clock clock;
    zn_clock_init_real(&clock);
    if (f->ranks > 0)
        return zn_fail(ZN_ERR_USAGE, "--ranks: mpirun or srun has started the ranks already; leave it off");
    ZN_TRY(zn_comm_create_mpi(&clock, &r.comm));
    int rank = zn_comm_rank(r.comm), n_ranks = zn_comm_n_ranks(r.comm);
    if (n_ranks > MAX_RANKS) {
        zn_comm_destroy(r.comm);
        return zn_fail(ZN_ERR_USAGE, "%d ranks are more than the %d this measurement takes", n_ranks, MAX_RANKS);
    }
    rank_main(&r);
    if (r.status != ZN_OK)
        return zn_fail(r.status, "%s", r.message);
    if (rank == 0)
        print(&r, n_ranks);
    return ZN_OK;
}

static zn_status run_threads(const struct flags *f)
{
    struct zn_machine machine;
    zn_clock clock;
    zn_comm *comms[MAX_RANKS];
    pthread_t threads[MAX_RANKS];
    zn_clock_init_real(&clock);
    ZN_TRY(zn_machine_read("", &machine));
    int n = (int)(f->ranks ? f->ranks : machine.n_cores < MAX_RANKS ? machine.n_cores : MAX_RANKS), n_started = 0;
    struct rank *ranks = calloc((size_t)n, sizeof *ranks);
    if (!ranks)
        return zn_fail(ZN_ERR_MEMORY, "no memory for ranks");
    zn_status status = n == 1 ? zn_comm_create_self(&clock, comms) : zn_comm_create_threads(&clock, n, comms);
    for (int i = 0; i < n && status == ZN_OK; i++) {
        ranks[i].flags = f;
        ranks[i].comm = comms[i];
        if (pthread_create(&threads[i], NULL, rank_main, &ranks[i]) != 0)
            status = zn_fail(ZN_ERR_MEMORY, "cannot start the thread of rank %d", i);
        else
            n_started++;
    }
    if (status != ZN_OK && n_started > 0)
        zn_comm_abort(comms[n_started], status);
    for (int i = 0; i < n_started; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < n_started && status == ZN_OK; i++)
        if (ranks[i].status != ZN_OK)
            status = zn_fail(ranks[i].status, "%s", ranks[i].message);
    if (status == ZN_OK)
        print(&ranks[0], n);
    free(ranks);
    return status;
}

static zn_status run(const struct flags *f)
{
    ZN_TRY(zn_comm_is_launched() ? run_job(f) : run_threads(f));
    return fflush(stdout) == 0 ? ZN_OK : zn_fail(ZN_ERR_IO, "cannot write to standard output");
}

int zn_cli_bench_comm(int argc, char **argv)
{
    struct flags f = {0};
    struct zn_options given;
    int code = zn_cli_begin(&command, argc, argv, &f, &given);
    if (code < 0)
        code = zn_cli_end(&command, run(&f));
    zn_options_fini(&given, &f);
    return code;
}
