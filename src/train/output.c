/* Checking and filling the output folder. */
#include "train/output.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/text.h"

static bool same_folder(const char *a, const char *b)
{
    char real_a[PATH_MAX], real_b[PATH_MAX];
    return realpath(a, real_a) && realpath(b, real_b) && strcmp(real_a, real_b) == 0;
}

zn_status zn_output_check(const char *folder, const char *model_folder, bool overwrite)
{
    static const char *const signs[] = {"run.json", "metrics.jsonl", "model.safetensors",
                                        "model.safetensors.index.json", "checkpoints"};
    if (zn_file_exists(folder))
        return zn_fail(ZN_ERR_USAGE, "--output %s: is a file, not a folder", folder);
    if (same_folder(folder, model_folder))
        return zn_fail(ZN_ERR_USAGE, "--output %s: is the model's own folder; name another", folder);
    for (size_t i = 0; i < sizeof signs / sizeof signs[0] && !overwrite; i++) {
        bool found;
        ZN_TRY(zn_folder_holds(folder, signs[i], &found));
        if (found)
            return zn_fail(ZN_ERR_USAGE, "--output %s: holds a run already (%s); go on with --resume, replace it with "
                           "--overwrite, or give another folder", folder, signs[i]);
    }
    return ZN_OK;
}

/* Whether the path is that of a file right in the folder. */
static bool is_directly_in(const char *path, const char *folder)
{
    while (strncmp(path, "./", 2) == 0)
        path += 2;
    while (strncmp(folder, "./", 2) == 0)
        folder += 2;
    size_t n = strlen(folder);
    while (n > 1 && folder[n - 1] == '/')
        n--;
    return strncmp(path, folder, n) == 0 && path[n] == '/' && path[n + 1] && !strchr(path + n + 1, '/');
}

zn_status zn_output_check_file(const char *flag, const char *path, const char *folder)
{
    if (!path || (!zn_folder_exists(folder) && is_directly_in(path, folder)))
        return ZN_OK;
    return zn_file_check_writable(flag, path);
}

static zn_status write_named(const char *folder, const char *name, const void *data, size_t n_bytes)
{
    char *path;
    ZN_TRY(zn_path_join(folder, name, &path));
    zn_status status = zn_file_write(path, data, n_bytes);
    free(path);
    return status;
}

static void add_string(zn_text *t, const char *key, const char *value)
{
    zn_text_add(t, ",\n  \"%s\": ", key);
    if (value)
        zn_text_add_quoted(t, value);
    else
        zn_text_add(t, "null");
}

static void add_list(zn_text *t, const char *key, const char *const *values, size_t n)
{
    zn_text_add(t, ",\n  \"%s\": [", key);
    for (size_t i = 0; i < n; i++) {
        zn_text_add(t, i ? ", " : "");
        zn_text_add_quoted(t, values[i]);
    }
    zn_text_add(t, "]");
}

/* What the plan allocates on this rank, by kind and tier: the log has only the sums of each. */
static void add_bytes(zn_text *t, const zn_manifest *manifest)
{
    for (int kind = 0; kind < ZN_N_KINDS; kind++) {
        zn_text_add(t, "%s\n    \"%s\": {", kind ? "," : ",\n  \"bytes\": {", zn_kind_name((zn_kind)kind));
        for (int tier = 0; tier < ZN_N_TIERS; tier++)
            zn_text_add(t, "%s\"%s\": %zu", tier ? ", " : "", zn_tier_name((zn_tier)tier),
                        zn_manifest_bytes(manifest, (zn_tier)tier, (zn_kind)kind));
        zn_text_add(t, "}");
    }
    zn_text_add(t, "\n  }");
}

static void add_loss_scale(zn_text *t, const struct zn_train_options *o)
{
    double scale = o->loss_scale > 0 ? o->loss_scale : ZN_DEFAULT_LOSS_SCALE;
    if (o->dynamic_loss_scale)
        zn_text_add(t, ",\n  \"loss_scale\": \"dynamic\",\n  \"loss_scale_init\": %.17g", scale);
    else
        zn_text_add(t, ",\n  \"loss_scale\": %.17g,\n  \"loss_scale_init\": null", scale);
    zn_text_add(t, ",\n  \"loss_scale_window\": %lld,\n  \"hysteresis\": %lld,\n  \"loss_scale_min\": %.17g",
                (long long)o->loss_scale_window, (long long)o->hysteresis, o->loss_scale_min);
}

