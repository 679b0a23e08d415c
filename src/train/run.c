/* Opening a model folder, planning, and putting it on the device. */
#include "train/run.h"

#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/size.h"
#include "device/cpu/isa.h"
#include "formats/hub_cache.h"
#include "plan/calibrate_machine.h"
#include "plan/vertical.h"
#include "train/adapters.h"
#include "train/agreement.h"
#include "train/device.h"

enum { CONFIG_BYTES = 16 * 1024 * 1024 };

/* What the process needs beside the manifest: code, libraries, stacks. */
static const size_t PROCESS_BYTES = 64 * 1024 * 1024;

enum { HELPER_THREADS = 12 }; /* of communication, storage, updates and checkpoints, at the most */

void zn_run_init(struct zn_run *run, zn_comm *comm, const struct zn_train_listener *listener)
{
    *run = (struct zn_run){.comm = comm, .mesh = {zn_comm_n_ranks(comm), 1, 1}};
    if (zn_comm_rank(comm) == 0)
        run->listener = *listener;
    zn_clock_init_real(&run->clock);
    zn_ledger_init(&run->ledger);
}

void zn_run_fini(struct zn_run *run)
{
    zn_zero_destroy(run->engine);
    zn_storage_destroy(run->storage);
    zn_comm_log_requests(run->comm, NULL); /* it goes on after the run */
    zn_comm_destroy_groups(run->groups);
    zn_request_log_destroy(run->requests);
    zn_device_destroy(run->host);
    zn_device_destroy(run->device);
    zn_accelerator_close(run->accelerator);
    zn_engine_plan_fini(&run->plan);
    zn_model_files_close(run->files);
    zn_peft_close(run->adapter);
    free(run->is_base);
    free(run->is_quantised);
    zn_model_destroy(run->model);
    zn_json_destroy(run->config);
    zn_hub_files_close(run->hub);
    free(run->found);
    if (run->bound)
        zn_topology_unbind(run->bound);
    zn_topology_destroy(run->bound);
}

void zn_run_note(const struct zn_run *run, const char *format, ...)
{
    if (!run->listener.note)
        return;
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    run->listener.note(run->listener.self, text);
}

void zn_run_tell_failure(const struct zn_run *run, const struct zn_train_listener *listener, zn_status status)
{
    if (run->device && !run->is_evaluation_alike)
        zn_comm_abort(run->comm, status);
    if (listener->failed)
        listener->failed(listener->self, zn_error_message(), zn_comm_speaks(run->comm));
}

zn_status zn_run_set_tensor(struct zn_run *run, int64_t n_ranks)
{
    int n = zn_comm_n_ranks(run->comm);
    if (n % n_ranks != 0)
        return zn_fail(ZN_ERR_USAGE, "--tensor-parallel %lld: does not divide the %d rank%s of the job", (long long)n_ranks, n,
                       n == 1 ? "" : "s");
    run->mesh = (struct zn_mesh){.data = (int)(n / n_ranks), .sequence = 1, .tensor = (int)n_ranks};
    return ZN_OK;
}

static uint64_t sent_by(const zn_comm *comm)
{
    uint64_t sum = 0;
    for (int kind = 0; comm && kind < ZN_N_COMM_KINDS; kind++)
        sum += zn_comm_sent(comm, (zn_comm_kind)kind);
    return sum;
}

uint64_t zn_run_bytes_sent(const struct zn_run *run)
{
    return sent_by(run->comm) + sent_by(run->groups[ZN_REPLICA]) + sent_by(run->groups[ZN_TENSOR]);
}

void zn_run_trace_comm(const struct zn_run *run, zn_timeline *timeline)
{
    zn_comm_trace(run->comm, timeline);
    for (zn_axis axis = ZN_WORLD + 1; axis < ZN_N_AXES; axis++)
        if (run->groups[axis])
            zn_comm_trace(run->groups[axis], timeline);
}

static void warn_unknown(void *self, const char *tensor)
{
    zn_run_note(self, "tensor '%s' of the folder is not used by this model", tensor);
}

static zn_status choose_seq_len(const zn_model *model, const char *folder, int64_t *seq_len)
{
    if (*seq_len == 0)
        *seq_len = model->max_positions < 1024 ? model->max_positions : 1024;
    if (*seq_len > model->max_positions)
        return zn_fail(ZN_ERR_USAGE, "--seq-len %lld: the model in %s takes at most %lld",
                       (long long)*seq_len, folder, (long long)model->max_positions);
    return ZN_OK;
}

