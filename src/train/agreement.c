/* Fingerprints of what every rank must have alike. */
#include "train/agreement.h"

#include <stddef.h>
#include <stdlib.h>

#include "base/rng.h"
#include "base/text.h"

struct fingerprint {
    uint64_t version, options, config, weights, data;
};

static const struct {
    const char *what;
    size_t offset;
} parts[] = {
    {"the program's version", offsetof(struct fingerprint, version)},
    {"the options", offsetof(struct fingerprint, options)},
    {"the model's config.json", offsetof(struct fingerprint, config)},
    {"the model's weights", offsetof(struct fingerprint, weights)},
    {"the data", offsetof(struct fingerprint, data)},
};

static void add_options(zn_text *t, const struct zn_train_options *o, const struct zn_engine_options *e)
{
    zn_text_add(t, "%d %d %d %d %d %d %d", o->from_scratch, e->stage, e->type, e->reduce_every, e->recompute,
                e->keep_logits, e->optimizer);
    zn_text_add(t, " %lld %lld %lld %lld", (long long)o->steps, (long long)e->micro_batch,
                (long long)e->accumulate, (long long)e->time);
    zn_text_add(t, " %zu %zu %zu", e->prefetch_bytes, e->reuse_bytes, e->persist_bytes);
    zn_text_add(t, " %.17g %.17g %.17g %.17g %.17g %.17g %.17g", o->lr, e->beta1, e->beta2, e->eps,
                e->weight_decay, e->momentum, e->clip);
    zn_text_add(t, " %s %lld %.17g %d %.17g %lld %lld %.17g", o->lr_schedule, (long long)o->warmup, o->min_lr,
                o->dynamic_loss_scale, o->loss_scale, (long long)o->loss_scale_window,
                (long long)o->hysteresis, o->loss_scale_min);
    for (size_t i = 0; i < o->n_freeze; i++)
        zn_text_add(t, " %s", o->freeze[i]);
    zn_text_add(t, " %llu %d %lld %zu", (unsigned long long)o->seed, o->shuffle, (long long)o->eval_every,
                o->n_eval_data);
}

static void add_weights(zn_text *t, const zn_model_files *files)
{
    for (size_t i = 0; files && i < zn_model_files_n_tensors(files); i++) {
        const struct zn_st_tensor *tensor = zn_model_files_tensor_at(files, i).tensor;
        zn_text_add(t, "%s %d %llu ", tensor->name, tensor->dtype, (unsigned long long)tensor->offset);
    }
}

static zn_status finish_hash(zn_text *text, uint64_t *hash)
{
    zn_status status = zn_text_status(text);
    if (status == ZN_OK)
        *hash = zn_random_key(0, text->data ? text->data : "");
    zn_text_fini(text);
    return status;
}

static zn_status take_fingerprint(const struct zn_run *run, const struct zn_train_options *options,
                                  const struct zn_engine_options *engine, const zn_token_source *data,
                                  struct fingerprint *f)
{
    zn_text text;
    char *config;
    f->version = zn_random_key(0, zn_version());
    zn_text_init(&text);
    add_options(&text, options, engine);
    ZN_TRY(finish_hash(&text, &f->options));
    zn_text_init(&text);
    add_weights(&text, run->files);
    ZN_TRY(finish_hash(&text, &f->weights));
    zn_text_init(&text);
    zn_text_add(&text, "%lld %zu", (long long)zn_tokens_total(data), zn_tokens_n_files(data));
    ZN_TRY(finish_hash(&text, &f->data));
    ZN_TRY(zn_json_print(run->config, &config));
    f->config = zn_random_key(0, config);
    free(config);
    return ZN_OK;
}

static uint64_t part_of(const struct fingerprint *f, size_t i)
{
    return *(const uint64_t *)((const char *)f + parts[i].offset);
}

zn_status zn_agree_on_run(const struct zn_run *run, const struct zn_train_options *options,
                          const struct zn_engine_options *engine, const zn_token_source *data)
{
    struct fingerprint mine;
    int n_ranks = zn_comm_n_ranks(run->comm);
    struct fingerprint *all = calloc((size_t)n_ranks, sizeof *all);
    zn_status status = all ? take_fingerprint(run, options, engine, data, &mine)
                           : zn_fail(ZN_ERR_MEMORY, "no memory for %d ranks", n_ranks);
    status = zn_comm_agree(run->comm, status);
    if (status == ZN_OK)
        status = zn_comm_exchange(run->comm, &mine, sizeof mine, all);
    for (int r = 1; r < n_ranks && status == ZN_OK; r++) {
        for (size_t i = 0; i < sizeof parts / sizeof parts[0] && status == ZN_OK; i++) {
            if (part_of(&all[r], i) != part_of(&all[0], i))
                status = zn_fail(ZN_ERR_INPUT, "rank %d and rank 0 differ in %s", r, parts[i].what);
        }
    }
    free(all);
    return status;
}

zn_status zn_agree_on_memory(struct zn_run *run)
{
    int n_ranks = zn_comm_n_ranks(run->comm);
    size_t *all = calloc((size_t)n_ranks, sizeof *all);
    if (!all)
        return zn_fail(ZN_ERR_MEMORY, "no memory for %d ranks", n_ranks);
    zn_status status = zn_comm_exchange(run->comm, &run->memory_limit, sizeof *all, all);
    for (int r = 0; r < n_ranks && status == ZN_OK; r++) {
        if (all[r] < run->memory_limit)
            run->memory_limit = all[r];
    }
    free(all);
    return status;
}
