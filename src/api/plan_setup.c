/* From the flags of `zinc plan` to what is planned: the cluster, the model, the options of the engine. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "checkpoint/weights.h"
#include "api/planning.h"
#include "optim/registry.h"
#include "plan/calibrate_machine.h"

enum { CONFIG_BYTES = 16 * 1024 * 1024, DEFAULT_TIME = 1024, MAX_RANKS = 1 << 20, DEFAULT_DELAY = 40 };

/* ---- Flags ---- */

/* How many ways to name a model were used. */
static int n_models(const struct plan_flags *f)
{
    return (f->model != NULL) + (f->params != NULL) + (f->layers > 0);
}

static zn_status check_alone(const struct zn_options *given)
{
    for (size_t i = 0; i < given->command->n_options; i++) {
        const char *name = given->command->options[i].name;
        if (given->given[i] && strcmp(name, "--paper") != 0 && strcmp(name, "--json") != 0)
            return zn_fail(ZN_ERR_USAGE, "--paper goes with --json alone, not with %s", name);
    }
    return ZN_OK;
}

static zn_status check_shape(const struct plan_flags *f, const struct zn_options *given)
{
    static const char *const sizes[] = {"--hidden", "--heads", "--ffn"};
    bool by_size = f->layers > 0 || f->largest;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0] && !by_size; i++)
        if (zn_options_given(given, sizes[i]))
            return zn_fail(ZN_ERR_USAGE, "%s goes with --layers or --largest", sizes[i]);
    if (f->layers > 0 && (f->hidden == 0 || f->heads == 0))
        return zn_fail(ZN_ERR_USAGE, "--layers needs --hidden and --heads");
    if ((f->hidden > 0) != (f->heads > 0))
        return zn_fail(ZN_ERR_USAGE, "--hidden and --heads go together");
    if (f->ffn > 0 && f->hidden == 0)
        return zn_fail(ZN_ERR_USAGE, "--ffn needs --hidden and --heads");
    if (f->model && zn_options_given(given, "--vocab"))
        return zn_fail(ZN_ERR_USAGE, "--vocab is for shapes, not for --model");
    return ZN_OK;
}

/* A gradient that is used up in backward can be neither scaled back nor delayed. */
static zn_status check_update(const struct plan_flags *f, const struct zn_options *given)
{
    char *end;
    if (f->delayed_update && (strtoll(f->delayed_update, &end, 10) < 0 || *end))
        return zn_fail(ZN_ERR_USAGE, "--delayed-update: '%s' is not a number of steps", f->delayed_update);
    if (f->in_backward && zn_options_given(given, "--delayed-update"))
        return zn_fail(ZN_ERR_USAGE, "--optimizer-in-backward does not go with --delayed-update");
    if (f->in_backward && f->precision && strcmp(f->precision, "fp16") == 0)
        return zn_fail(ZN_ERR_USAGE, "--optimizer-in-backward does not go with the loss scaling of --precision fp16");
    return ZN_OK;
}

/* As training refuses it. */
static zn_status check_sharing(const struct plan_flags *f)
{
    bool is_shared = f->tensor_parallel > 1;
    if (f->partition_activations && !is_shared)
        return zn_fail(ZN_ERR_USAGE, "--partition-activations: needs --tensor-parallel above 1: its ranks share them");
    if (f->partition_activations && f->recompute && zn_keep_parse(f->recompute) == ZN_KEEP_ALL)
        return zn_fail(ZN_ERR_USAGE, "--partition-activations: needs --recompute on: without it there are no checkpoints");
    if (is_shared && f->keep_logits && strcmp(f->keep_logits, "on") == 0)
        return zn_fail(ZN_ERR_USAGE, "--tensor-parallel: not in this build with --keep-logits on");
    if (is_shared && f->lora_rank > 0)
        return zn_fail(ZN_ERR_USAGE, "--tensor-parallel: not in this build with --lora-rank");
    if (is_shared && strcmp(f->optimizer, "adamw8bit") == 0)
        return zn_fail(ZN_ERR_USAGE, "--tensor-parallel: not in this build with --optimizer adamw8bit");
    return ZN_OK;
}