zn_status zn_run_create_model(const struct zn_run *run, int64_t seq_len, zn_model **model)
{
    struct zn_tensor_rank rank = {zn_mesh_coordinates(&run->mesh, zn_comm_rank(run->comm)).tensor, run->mesh.tensor};
    if (run->network && rank.count > 1)
        return zn_fail(ZN_ERR_UNSUPPORTED, "--tensor-parallel %d: not for a network of one's own", rank.count);
    return run->network ? zn_network_make_model(run->network, seq_len, model)
                        : zn_model_create_sliced(run->config, seq_len, rank, model);
}

/* A model is made for one sequence length, which may depend on its own maximum: so it is made
 * for one token, asked, and made again. */
static zn_status make_model(struct zn_run *run, const char *folder, int64_t *seq_len)
{
    zn_model *probe;
    ZN_TRY(zn_run_create_model(run, 1, &probe));
    zn_status status = choose_seq_len(probe, folder, seq_len);
    zn_model_destroy(probe);
    return status == ZN_OK ? zn_run_make_model(run, *seq_len, &run->model) : status;
}

zn_status zn_run_set_seq_len(struct zn_run *run, int64_t seq_len)
{
    zn_model *model;
    ZN_TRY(zn_run_make_model(run, seq_len, &model));
    zn_model_destroy(run->model);
    run->model = model;
    return ZN_OK;
}

zn_status zn_run_find_model(struct zn_run *run, const char **model)
{
    ZN_TRY(zn_hub_cache_find(*model, &run->found));
    ZN_TRY(zn_hub_check_folder(run->found ? run->found : *model));
    if (!run->found)
        return ZN_OK;
    zn_run_note(run, "%s is %s", *model, run->found);
    *model = run->found;
    return ZN_OK;
}

zn_status zn_run_hold_files(struct zn_run *run, const char *folder)
{
    return zn_hub_files_open(folder, zn_comm_rank(run->comm) == 0, &run->hub);
}

static zn_status read_config(struct zn_run *run, const char *folder)
{
    char *path;
    if (run->hub)
        return zn_hub_files_config(run->hub, &run->config);
    ZN_TRY(zn_path_join(folder, "config.json", &path));
    zn_status status = zn_json_load_file(path, CONFIG_BYTES, &run->config);
    free(path);
    return status;
}

zn_status zn_run_open_model(struct zn_run *run, const char *folder, bool from_scratch,
                            int64_t *seq_len)
{
    ZN_TRY(read_config(run, folder));
    ZN_TRY(make_model(run, folder, seq_len));
    if (run->model->has_dropout)
        zn_run_note(run, "config.json asks for dropout: it is not applied");
    if (from_scratch)
        return ZN_OK;
    ZN_TRY(zn_model_files_open(folder, &run->files));
    return zn_weights_check(run->model, run->files, warn_unknown, run, &run->style);
}

/* Address space that threads take beside the plan's bytes: their stacks. */
static size_t mapped_for_threads(int n_threads)
{
    pthread_attr_t attributes;
    size_t stack = 0;
    if (pthread_getattr_default_np(&attributes) == 0) {
        pthread_attr_getstacksize(&attributes, &stack);
        pthread_attr_destroy(&attributes);
    }
    return (size_t)(n_threads + HELPER_THREADS) * stack;
}

/* Limits of the process count what is mapped, used or not. Ranks of a node map each other's shared memory, too. */
static zn_status apply_process_limit(struct zn_run *run, bool is_given)
{
    size_t left = run->machine.memory_process, threads = mapped_for_threads(run->threads);
    size_t n_local = (size_t)zn_comm_n_local(run->comm), least = threads + n_local * PROCESS_BYTES;
    char text[3][ZN_SIZE_TEXT];
    if (left == SIZE_MAX)
        return ZN_OK;
    mallopt(M_ARENA_MAX, 1); /* else each thread that allocates would reserve 64 MiB */
    if (left <= least)
        return zn_fail(ZN_ERR_MEMORY, "`ulimit -v` or `ulimit -d` leaves this process %s of address space; %d threads alone need "
                       "%s: raise it by %s or more, or give fewer --threads", zn_size_text(left, text[0]), run->threads,
                       zn_size_text(least, text[1]), zn_size_text(least - left + 1, text[2]));
    size_t room = (left - threads) / n_local;
    if (room >= run->memory_limit)
        return ZN_OK;
    if (is_given)
        zn_run_note(run, "--memory-limit %s: `ulimit -v` or `ulimit -d` leaves no more than %s",
                    zn_size_text(run->memory_limit, text[0]), zn_size_text(room, text[1]));
    run->memory_limit = room;
    run->process_is_limited = true;
    return ZN_OK;
}

/* Plans are compared by what was measured of this machine, where something was. */
static void load_figures(struct zn_run *run)
{
    bool found = false;
    char *path;
    if (zn_calibration_path(&path) == ZN_OK) { /* without a home there is no file */
        if (zn_calibration_load(&run->figures, &found) != ZN_OK)
            zn_run_note(run, "%s; until then plans are compared by the figures of a usual machine", zn_error_message());
        free(path);
    }
    if (!found)
        run->figures = zn_calibration_usual(run->machine.n_cores);
    if (run->figures.node_node.alone <= 0) /* what one machine knows nothing of */
        run->figures.node_node = zn_calibration_usual(1).node_node;
}

