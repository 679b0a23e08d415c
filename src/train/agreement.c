/* Fingerprints of what every rank must have alike. */
#include "train/agreement.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/rng.h"
#include "checkpoint/fingerprint.h"
#include "schedule/verify.h"
#include "settings/compare.h"

enum { MAX_PARTS = ZN_N_SETTINGS + 9 };

_Static_assert(MAX_PARTS * sizeof(uint64_t) <= ZN_EXCHANGE_BYTES, "the hashes of a rank go into one exchange");

/* The list of parts is the program's: where the first, its version, is the same, the others are in the same places. */
struct fingerprint {
    int n;
    const char *what[MAX_PARTS];
    uint64_t hash[MAX_PARTS];
    zn_status status; /* sticky */
};

static void add_hash(struct fingerprint *f, const char *what, uint64_t hash)
{
    if (f->status != ZN_OK)
        return;
    if (f->n == MAX_PARTS) {
        f->status = zn_fail(ZN_ERR_INTERNAL, "a fingerprint of more than %d parts", MAX_PARTS);
        return;
    }
    f->what[f->n] = what;
    f->hash[f->n++] = hash;
}

static void add(struct fingerprint *f, const char *what, const char *format, ...) ZN_PRINTF(3, 4);

static void add(struct fingerprint *f, const char *what, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    add_hash(f, what, zn_random_key(0, text));
}

/* What the run has of each setting that all ranks must share. */
static void add_settings(struct fingerprint *f, const struct zn_settings *settings)
{
    for (size_t i = 0; i < ZN_N_SETTINGS; i++) {
        uint64_t hash = 0;
        if (zn_settings_table[i].ranks != ZN_RANKS_SAME)
            continue;
        if (f->status == ZN_OK)
            f->status = zn_settings_hash(settings, i, &hash);
        add_hash(f, zn_settings_table[i].name, hash);
    }
}

static zn_status hash_config(const zn_json *config, uint64_t *hash)
{
    char *text;
    ZN_TRY(zn_json_print(config, &text));
    *hash = zn_random_key(0, text);
    free(text);
    return ZN_OK;
}

static zn_status take_fingerprint(const struct zn_run *run, const struct zn_settings *settings,
                                  const struct zn_engine_options *engine, const struct zn_data *data,
                                  const struct zn_data *eval_data, struct fingerprint *f)
{
    uint64_t config, weights = 0, adapter = 0;
    *f = (struct fingerprint){0};
    ZN_TRY(hash_config(run->config, &config));
    if (run->files)
        ZN_TRY(zn_fingerprint_weights(run->files, &weights));
    if (run->adapter)
        ZN_TRY(zn_peft_hash(run->adapter, &adapter));
    add(f, "the program's version", "%s", zn_version());
    add_hash(f, "the model's config.json", config);
    add_hash(f, "the model's weights", weights);
    add_hash(f, "the adapter", adapter);
    add_hash(f, "the data", data->hash);
    add_hash(f, "the held-out data", eval_data->hash);
    add_settings(f, settings);
    add(f, "--prefetch-bytes", "%zu", engine->reuse_bytes);
    add_hash(f, "the program of a step", zn_program_digest(&run->plan.program));
    add(f, "--resume", "%lld", run->checkpoint ? (long long)run->checkpoint->state.step : -1);
    return f->status;
}

zn_status zn_agree_on_run(const struct zn_run *run, const struct zn_settings *settings, const struct zn_engine_options *engine,
                          const struct zn_data *data, const struct zn_data *eval_data)
{
    struct fingerprint mine;
    int n_ranks = zn_comm_n_ranks(run->comm);
    uint64_t(*all)[MAX_PARTS] = calloc((size_t)n_ranks, sizeof *all);
    zn_status status = all ? take_fingerprint(run, settings, engine, data, eval_data, &mine)
                           : zn_fail(ZN_ERR_MEMORY, "no memory for %d ranks", n_ranks);
    status = zn_comm_agree(run->comm, status);
    if (status == ZN_OK)
        status = zn_comm_exchange(run->comm, mine.hash, sizeof *all, all);
    for (int r = 1; r < n_ranks && status == ZN_OK; r++) {
        for (int i = 0; i < mine.n && status == ZN_OK; i++) {
            if (all[r][i] != all[0][i])
                status = zn_fail(ZN_ERR_INPUT, "rank %d and rank 0 differ in %s", r, mine.what[i]);
        }
    }
    free(all);
    return status;
}

/* A table of one number for each rank, filled; the caller frees it. */
static zn_status exchange_numbers(zn_comm *comm, uint64_t mine, uint64_t **table)
{
    int n_ranks = zn_comm_n_ranks(comm);
    uint64_t *all = calloc((size_t)n_ranks, sizeof *all);
    zn_status status = zn_comm_agree(comm, all ? ZN_OK : zn_fail(ZN_ERR_MEMORY, "no memory for %d ranks", n_ranks));
    if (status == ZN_OK)
        status = zn_comm_exchange(comm, &mine, sizeof mine, all);
    if (status != ZN_OK) {
        free(all);
        return status;
    }
    *table = all;
    return ZN_OK;
}

zn_status zn_agree_on_resume(const struct zn_run *run, const struct zn_settings *settings)
{
    uint64_t *all = NULL;
    zn_status status = ZN_OK;
    ZN_TRY(exchange_numbers(run->comm, ZN_GIVEN(settings, resume), &all));
    for (int r = 1; r < zn_comm_n_ranks(run->comm) && status == ZN_OK; r++)
        if (all[r] != all[0])
            status = zn_fail(ZN_ERR_INPUT, "rank %d and rank 0 differ in --resume", r);
    free(all);
    return status;
}

zn_status zn_agree_on_machine(struct zn_run *run)
{
    int n_ranks = zn_comm_n_ranks(run->comm);
    struct machine {
        size_t memory_limit, device_limit;
        struct zn_cluster figures;
    } mine = {run->memory_limit, run->device_limit, run->figures}, *all = calloc((size_t)n_ranks, sizeof *all);
    _Static_assert(sizeof mine <= ZN_EXCHANGE_BYTES, "it is one exchange");
    zn_status status = zn_comm_agree(run->comm, all ? ZN_OK : zn_fail(ZN_ERR_MEMORY, "no memory for %d ranks", n_ranks));
    if (status == ZN_OK)
        status = zn_comm_exchange(run->comm, &mine, sizeof mine, all);
    for (int r = 0; r < n_ranks && status == ZN_OK; r++) {
        run->memory_limit = all[r].memory_limit < run->memory_limit ? all[r].memory_limit : run->memory_limit;
        run->device_limit = all[r].device_limit < run->device_limit ? all[r].device_limit : run->device_limit;
    }
    if (status == ZN_OK)
        run->figures = all[0].figures;
    free(all);
    return status;
}
