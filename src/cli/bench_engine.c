/* Engines and their threads. Each rank is opened, stepped and closed by a thread of its own; one rank by the caller's. */
#include "cli/bench_engine.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "device/recording.h"
#include "optim/registry.h"
#include "plan/dry_run.h"

struct rank {
    struct bench_engine *all;
    zn_status (*act)(struct rank *rank);
    zn_ledger ledger;
    zn_device *cpu;
    struct zn_world world;
    zn_engine *engine;
    zn_status status;
    char message[512];
};

struct bench_engine {
    struct bench_job job;
    zn_clock clock;
    zn_engine_plan plan;
    bool has_plan;
    int32_t *tokens;
    zn_comm **comms;
    struct rank *ranks;
};

struct zn_engine_options bench_options(zn_dtype type, int64_t micro_batch, int64_t seq_len)
{
    return (struct zn_engine_options){.trains = true, .type = type, .micro_batch = micro_batch, .seq_len = seq_len,
                                      .accumulate = 1, .delay_after = -1, .prefetch_bytes = 64 << 20, .reuse_bytes = 64 << 20,
                                      .keep_logits = true, .optimizer = &zn_optimizer_adamw,
                                      .hyperparameters = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.1}};
}

static double cpu_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

struct bench_time bench_now(zn_clock *clock)
{
    return (struct bench_time){.seconds = zn_clock_now(clock), .cpu_seconds = cpu_seconds()};
}

struct bench_time bench_since(zn_clock *clock, struct bench_time start)
{
    struct bench_time now = bench_now(clock);
    return (struct bench_time){.seconds = now.seconds - start.seconds, .cpu_seconds = now.cpu_seconds - start.cpu_seconds};
}

/* ---- On all ranks ---- */

static void *act(void *self)
{
    struct rank *rank = self;
    rank->status = rank->act(rank);
    if (rank->status != ZN_OK && rank->world.comm) {
        zn_comm_abort(rank->world.comm, rank->status); /* the others do not wait for it */
        snprintf(rank->message, sizeof rank->message, "%s", zn_error_message());
    }
    return NULL;
}

static zn_status on_ranks(struct bench_engine *e, zn_status (*function)(struct rank *rank))
{
    int n = e->job.n_ranks, n_started = 0;
    pthread_t *threads = calloc((size_t)n, sizeof *threads);
    if (!threads)
        return zn_fail(ZN_ERR_MEMORY, "no memory for ranks");
    zn_status status = ZN_OK;
    for (int r = 0; r < n && status == ZN_OK; r++) {
        e->ranks[r].act = function;
        if (n == 1)
            act(&e->ranks[r]);
        else if (pthread_create(&threads[r], NULL, act, &e->ranks[r]) != 0)
            status = zn_fail(ZN_ERR_MEMORY, "cannot start the thread of rank %d", r);
        else
            n_started++;
    }
    if (status != ZN_OK && n_started > 0)
        zn_comm_abort(e->comms[n_started], status);
    for (int r = 0; r < n_started; r++)
        pthread_join(threads[r], NULL);
    free(threads);
    for (int r = 0; r < n && status == ZN_OK; r++)
        if (e->ranks[r].status != ZN_OK)
            status = n == 1 ? e->ranks[r].status : zn_fail(e->ranks[r].status, "%s", e->ranks[r].message);
    return status;
}

/* ---- A rank ---- */

static zn_status open_rank(struct rank *rank)
{
    struct bench_engine *e = rank->all;
    const zn_module *module = e->job.model->module;
    zn_ledger_init(&rank->ledger);
    ZN_TRY(zn_device_create_cpu(&rank->ledger, &e->clock, e->job.n_threads, NULL, &rank->cpu));
    ZN_TRY(zn_device_create_recording(rank->cpu, &rank->world.device));
    if (zn_placement_wants_host(&e->job.options))
        ZN_TRY(zn_device_create_cpu(&rank->ledger, &e->clock, 1, NULL, &rank->world.host));
    if (e->plan.swap_bytes)
        ZN_TRY(zn_storage_create_files(&(struct zn_storage_options){.paths = &e->job.nvme_path, .n_paths = 1,
                                                                    .n_bytes = e->plan.swap_bytes},
                                       &rank->world.storage));
    ZN_TRY(zn_zero_create(&rank->world, module, &e->job.options, &e->plan, &rank->engine));
    for (int i = 0; i < module->n_params; i++)
        ZN_TRY(zn_engine_init_param(rank->engine, &module->params[i], 1));
    return zn_engine_publish(rank->engine);
}