zn_status zn_run_measure(struct zn_run *run, int threads, size_t memory_limit)
{
    ZN_TRY(zn_machine_read("", &run->machine));
    ZN_TRY(zn_machine_check_threads(&run->machine, threads));
    int n_local = zn_comm_n_local(run->comm);
    int share = run->machine.n_cores / n_local;
    run->threads = threads ? threads : share > 0 ? share : 1;
    size_t available = run->machine.memory_available / (size_t)n_local;
    run->memory_limit = memory_limit ? memory_limit : available / 10 * 9;
    ZN_TRY(apply_process_limit(run, memory_limit > 0));
    ZN_TRY(zn_cpu_isa_choose(NULL, &run->isa));
    load_figures(run);
    return ZN_OK;
}

/* Each thread has its scratch. Rank 0's files count on every rank, so that all plan alike. */
size_t zn_run_overhead(const struct zn_run *run)
{
    size_t scratch = (size_t)run->threads * ZN_CPU_SCRATCH_BYTES;
    size_t backend = run->accelerator ? zn_accelerator_info(run->accelerator)->process_bytes : 0;
    return scratch + PROCESS_BYTES + backend + run->data_bytes + (run->hub ? zn_hub_files_bytes(run->hub) : 0);
}

static int n_nodes(const zn_comm *comm)
{
    return (zn_comm_n_ranks(comm) + zn_comm_n_local(comm) - 1) / zn_comm_n_local(comm);
}

/* Memory is what the run may hold, whatever the machine has; drives are looked at by zn_room_check. */
static zn_status choose(struct zn_run *run, struct zn_engine_options *options, const struct zn_choices *choices, const char *hint)
{
    struct zn_cluster machine = run->figures;
    struct zn_plan_setup setup = {.model = run->model,
                                  .cluster = &machine,
                                  .engine = *options,
                                  .n_ranks = zn_comm_n_ranks(run->comm), /* of which engine.n_slices share a model */
                                  .n_nodes = n_nodes(run->comm),
                                  .memory_limit = run->memory_limit,
                                  .overhead = zn_run_overhead(run)};
    struct zn_prediction p;
    machine.nodes = setup.n_nodes;
    machine.nvme_memory = SIZE_MAX / 2;
    if (run->accelerator)
        zn_run_describe_device(run, &setup, &machine);
    ZN_TRY(zn_plan_choose(&setup, choices, &p));
    *options = setup.engine;
    if (p.fits) {
        run->plan = p.plan;
        zn_keep_text(options, run->recompute);
        return ZN_OK;
    }
    zn_status status = zn_run_fail_plan(run, &p, hint);
    zn_prediction_fini(&p);
    return status;
}

zn_status zn_run_plan(struct zn_run *run, struct zn_engine_options *options, const struct zn_choices *choices)
{
    ZN_TRY(choose(run, options, choices, "a smaller --micro-batch or --seq-len helps"));
    run->schedule_reason = zn_schedule_reason(choices, options, run->mesh.data);
    return ZN_OK;
}

zn_status zn_parse_tier(const char *flag, const char *name, int *tier)
{
    static const char *const names[] = {
        [ZN_TIER_DEVICE] = "none", [ZN_TIER_HOST] = "cpu", [ZN_TIER_NVME] = "nvme"};
    for (int i = 0; name && i < ZN_N_TIERS; i++) {
        if (strcmp(name, names[i]) == 0) {
            *tier = i;
            return ZN_OK;
        }
    }
    return name ? zn_fail(ZN_ERR_USAGE, "%s: '%s' is not one of none, cpu, nvme", flag, name) : ZN_OK;
}

/* The parameters' type is exact and the smallest; passes that do not train compute in fp32 from any. */
static zn_status plan_parameters(struct zn_run *run, struct zn_engine_options *options, const char *offload_param,
                                 const char *hint)
{
    int tier = -1;
    ZN_TRY(zn_parse_tier("--offload-param", offload_param, &tier));
    ZN_TRY(zn_weights_type(run->model, run->files, &run->style, &options->type));
    zn_run_freeze_base(run, options, options->type);
    zn_run_quantise_base(run, options);
    options->accumulate = 1;
    options->delay_after = -1;
    options->persist_bytes = ZN_PERSIST_BELOW;
    const struct zn_choices choices = zn_choices_of_parameters(tier);
    return choose(run, options, &choices, hint);
}