zn_status plan_check_flags(const struct plan_flags *f, const struct zn_options *given)
{
    if (f->paper)
        return check_alone(given);
    if (f->largest && zn_options_given(given, "--fit"))
        return zn_fail(ZN_ERR_USAGE, "--fit and --largest are two searches; give one");
    if (f->largest && n_models(f) > 0)
        return zn_fail(ZN_ERR_USAGE, "--largest finds the model itself: no --model, --params or --layers");
    if (!f->largest && n_models(f) != 1)
        return zn_fail(ZN_ERR_USAGE, "one of --model, --params and --layers says what to plan%s",
                       n_models(f) > 1 ? "; more were given" : "; `zinc plan --help` shows an example");
    if (zn_options_given(given, "--memory-limit") && f->memory_limit == 0)
        return zn_fail(ZN_ERR_USAGE, "--memory-limit 0: nothing fits into it");
    if (f->program && f->json)
        return zn_fail(ZN_ERR_USAGE, "--program is text; leave --json out");
    ZN_TRY(check_update(f, given));
    ZN_TRY(check_sharing(f));
    ZN_TRY(plan_check_adapters(f, given));
    return check_shape(f, given);
}

/* ---- The cluster and its ranks ---- */

static zn_status open_cluster(struct plan *p)
{
    bool found;
    if (strcmp(p->flags->cluster, ZN_THIS_MACHINE) != 0)
        return zn_cluster_load(p->flags->cluster, &p->cluster);
    ZN_TRY(zn_calibration_load(&p->cluster, &found));
    if (found)
        return ZN_OK;
    if (p->note)
        p->note("measuring this machine, once; `zinc doctor --measure` does it again");
    return zn_calibration_save(&p->cluster);
}

static zn_status set_ranks(struct plan *p)
{
    const struct plan_flags *f = p->flags;
    int64_t devices = p->cluster.devices, nodes = f->nodes, ranks = f->ranks;
    bool is_this = strcmp(f->cluster, ZN_THIS_MACHINE) == 0; /* where a run has one rank unless it is told otherwise */
    if (ranks == 0)
        ranks = nodes ? nodes * devices : is_this ? 1 : p->cluster.nodes * devices;
    if (nodes == 0)
        nodes = p->cluster.device.is_host && p->cluster.nodes == 1 ? 1 : (ranks + devices - 1) / devices;
    if (nodes > p->cluster.nodes)
        return zn_fail(ZN_ERR_USAGE, "--%s %lld: %s has %d node%s of %d device%s", f->nodes ? "nodes" : "ranks",
                       (long long)(f->nodes ? nodes : ranks), p->cluster.name, p->cluster.nodes,
                       p->cluster.nodes == 1 ? "" : "s", p->cluster.devices, p->cluster.devices == 1 ? "" : "s");
    if (ranks > MAX_RANKS)
        return zn_fail(ZN_ERR_USAGE, "--nodes %lld: %lld ranks are too many", (long long)nodes, (long long)ranks);
    p->setup.n_ranks = (int)ranks;
    p->setup.n_nodes = (int)nodes;
    return ZN_OK;
}

/* ---- The model ---- */

/* With the slices of the first of so many ranks that share each layer. */
static zn_status share_model(struct plan *p, zn_json *config, int64_t n_slices)
{
    struct zn_tensor_rank rank = {0, n_slices > 1 ? (int)n_slices : 1};
    if (config)
        return zn_model_create_sliced(config, p->setup.engine.seq_len, rank, &p->model);
    if (p->flags->params)
        ZN_TRY(zn_shape_share(&p->shape, n_slices));
    return zn_shape_model_sliced(&p->shape, p->setup.engine.seq_len, n_slices, &p->model);
}

/* A model is made for one sequence length, which may depend on its own maximum. */
static zn_status make_model(struct plan *p, zn_json *config)
{
    zn_model *probe;
    int64_t seq_len = p->flags->seq_len;
    ZN_TRY(zn_model_create(config, 1, &probe));
    int64_t most = probe->max_positions;
    zn_model_destroy(probe);
    if (seq_len == 0)
        seq_len = most < DEFAULT_TIME ? most : DEFAULT_TIME;
    if (seq_len > most)
        return zn_fail(ZN_ERR_USAGE, "--seq-len %lld: the model in %s takes at most %lld", (long long)seq_len,
                       p->flags->model, (long long)most);
    p->setup.engine.seq_len = seq_len;
    return share_model(p, config, p->flags->tensor_parallel);
}

