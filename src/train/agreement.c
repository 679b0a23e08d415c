/* Fingerprints of what every rank must have alike. */
#include "train/agreement.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/rng.h"
#include "schedule/verify.h"

enum {
    MAX_PARTS = 64,
    SAMPLE_BYTES = 64 /* at the start of each tensor */
};

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

static uint64_t hash_words(const char *const *words, size_t n)
{
    uint64_t hash = n;
    for (size_t i = 0; i < n; i++)
        hash = zn_random_key(hash, words[i]);
    return hash;
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

static uint64_t mix(uint64_t hash, const unsigned char *bytes, size_t n_bytes)
{
    for (size_t i = 0; i < n_bytes; i++)
        hash = zn_random_bits(hash, bytes[i]);
    return hash;
}

static void add_options(struct fingerprint *f, const struct zn_train_options *o, const struct zn_engine_options *e)
{
    add(f, "--from-scratch", "%d", o->from_scratch);
    add(f, "--precision", "%d", e->type);
    add(f, "--stage", "%d", e->stage);
    add(f, "--reduce", "%d", e->reduce_every);
    add(f, "--recompute", "%d %d", e->recompute, e->keep_logits);
    add(f, "--steps", "%lld", (long long)o->steps);
    add(f, "--micro-batch", "%lld", (long long)e->micro_batch);
    add(f, "--accumulate", "%lld", (long long)e->accumulate);
    add(f, "--packing", "%s %d", o->packing ? o->packing : "", o->truncate_rows);
    add(f, "--seq-len", "%lld", (long long)e->seq_len);
    add(f, "--prefetch-bytes", "%zu %zu", e->prefetch_bytes, e->reuse_bytes);
    add(f, "--persist-below", "%zu", e->persist_bytes);
    add(f, "--offload-optimizer", "%d", e->offload.optimizer);
    add(f, "--offload-param", "%d", e->offload.parameters);
    add(f, "--offload-gradients", "%d", e->offload.gradients);
    add(f, "--offload-activations", "%d", e->offload.activations);
    add(f, "--tile-limit", "%zu", e->tile_bytes);
    add(f, "--schedule", "%d", e->vertical);
    add(f, "--optimizer-in-backward", "%d", e->in_backward);
    add(f, "--delayed-update", "%lld", (long long)e->delay_after);
    add(f, "--optimizer", "%s", o->optimizer);
    add(f, "--lr", "%.17g", o->lr);
    add(f, "--beta1", "%.17g", e->hyperparameters.beta1);
    add(f, "--beta2", "%.17g", e->hyperparameters.beta2);
    add(f, "--eps", "%.17g", e->hyperparameters.eps);
    add(f, "--weight-decay", "%.17g", e->hyperparameters.weight_decay);
    add(f, "--momentum", "%.17g", e->hyperparameters.momentum);
    add(f, "--clip", "%.17g", e->clip);
    add(f, "--lr-schedule", "%s", o->lr_schedule);
    add(f, "--warmup", "%lld", (long long)o->warmup);
    add(f, "--min-lr", "%.17g", o->min_lr);
    add(f, "--loss-scale", "%d %.17g", o->dynamic_loss_scale, o->loss_scale);
    add(f, "--loss-scale-window", "%lld", (long long)o->loss_scale_window);
    add(f, "--hysteresis", "%lld", (long long)o->hysteresis);
    add(f, "--loss-scale-min", "%.17g", o->loss_scale_min);
    add_hash(f, "--freeze", hash_words(o->freeze, o->n_freeze));
    add_hash(f, "--map", hash_words(o->map, o->n_map));
    add(f, "--seed", "%llu", (unsigned long long)o->seed);
    add(f, "--no-shuffle", "%d", o->shuffle);
    add(f, "--eval-every", "%lld", (long long)o->eval_every);
    add(f, "--save", "%s", o->save);
    add(f, "--checkpoint-every", "%lld", (long long)o->checkpoint_every);
    add(f, "--keep", "%lld", (long long)o->keep);
    add(f, "--checkpoint-async", "%d", o->checkpoint_async);
}

static zn_status hash_config(const zn_json *config, uint64_t *hash)
{
    char *text;
    ZN_TRY(zn_json_print(config, &text));
    *hash = zn_random_key(0, text);
    free(text);
    return ZN_OK;
}

/* Names, types and places, and the first bytes of each tensor: another training of the same model differs there. */
static zn_status hash_weights(const zn_model_files *files, uint64_t *hash)
{
    *hash = 0;
    for (size_t i = 0; files && i < zn_model_files_n_tensors(files); i++) {
        struct zn_model_tensor at = zn_model_files_tensor_at(files, i);
        unsigned char bytes[SAMPLE_BYTES];
        size_t n = at.tensor->n_bytes < sizeof bytes ? (size_t)at.tensor->n_bytes : sizeof bytes;
        ZN_TRY(zn_st_read_raw(at.file, at.tensor, 0, n, bytes));
        *hash = zn_random_bits(*hash, zn_random_key((uint64_t)at.tensor->dtype, at.tensor->name));
        *hash = zn_random_bits(*hash, at.tensor->offset);
        *hash = mix(*hash, bytes, n);
    }
    return ZN_OK;
}

static zn_status take_fingerprint(const struct zn_run *run, const struct zn_train_options *options,
                                  const struct zn_engine_options *engine, const struct zn_data *data,
                                  const struct zn_data *eval_data, struct fingerprint *f)
{
    uint64_t config, weights;
    *f = (struct fingerprint){0};
    ZN_TRY(hash_config(run->config, &config));
    ZN_TRY(hash_weights(run->files, &weights));
    add(f, "the program's version", "%s", zn_version());
    add_hash(f, "the model's config.json", config);
    add_hash(f, "the model's weights", weights);
    add_hash(f, "the data", data->hash);
    add_hash(f, "the held-out data", eval_data->hash);
    add_options(f, options, engine);
    add_hash(f, "the program of a step", zn_program_digest(&run->plan.program));
    add(f, "--resume", "%lld", run->checkpoint ? (long long)run->checkpoint->state.step : -1);
    return f->status;
}

zn_status zn_agree_on_run(const struct zn_run *run, const struct zn_train_options *options,
                          const struct zn_engine_options *engine, const struct zn_data *data,
                          const struct zn_data *eval_data)
{
    struct fingerprint mine;
    int n_ranks = zn_comm_n_ranks(run->comm);
    uint64_t(*all)[MAX_PARTS] = calloc((size_t)n_ranks, sizeof *all);
    zn_status status = all ? take_fingerprint(run, options, engine, data, eval_data, &mine)
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

zn_status zn_agree_on_resume(const struct zn_run *run, const struct zn_train_options *options)
{
    uint64_t *all;
    zn_status status = ZN_OK;
    ZN_TRY(exchange_numbers(run->comm, options->resume, &all));
    for (int r = 1; r < zn_comm_n_ranks(run->comm) && status == ZN_OK; r++)
        if (all[r] != all[0])
            status = zn_fail(ZN_ERR_INPUT, "rank %d and rank 0 differ in --resume", r);
    free(all);
    return status;
}

zn_status zn_agree_on_memory(struct zn_run *run)
{
    int n_ranks = zn_comm_n_ranks(run->comm);
    uint64_t *all;
    zn_status status = ZN_OK;
    ZN_TRY(exchange_numbers(run->comm, run->memory_limit, &all));
    for (int r = 0; r < n_ranks && status == ZN_OK; r++) {
        if (all[r] < run->memory_limit)
            run->memory_limit = all[r];
    }
    free(all);
    return status;
}