zn_status zn_run_plan_parameters(struct zn_run *run, struct zn_engine_options *options, const char *offload_param,
                                 const char *hint)
{
    ZN_TRY(zn_agree_on_machine(run));
    return zn_comm_agree(run->comm, plan_parameters(run, options, offload_param, hint));
}

static zn_status open_storage(struct zn_run *run, const struct zn_swap_paths *swap)
{
    if (run->plan.swap_bytes == 0)
        return ZN_OK;
    zn_progress_begin(run->listener.progress, "measuring the drive", NULL, 0);
    struct zn_storage_options options = {.paths = swap->paths,
                                         .n_paths = swap->n_paths,
                                         .n_bytes = run->plan.swap_bytes,
                                         .allow_buffered = swap->allow_buffered};
    ZN_TRY(zn_storage_create_files(&options, &run->storage));
    zn_run_note(run, "swap: %s", zn_storage_description(run->storage));
    return ZN_OK;
}

static zn_status log_requests(struct zn_run *run)
{
    ZN_TRY(zn_request_log_create(zn_comm_rank(run->comm), &run->requests));
    zn_comm_log_requests(run->comm, run->requests);
    for (zn_axis axis = ZN_WORLD + 1; axis < ZN_N_AXES; axis++)
        if (run->groups[axis])
            zn_comm_log_requests(run->groups[axis], run->requests);
    if (run->storage)
        zn_storage_log_requests(run->storage, run->requests);
    return ZN_OK;
}

static zn_status open_devices(struct zn_run *run, const struct zn_engine_options *options, const struct zn_swap_paths *swap)
{
    ZN_TRY(zn_run_create_devices(run, options));
    ZN_TRY(open_storage(run, swap));
    return log_requests(run);
}

static void note_loaded(void *self, int64_t done, int64_t total)
{
    const struct zn_run *run = self;
    zn_progress_set(run->listener.progress, done);
    if (run->loaded)
        run->loaded(run->loaded_self, done, total);
}

static zn_status load_checkpoint(struct zn_run *run)
{
    zn_progress_begin(run->listener.progress, "loading the checkpoint", NULL, 0);
    return zn_checkpoint_load(run->checkpoint, run->engine, run->model);
}

/* All but adapters. */
static zn_status fill_base(struct zn_run *run, int n_params, uint64_t seed)
{
    zn_progress *progress = run->listener.progress;
    zn_progress_begin(progress, run->files ? "loading the weights" : "making random weights", "parameters",
                      zn_model_n_elements(run->model));
    if (run->files)
        return zn_weights_load(run->engine, run->model, run->files, &run->style, note_loaded, run);
    for (int i = 0; i < n_params; i++) {
        ZN_TRY(zn_engine_init_param(run->engine, &run->model->module->params[i], seed));
        zn_progress_add(progress, zn_param_n_whole(&run->model->module->params[i]));
    }
    return ZN_OK;
}

/* A checkpoint of adapters has no base. */
static zn_status fill_params(struct zn_run *run, uint64_t seed)
{
    if (!zn_run_has_adapters(run))
        return run->checkpoint ? load_checkpoint(run) : fill_base(run, run->model->module->n_params, seed);
    ZN_TRY(fill_base(run, zn_model_first_written(run->model), seed));
    return run->checkpoint ? load_checkpoint(run) : zn_run_fill_adapters(run, seed);
}

static zn_status start(struct zn_run *run, const struct zn_engine_options *options, const struct zn_swap_paths *swap,
                       uint64_t seed)
{
    if (run->mesh.tensor > 1)
        ZN_TRY(zn_comm_split(run->comm, &run->mesh, run->groups));
    ZN_TRY(zn_comm_agree(run->comm, open_devices(run, options, swap)));
    const struct zn_world world = {
        .device = run->device, .host = run->host, .comm = run->comm, .storage = run->storage,
        .replica = run->groups[ZN_REPLICA], .tensor = run->groups[ZN_TENSOR], .progress = run->listener.progress};
    zn_progress_begin(run->listener.progress, "allocating the planned memory", NULL, 0);
    ZN_TRY(zn_zero_create(&world, run->model->module, options, &run->plan, &run->engine));
    ZN_TRY(fill_params(run, seed));
    zn_model_files_close(run->files); /* the folder may go now */
    run->files = NULL;
    zn_status status = zn_engine_publish(run->engine);
    zn_progress_end(run->listener.progress);
    return status;
}

/* A rank that fails where it is alone meets the others in whatever they ask for next: they fail there with its cause. */
zn_status zn_run_start(struct zn_run *run, const struct zn_engine_options *options, const struct zn_swap_paths *swap,
                       uint64_t seed)
{
    zn_status status = start(run, options, swap, seed);
    if (status != ZN_OK)
        zn_comm_abort(run->comm, status);
    return zn_comm_agree(run->comm, status);
}