static void ignore_tensor(void *self, const char *tensor)
{
    (void)self;
    (void)tensor;
}

/* The type of 16 bits that the devices have; fp32 where they have none. */
static zn_dtype half_type(const struct zn_cluster *cluster)
{
    const double *flops = cluster->device.flops;
    return flops[ZN_BF16] > 0 ? ZN_BF16 : flops[ZN_F16] > 0 ? ZN_F16 : ZN_F32;
}

/* The type of the weights that config.json is of. */
static zn_status config_dtype(zn_json *config, zn_dtype *dtype)
{
    static const char *const keys[] = {"torch_dtype", "dtype"};
    *dtype = ZN_F32;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const char *name;
        ZN_TRY(zn_json_get_string_or(config, keys[i], "", &name));
        if (strcmp(name, "bfloat16") == 0 || strcmp(name, "float16") == 0)
            *dtype = name[0] == 'b' ? ZN_BF16 : ZN_F16;
    }
    return ZN_OK;
}

/* As training: of 16 bits where the weights are. Without weights config.json says what they will be. */
static zn_status folder_precision(struct plan *p, const char *folder, zn_json *config)
{
    zn_model_files *files;
    struct zn_weights_style style;
    ZN_TRY(config_dtype(config, &style.dtype));
    char *paths[2] = {NULL};
    ZN_TRY(zn_path_join(folder, "model.safetensors", &paths[0]));
    zn_status status = zn_path_join(folder, "model.safetensors.index.json", &paths[1]);
    bool weights = status == ZN_OK && (zn_file_exists(paths[0]) || zn_file_exists(paths[1]));
    free(paths[0]);
    free(paths[1]);
    if (weights) {
        status = zn_model_files_open(folder, &files);
        if (status == ZN_OK) {
            status = zn_weights_check(p->model, files, ignore_tensor, NULL, &style);
            zn_model_files_close(files);
        }
    }
    p->setup.engine.type = style.dtype == ZN_F32 ? ZN_F32 : half_type(&p->cluster);
    return status;
}

static zn_status open_folder(struct plan *p, const char *folder)
{
    zn_json *config;
    char *path;
    ZN_TRY(zn_path_join(folder, "config.json", &path));
    zn_status status = zn_json_load_file(path, CONFIG_BYTES, &config);
    free(path);
    if (status != ZN_OK)
        return status;
    status = make_model(p, config);
    if (status == ZN_OK)
        status = folder_precision(p, folder, config);
    zn_json_destroy(config);
    return status;
}

static zn_status make_shape(struct plan *p)
{
    const struct plan_flags *f = p->flags;
    double count;
    p->has_shape = true;
    p->setup.engine.seq_len = f->seq_len ? f->seq_len : DEFAULT_TIME;
    p->setup.engine.type = half_type(&p->cluster);
    if (f->largest)
        return ZN_OK;
    if (f->params) {
        ZN_TRY(zn_count_parse(f->params, "--params", &count));
        zn_status status = zn_shape_near(count, f->vocabulary, &p->shape);
        if (status != ZN_OK)
            return zn_add_context(status, "--params %s", f->params);
    } else {
        p->shape = (struct zn_shape){f->layers, f->hidden, f->heads, f->ffn, f->vocabulary};
    }
    return share_model(p, NULL, f->tensor_parallel);
}

/* ---- The engine ---- */

static zn_status set_engine(struct plan *p, const struct zn_options *given)
{
    const struct plan_flags *f = p->flags;
    struct zn_engine_options *e = &p->setup.engine;
    e->trains = true;
    e->micro_batch = f->micro_batch ? f->micro_batch : 1;
    e->accumulate = f->accumulate;
    e->hyperparameters = (struct zn_hyperparameters){.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};
    e->clip = f->in_backward ? 0 : 1;
    e->persist_bytes = f->persist_below;
    e->vertical = strcmp(f->schedule, "vertical") == 0;
    e->in_backward = f->in_backward;
    e->has_pairs = e->has_examples = strcmp(f->objective, "dpo") == 0; /* rows are examples */
    e->beta = 0.1;
    e->delay_after = -1;
    if (zn_options_given(given, "--delayed-update"))
        e->delay_after = f->delayed_update ? strtoll(f->delayed_update, NULL, 10) : DEFAULT_DELAY;
    e->n_slices = f->tensor_parallel > 1 ? (int)f->tensor_parallel : 0;
    e->partitions_activations = f->partition_activations;
    p->setup.memory_limit = f->memory_limit;
    return zn_optimizer_find(f->optimizer, &e->hyperparameters, &e->optimizer);
}