void zn_output_add_run(zn_text *t, const struct zn_run *run, const struct zn_train_options *o,
                       const struct zn_engine_options *e, bool is_finished)
{
    zn_text_add(t, "{\n  \"format\": 1,\n  \"version\": \"%s\"", zn_version());
    zn_text_add(t, ",\n  \"finished\": %s", is_finished ? "true" : "false");
    add_string(t, "model", o->model);
    add_string(t, "architecture", run->model->architecture);
    zn_text_add(t, ",\n  \"parameters\": %lld,\n  \"from_scratch\": %s",
                (long long)zn_model_n_elements(run->model), o->from_scratch ? "true" : "false");
    add_list(t, "data", o->data, o->n_data);
    zn_text_add(t, ",\n  \"byte_tokenizer\": %s", o->byte_tokenizer ? "true" : "false");
    add_list(t, "eval_data", o->eval_data, o->n_eval_data);
    add_list(t, "map", o->map, o->n_map);
    zn_text_add(t, ",\n  \"eval_every\": %lld", (long long)o->eval_every);
    add_string(t, "output_dtype", zn_dtype_name(run->style.dtype));
    add_string(t, "precision", o->precision);
    zn_text_add(t, ",\n  \"steps\": %lld,\n  \"micro_batch\": %lld,\n  \"accumulate\": %lld,\n  \"seq_len\": %lld",
                (long long)o->steps, (long long)e->micro_batch, (long long)e->accumulate, (long long)e->seq_len);
    add_string(t, "packing", o->packing);
    zn_text_add(t, ",\n  \"truncate_rows\": %s", o->truncate_rows ? "true" : "false");
    add_string(t, "optimizer", o->optimizer);
    zn_text_add(t, ",\n  \"lr\": %.17g,\n  \"beta1\": %.17g,\n  \"beta2\": %.17g,\n  \"eps\": %.17g", o->lr,
                o->beta1, o->beta2, o->eps);
    zn_text_add(t, ",\n  \"momentum\": %.17g,\n  \"weight_decay\": %.17g", o->momentum, o->weight_decay);
    add_string(t, "lr_schedule", o->lr_schedule);
    zn_text_add(t, ",\n  \"warmup\": %lld,\n  \"min_lr\": ", (long long)o->warmup);
    if (o->min_lr >= 0)
        zn_text_add(t, "%.17g", o->min_lr);
    else
        zn_text_add(t, "null");
    zn_text_add(t, ",\n  \"clip\": %.17g", o->clip);
    add_loss_scale(t, o);
    add_list(t, "freeze", o->freeze, o->n_freeze);
    add_string(t, "save", o->save);
    zn_text_add(t, ",\n  \"recompute\": %s,\n  \"keep_logits\": %s", e->recompute ? "true" : "false",
                e->keep_logits ? "true" : "false");
    zn_text_add(t, ",\n  \"memory_limit\": %zu,\n  \"seed\": %llu,\n  \"shuffle\": %s", run->memory_limit,
                (unsigned long long)o->seed, o->shuffle ? "true" : "false");
    zn_text_add(t, ",\n  \"ranks\": %d,\n  \"stage\": %d,\n  \"reduce\": \"%s\"", zn_comm_n_ranks(run->comm),
                e->stage, e->reduce_every ? "every" : "last");
    const struct zn_offload *off = &e->offload;
    zn_text_add(t, ",\n  \"offload\": {\"parameters\": \"%s\", \"gradients\": \"%s\", \"optimizer\": \"%s\", \"activations\": \"%s\"}",
                zn_tier_name(off->parameters), zn_tier_name(off->gradients), zn_tier_name(off->optimizer),
                zn_tier_name(off->activations));
    add_string(t, "schedule", e->vertical ? "vertical" : "horizontal");
    add_string(t, "schedule_reason", run->schedule_reason);
    zn_text_add(t, ",\n  \"tile_limit\": %zu,\n  \"host_cache\": %zu", e->tile_bytes, e->host_cache);
    zn_text_add(t, ",\n  \"optimizer_in_backward\": %s,\n  \"delayed_update\": %lld", e->in_backward ? "true" : "false",
                (long long)e->delay_after);
    zn_text_add(t, ",\n  \"prefetch_bytes\": %zu,\n  \"persist_below\": %zu", e->prefetch_bytes, e->persist_bytes);
    add_bytes(t, &run->plan.manifest);
    zn_text_add(t, ",\n  \"threads\": %d,\n  \"isa\": \"%s\"\n}\n", run->threads, run->isa);
}

zn_status zn_output_write_run(const char *folder, const struct zn_run *run,
                              const struct zn_train_options *options,
                              const struct zn_engine_options *engine, bool is_finished)
{
    zn_text text;
    zn_text_init(&text);
    zn_output_add_run(&text, run, options, engine, is_finished);
    zn_status status = zn_text_status(&text);
    if (status == ZN_OK)
        status = write_named(folder, "run.json", text.data, text.n_bytes);
    zn_text_fini(&text);
    return status;
}

zn_status zn_output_finished(const char *folder, int64_t *steps)
{
    enum { RUN_BYTES = 16 * 1024 * 1024 };
    bool has_model, has_index, is_finished = false;
    char *path;
    zn_json *root = NULL;
    *steps = ZN_OUTPUT_NO_MODEL;
    ZN_TRY(zn_folder_holds(folder, "model.safetensors", &has_model));
    ZN_TRY(zn_folder_holds(folder, "model.safetensors.index.json", &has_index));
    if (!has_model && !has_index)
        return ZN_OK;
    ZN_TRY(zn_path_join(folder, "run.json", &path));
    /* A folder without a readable run.json has a model all the same. */
    if (zn_json_load_file(path, RUN_BYTES, &root) != ZN_OK || zn_json_get_bool(root, "finished", &is_finished) != ZN_OK ||
        !is_finished || zn_json_get_int(root, "steps", 0, INT64_MAX, steps) != ZN_OK)
        *steps = ZN_OUTPUT_UNKNOWN;
    zn_json_destroy(root);
    free(path);
    return ZN_OK;
}

zn_status zn_output_write_model(const char *folder, struct zn_run *run)
{
    bool writes = zn_comm_rank(run->comm) == 0;
    ZN_TRY(zn_comm_agree(run->comm, writes ? zn_hub_files_write(run->hub, folder, run->style.dtype) : ZN_OK));
    return zn_weights_export(run->engine, run->comm, run->model, folder, &run->style);
}
