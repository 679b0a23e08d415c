/* Checking and filling the output folder. */
#include "train/output.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/files.h"
#include "base/text.h"
#include "settings/write.h"
#include "train/adapters.h"

static bool same_folder(const char *a, const char *b)
{
    char real_a[PATH_MAX], real_b[PATH_MAX];
    return realpath(a, real_a) && realpath(b, real_b) && strcmp(real_a, real_b) == 0;
}

zn_status zn_output_check(const char *folder, const char *model_folder, bool overwrite)
{
    static const char *const signs[] = {"run.json", "metrics.jsonl", "model.safetensors", "model.safetensors.index.json",
                                        ZN_PEFT_WEIGHTS, "checkpoints"};
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

/* What the run is besides its settings, each behind the setting that it belongs to. */
static void add_facts(const void *self, zn_text *t, const char *key)
{
    const struct zn_run *run = self;
    if (strcmp(key, "model") == 0) {
        zn_text_add(t, ",\n  \"architecture\": ");
        zn_text_add_quoted(t, run->model->architecture);
        zn_text_add(t, ",\n  \"parameters\": %lld", (long long)zn_model_n_elements(run->model));
        if (zn_run_has_adapters(run))
            zn_text_add(t, ",\n  \"adapter_parameters\": %lld", (long long)zn_model_n_written(run->model));
    } else if (strcmp(key, "shuffle") == 0) {
        zn_text_add(t, ",\n  \"ranks\": %d", zn_comm_n_ranks(run->comm));
    } else if (strcmp(key, "schedule") == 0) {
        zn_text_add(t, ",\n  \"schedule_reason\": ");
        if (run->schedule_reason)
            zn_text_add_quoted(t, run->schedule_reason);
        else
            zn_text_add(t, "null");
    } else if (strcmp(key, "persist_below") == 0) {
        add_bytes(t, &run->plan.manifest);
    }
}

/* When, how and where it was started, and what is to be held to what is measured. No other run has it alike: checkpoints leave
 * it out. */
static void add_origin(zn_text *t, const struct zn_run *run, const struct zn_settings *settings)
{
    char date[64] = "", *trace = settings->trace ? realpath(settings->trace, NULL) : NULL;
    struct tm tm;
    if (gmtime_r(&run->origin.began, &tm))
        strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &tm);
    zn_text_add(t, ",\n  \"origin\": {\n    \"date\": \"%s\",\n    \"command\": ", date);
    if (run->origin.command_line)
        zn_text_add_quoted(t, run->origin.command_line);
    else
        zn_text_add(t, "null");
    zn_text_add(t, ",\n    \"trace\": ");
    if (trace)
        zn_text_add_quoted(t, trace);
    else
        zn_text_add(t, "null");
    free(trace);
    zn_text_add(t, ",\n    \"machine\": {\"cpu\": ");
    zn_text_add_quoted(t, zn_shown(run->machine.cpu_model).text);
    zn_text_add(t, ", \"cores\": %d, \"memory\": %zu, \"nodes\": %d}\n  }", run->machine.n_cores, run->machine.memory_total,
                zn_comm_n_ranks(run->comm) / zn_comm_n_local(run->comm));
    zn_text_add(t, ",\n  \"planned\": {\"process_bytes\": %zu, \"flops\": %.9g, \"peak_flops\": %.9g}", run->planned.process_bytes,
                run->planned.flops, run->planned.peak_flops);
}

static void add_run(zn_text *t, const struct zn_run *run, const struct zn_settings *settings, bool is_finished, bool has_origin)
{
    zn_text_add(t, "{\n  \"format\": 1,\n  \"version\": \"%s\",\n  \"finished\": %s", zn_version(),
                is_finished ? "true" : "false");
    if (has_origin)
        add_origin(t, run, settings);
    zn_settings_add_record(t, settings, add_facts, run);
    zn_text_add(t, ",\n  \"isa\": \"%s\"\n}\n", run->isa);
}

void zn_output_add_run(zn_text *t, const struct zn_run *run, const struct zn_settings *settings, bool is_finished)
{
    add_run(t, run, settings, is_finished, false);
}

zn_status zn_output_write_run(const char *folder, const struct zn_run *run, const struct zn_settings *settings, bool is_finished)
{
    zn_text text;
    zn_text_init(&text);
    add_run(&text, run, settings, is_finished, true);
    zn_status status = zn_text_status(&text);
    if (status == ZN_OK)
        status = write_named(folder, "run.json", text.data, text.n_bytes);
    zn_text_fini(&text);
    return status;
}

zn_status zn_output_finished(const char *folder, int64_t *steps)
{
    enum { RUN_BYTES = 16 * 1024 * 1024 };
    bool has_model, has_index, has_adapter, is_finished = false;
    char *path;
    zn_json *root = NULL;
    *steps = ZN_OUTPUT_NO_MODEL;
    ZN_TRY(zn_folder_holds(folder, "model.safetensors", &has_model));
    ZN_TRY(zn_folder_holds(folder, "model.safetensors.index.json", &has_index));
    ZN_TRY(zn_folder_holds(folder, ZN_PEFT_WEIGHTS, &has_adapter));
    if (!has_model && !has_index && !has_adapter)
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

/* What stands beside the weights. */
static zn_status write_small_files(const char *folder, const struct zn_run *run)
{
    if (!zn_run_has_adapters(run))
        return zn_hub_files_write(run->hub, folder, run->style.dtype);
    ZN_TRY(zn_peft_write_config(folder, run->model, &run->record));
    return zn_hub_files_write_tokenizer(run->hub, folder);
}

zn_status zn_output_write_model(const char *folder, struct zn_run *run)
{
    bool writes = zn_comm_rank(run->comm) == 0;
    ZN_TRY(zn_comm_agree(run->comm, writes ? write_small_files(folder, run) : ZN_OK));
    zn_progress_begin(run->listener.progress, "writing the model", "parameters", zn_model_n_written(run->model));
    zn_status status = zn_weights_export(run->engine, run->comm, run->model, folder, &run->style);
    zn_progress_end(run->listener.progress);
    return status;
}