/* -1 where the flag was not given. */
static int tier_of(const char *name)
{
    return !name ? -1 : strcmp(name, "none") == 0 ? ZN_TIER_DEVICE : strcmp(name, "cpu") == 0 ? ZN_TIER_HOST : ZN_TIER_NVME;
}

static void set_choices(struct plan *p, const struct zn_options *given)
{
    const struct plan_flags *f = p->flags;
    struct zn_choices *c = &p->choices;
    *c = zn_choices_open();
    c->any_schedule = strcmp(f->schedule, "auto") == 0;
    c->stage = f->stage ? f->stage[0] - '0' : -1;
    c->keep = f->recompute ? zn_keep_parse(f->recompute) : f->partition_activations ? 0 : -1;
    c->keep_logits = f->keep_logits ? strcmp(f->keep_logits, "on") == 0 : -1;
    if (p->setup.engine.has_pairs)
        c->keep_logits = 0;
    c->reduce_every = f->reduce ? strcmp(f->reduce, "every") == 0 : -1;
    c->optimizer = tier_of(f->off_optimizer);
    c->parameters = tier_of(f->off_param);
    c->gradients = tier_of(f->off_gradients);
    c->activations = tier_of(f->off_activations);
    if (zn_options_given(given, "--tile-limit"))
        c->tile_bytes = f->tile_limit;
    if (zn_options_given(given, "--prefetch-bytes"))
        c->prefetch_bytes = f->prefetch_bytes;
    if (zn_options_given(given, "--host-cache"))
        c->host_cache = f->host_cache;
    else if (c->optimizer == ZN_TIER_NVME && !f->memory_limit)
        c->host_cache = 0; /* as in training */
    c->compares_all = zn_options_given(given, "--fit");
    c->any_micro_batch = f->micro_batch == 0 && (c->compares_all || !p->cluster.device.is_host);
}

zn_status plan_prepare(struct plan *p, const struct zn_options *given)
{
    const struct plan_flags *f = p->flags;
    ZN_TRY(open_cluster(p));
    ZN_TRY(set_ranks(p));
    ZN_TRY(f->model ? open_folder(p, f->model) : make_shape(p));
    p->base_type = p->setup.engine.type;
    if (p->model)
        ZN_TRY(plan_add_adapters(p, p->model, &p->setup.engine));
    if (f->precision)
        ZN_TRY(zn_dtype_parse(f->precision, "--precision", &p->setup.engine.type));
    ZN_TRY(set_engine(p, given));
    set_choices(p, given);
    p->setup.cluster = &p->cluster;
    p->setup.model = p->model;
    return ZN_OK;
}

static zn_status search(struct plan *p)
{
    const struct plan_flags *f = p->flags;
    if (f->largest) {
        struct zn_family family = {f->hidden, f->heads, f->ffn, f->vocabulary, plan_add_adapters, p};
        p->has_shape = true;
        ZN_TRY(zn_plan_largest(&p->setup, &p->choices, &family, &p->shape, &p->model, &p->prediction));
    } else {
        ZN_TRY(zn_plan_choose(&p->setup, &p->choices, &p->prediction));
    }
    return zn_predict_time(&p->setup, &p->prediction);
}

zn_status plan_make(struct plan *p, const struct plan_flags *f, const struct zn_options *given, void (*note)(const char *text))
{
    *p = (struct plan){.flags = f, .note = note};
    ZN_TRY(plan_prepare(p, given));
    ZN_TRY(search(p));
    zn_plan_advise(&p->setup, &p->prediction, &p->advice);
    return ZN_OK;
}

void plan_fini(struct plan *p)
{
    zn_prediction_fini(&p->prediction);
    zn_model_destroy(p->model);
    free(p->is_base);
    free(p->is_quantised);
}