static zn_status step_rank(struct rank *rank)
{
    const struct bench_engine *e = rank->all;
    const struct zn_engine_options *o = &e->job.options;
    double n_tokens = (double)(o->micro_batch * o->seq_len * e->job.n_ranks);
    const struct zn_micro_batch batch = {.ids = e->tokens, .targets = e->tokens};
    struct zn_verdict verdict;
    return zn_zero_step(rank->engine,
                          &(struct zn_step){.batches = &batch, .scale = (float)(1 / n_tokens), .lr = 1e-5, .loss_scale = 1},
                          &verdict);
}

static zn_status close_rank(struct rank *rank)
{
    zn_zero_destroy(rank->engine);
    zn_storage_destroy(rank->world.storage);
    zn_device_destroy(rank->world.host);
    zn_device_destroy(rank->world.device);
    zn_device_destroy(rank->cpu);
    zn_comm_destroy(rank->world.comm);
    rank->world.comm = NULL;
    return ZN_OK;
}

/* ---- The engine ---- */

/* Tokens like those of a text in one thing alone: neighbours differ. */
static zn_status make_tokens(struct bench_engine *e)
{
    int64_t n = e->job.options.micro_batch * e->job.options.seq_len, vocabulary = e->job.model->module->vocabulary;
    e->tokens = calloc((size_t)n, sizeof *e->tokens);
    if (!e->tokens)
        return zn_fail(ZN_ERR_MEMORY, "no memory for tokens");
    for (int64_t i = 0; i < n; i++)
        e->tokens[i] = (int32_t)(i * 7919 % vocabulary);
    return ZN_OK;
}

static zn_status make_comms(struct bench_engine *e)
{
    int n = e->job.n_ranks;
    e->comms = calloc((size_t)n, sizeof(zn_comm *));
    e->ranks = calloc((size_t)n, sizeof *e->ranks);
    if (!e->comms || !e->ranks)
        return zn_fail(ZN_ERR_MEMORY, "no memory for ranks");
    ZN_TRY(n == 1 ? zn_comm_create_self(&e->clock, e->comms) : zn_comm_create_threads(&e->clock, n, e->comms));
    for (int r = 0; r < n; r++) {
        e->ranks[r].all = e;
        e->ranks[r].world.comm = e->comms[r];
    }
    return ZN_OK;
}

zn_status bench_engine_open(const struct bench_job *job, bench_engine **engine)
{
    struct bench_engine *e = calloc(1, sizeof *e);
    if (!e)
        return zn_fail(ZN_ERR_MEMORY, "no memory for an engine");
    e->job = *job;
    zn_clock_init_real(&e->clock);
    zn_status status = zn_dry_run(job->model->module, &e->job.options, job->n_ranks, &e->plan);
    e->has_plan = status == ZN_OK;
    if (status == ZN_OK)
        status = make_tokens(e);
    if (status == ZN_OK)
        status = make_comms(e);
    if (status == ZN_OK)
        status = on_ranks(e, open_rank);
    if (status == ZN_OK)
        *engine = e;
    else
        bench_engine_close(e);
    return status;
}

void bench_engine_close(bench_engine *e)
{
    if (!e)
        return;
    if (e->ranks && e->ranks[0].all)
        on_ranks(e, close_rank);
    free(e->ranks);
    free(e->comms);
    free(e->tokens);
    if (e->has_plan)
        zn_engine_plan_fini(&e->plan);
    free(e);
}

zn_status bench_engine_step(bench_engine *e, struct bench_time *time)
{
    struct bench_time start = bench_now(&e->clock);
    ZN_TRY(on_ranks(e, step_rank));
    *time = bench_since(&e->clock, start);
    return ZN_OK;
}

struct zn_moved bench_engine_moved(const bench_engine *e)
{
    return zn_engine_moved(e->ranks[0].engine);
}

zn_device *bench_engine_device(const bench_engine *e)
{
    return e->ranks[0].world.device;
}
