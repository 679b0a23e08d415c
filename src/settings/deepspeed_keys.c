/* The keys of DeepSpeed's configuration, one row each, beside those that rows of zinc/settings.def have. */
#include <stdio.h>
#include <string.h>

#include "settings/deepspeed.h"
#include "settings/settings.h"

#define READ(path_) {.path = path_, .use = DEEPSPEED_READ}
#define BLOCK(path_) {.path = path_, .use = DEEPSPEED_BLOCK}
#define NO_EFFECT(path_, why_) {.path = path_, .use = DEEPSPEED_NO_EFFECT, .why = why_}
#define REFUSED(path_, why_) {.path = path_, .use = DEEPSPEED_REFUSED, .why = why_}
#define UNLESS(value, path_, why_) {.path = path_, .use = DEEPSPEED_REFUSED, .why = why_, .neutral = value}

#define PLANNED "buffers follow from the plan of the step"
#define NOT_BUILT "not in this build"
#define OWN_KERNELS "the kernels of every optimizer are our own"
#define MEASURED "block size and queue depth are measured on the drive"
#define LOGGED "the log is metrics.jsonl, of which `zinc report` makes a page"
#define ZERO "zero_optimization."

static const struct deepspeed_key keys[] = {
    BLOCK("optimizer"),
    READ("optimizer.type"),
    BLOCK("optimizer.params"),
    READ("optimizer.params.lr"),
    READ("optimizer.params.betas"),
    READ("optimizer.params.adam_w_mode"),
    READ("optimizer.params.muon_lr"),
    READ("optimizer.params.adam_lr"),
    NO_EFFECT("optimizer.params.torch_adam", OWN_KERNELS),
    NO_EFFECT("optimizer.params.fused", OWN_KERNELS),
    NO_EFFECT("optimizer.params.ns_method", OWN_KERNELS),
    NO_EFFECT("optimizer.params.foreach", OWN_KERNELS),
    NO_EFFECT("optimizer.params.capturable", OWN_KERNELS),
    NO_EFFECT("optimizer.params.set_grad_none", OWN_KERNELS),
    UNLESS("true", "optimizer.params.fp32_optimizer_states", "optimizer states are fp32"),
    NO_EFFECT("optimizer.legacy_fusion", OWN_KERNELS),
    REFUSED("optimizer.params.amsgrad", "AMSGrad is not in this build"),
    REFUSED("optimizer.params.nesterov", "Nesterov momentum of SGD is not in this build, and Muon always has it"),
    REFUSED("optimizer.params.maximize", "maximizing is not in this build"),
    UNLESS("true", "optimizer.params.bias_correction", "Adam without bias correction is not in this build"),
    UNLESS("0", "optimizer.params.dampening", NOT_BUILT),
    UNLESS("0", "optimizer.params.lr_decay", NOT_BUILT),
    UNLESS("0", "optimizer.params.initial_accumulator_value", NOT_BUILT),
    UNLESS("0", "optimizer.params.max_grad_norm", "the key is gradient_clipping, of the file itself"),
    BLOCK("scheduler"),
    READ("scheduler.type"),
    BLOCK("scheduler.params"),
    READ("scheduler.params.warmup_min_lr"),
    READ("scheduler.params.warmup_max_lr"),
    READ("scheduler.params.warmup_num_steps"),
    READ("scheduler.params.warmup_type"),
    READ("scheduler.params.total_num_steps"),
    READ("scheduler.params.warmup_min_ratio"),
    READ("scheduler.params.cos_min_ratio"),
    UNLESS("-1", "scheduler.params.last_batch_iteration", "the count of steps is that of the checkpoint"),
    BLOCK("fp16"),
    READ("fp16.enabled"),
    READ("fp16.loss_scale"),
    READ("fp16.initial_scale_power"),
    NO_EFFECT("fp16.auto_cast", "inputs are token ids"),
    REFUSED("fp16.consecutive_hysteresis", NOT_BUILT),
    REFUSED("fp16.fp16_master_weights_and_grads", "masters and gradients are fp32"),
    BLOCK("bf16"),
    READ("bf16.enabled"),
    NO_EFFECT("bf16.immediate_grad_update", "gradients are added as soon as they are there"),
    NO_EFFECT("bf16.check_grad_overflow", "a step that is not finite is always skipped"),
    REFUSED("bf16.bf16_master_weights_and_grads", "masters, gradients and optimizer states are fp32"),
    REFUSED("bf16.bf16_optimizer_states", "masters, gradients and optimizer states are fp32"),
    BLOCK("bfloat16"),
    READ("bfloat16.enabled"),
    NO_EFFECT("bfloat16.immediate_grad_update", "gradients are added as soon as they are there"),
    NO_EFFECT("bfloat16.check_grad_overflow", "a step that is not finite is always skipped"),
    REFUSED("bfloat16.bf16_master_weights_and_grads", "masters, gradients and optimizer states are fp32"),
    REFUSED("bfloat16.bf16_optimizer_states", "masters, gradients and optimizer states are fp32"),
    REFUSED("amp", "not in this build; give fp16 or bf16"),
    REFUSED("torch_autocast", "not in this build; give fp16 or bf16"),
    BLOCK("zero_optimization"),
    NO_EFFECT(ZERO "allgather_bucket_size", PLANNED),
    NO_EFFECT(ZERO "reduce_bucket_size", PLANNED),
    NO_EFFECT(ZERO "sub_group_size", PLANNED),
    NO_EFFECT(ZERO "contiguous_gradients", PLANNED),
    NO_EFFECT(ZERO "use_multi_rank_bucket_allreduce", PLANNED),
    NO_EFFECT(ZERO "parameter_alignment", PLANNED),
    NO_EFFECT(ZERO "round_robin_gradients", PLANNED),
    NO_EFFECT(ZERO "overlap_comm", "gathers and reductions always run beside computing"),
    NO_EFFECT(ZERO "allgather_partitions", "every stage gathers partitions and scatters reductions"),
    NO_EFFECT(ZERO "reduce_scatter", "every stage gathers partitions and scatters reductions"),
    NO_EFFECT(ZERO "legacy_stage1", "every stage gathers partitions and scatters reductions"),
    NO_EFFECT(ZERO "stage3_use_all_reduce_for_fetch_params", "every stage gathers partitions and scatters reductions"),
    NO_EFFECT(ZERO "stage3_allgather_sequential", "every stage gathers partitions and scatters reductions"),
    NO_EFFECT(ZERO "stage3_prefetch_bucket_size", "the plan chooses --prefetch-bytes; this one counts elements"),
    NO_EFFECT(ZERO "stage3_param_persistence_threshold",
              "--persist-below goes by units and bytes, this one by parameters and elements"),
    NO_EFFECT(ZERO "stage3_model_persistence_threshold",
              "--persist-below goes by units and bytes, this one by parameters and elements"),
    NO_EFFECT(ZERO "stage3_max_live_parameters", "what is gathered when is compiled before step 1, within --memory-limit"),
    NO_EFFECT(ZERO "stage3_max_reuse_distance", "what is gathered when is compiled before step 1, within --memory-limit"),
    NO_EFFECT(ZERO "stage3_module_granularity_threshold",
              "what is gathered when is compiled before step 1, within --memory-limit"),
    NO_EFFECT(ZERO "leaf_module", "what is gathered when is compiled before step 1, within --memory-limit"),
    NO_EFFECT(ZERO "log_trace_cache_warnings", "what is gathered when is compiled before step 1, within --memory-limit"),
    NO_EFFECT(ZERO "enable_sanity_checks", "what is gathered when is compiled before step 1, within --memory-limit"),
    NO_EFFECT(ZERO "stage3_gather_16bit_weights_on_model_save", "the output folder always holds whole weights"),
    NO_EFFECT(ZERO "stage3_gather_fp16_weights_on_model_save", "the output folder always holds whole weights"),
    NO_EFFECT(ZERO "elastic_checkpoint", "checkpoints load at every stage and number of ranks"),
    NO_EFFECT(ZERO "load_from_fp32_weights", "checkpoints load at every stage and number of ranks"),
    NO_EFFECT(ZERO "pipeline_loading_checkpoint", "checkpoints load at every stage and number of ranks"),
    NO_EFFECT(ZERO "ignore_unused_parameters", "models are our own"),
    NO_EFFECT(ZERO "memory_efficient_linear", "models are our own"),
    NO_EFFECT(ZERO "override_module_apply", "models are our own"),
    NO_EFFECT(ZERO "save_muon_momentum_buffer_in_memory", "Muon keeps its momentum where --offload-optimizer says"),
    UNLESS("true", ZERO "compute_grad_norm", "the norm is always computed"),
    REFUSED(ZERO "zero_quantized_weights", "ZeRO++ is not in this build"),
    REFUSED(ZERO "zero_quantized_nontrainable_weights", "ZeRO++ is not in this build"),
    REFUSED(ZERO "zero_quantized_gradients", "ZeRO++ is not in this build"),
    REFUSED(ZERO "zeropp_loco_param", "ZeRO++ is not in this build"),
    UNLESS("1", ZERO "zero_hpz_partition_size", "ZeRO++ is not in this build"),
    UNLESS("-1", ZERO "mics_shard_size", "MiCS is not in this build"),
    REFUSED(ZERO "mics_hierarchical_params_gather", "MiCS is not in this build"),
    REFUSED(ZERO "zenflow", "ZenFlow is not in this build"),
    READ(ZERO "cpu_offload"),
    READ(ZERO "cpu_offload_param"),
    NO_EFFECT(ZERO "cpu_offload_use_pin_memory", "host memory is our own, and not pinned"),
    BLOCK(ZERO "offload_param"),
    READ(ZERO "offload_param.nvme_path"),
    NO_EFFECT(ZERO "offload_param.buffer_count", PLANNED),
    NO_EFFECT(ZERO "offload_param.pin_memory", "host memory is our own, and not pinned"),
    BLOCK(ZERO "offload_optimizer"),
    READ(ZERO "offload_optimizer.nvme_path"),
    NO_EFFECT(ZERO "offload_optimizer.buffer_count", PLANNED),
    NO_EFFECT(ZERO "offload_optimizer.pin_memory", "host memory is our own, and not pinned"),
    NO_EFFECT(ZERO "offload_param.buffer_size", PLANNED),
    NO_EFFECT(ZERO "offload_param.max_in_cpu", "what stays in memory follows from --memory-limit"),
    NO_EFFECT(ZERO "offload_optimizer.pipeline", "reads and writes always run beside the update"),
    NO_EFFECT(ZERO "offload_optimizer.pipeline_read", "reads and writes always run beside the update"),
    NO_EFFECT(ZERO "offload_optimizer.pipeline_write", "reads and writes always run beside the update"),
    NO_EFFECT(ZERO "offload_optimizer.fast_init", "states begin without reading anything"),
    NO_EFFECT(ZERO "offload_optimizer.cpuadam_cores_perc", "the update takes all --threads"),
    UNLESS("1", ZERO "offload_optimizer.ratio", "an optimizer that is partly offloaded is not in this build"),
    REFUSED(ZERO "offload_optimizer.super_offload", NOT_BUILT),
    NO_EFFECT("zero_allow_untested_optimizer", "every optimizer runs at every stage and tier"),
    NO_EFFECT("zero_force_ds_cpu_optimizer", "every optimizer runs at every stage and tier"),
    BLOCK("aio"),
    NO_EFFECT("aio.block_size", MEASURED),
    NO_EFFECT("aio.queue_depth", MEASURED),
    NO_EFFECT("aio.thread_count", MEASURED),
    NO_EFFECT("aio.intra_op_parallelism", MEASURED),
    NO_EFFECT("aio.single_submit", MEASURED),
    NO_EFFECT("aio.overlap_events", MEASURED),
    NO_EFFECT("aio.use_gds", MEASURED),
    BLOCK("activation_checkpointing"),
    READ("activation_checkpointing.cpu_checkpointing"),
    NO_EFFECT("activation_checkpointing.partition_activations",
              "--partition-activations is for the ranks of --tensor-parallel, which this file does not have"),
    NO_EFFECT("activation_checkpointing.contiguous_memory_optimization", "activations always lie in one arena"),
    NO_EFFECT("activation_checkpointing.number_checkpoints", "every block has a checkpoint"),
    NO_EFFECT("activation_checkpointing.synchronize_checkpoint_boundary", "measures DeepSpeed itself"),
    NO_EFFECT("activation_checkpointing.profile", "measures DeepSpeed itself"),
    NO_EFFECT("steps_per_print", "every step is printed, and logged in metrics.jsonl"),
    BLOCK("tensorboard"),
    NO_EFFECT("tensorboard.enabled", "events always go to OUTPUT/tensorboard"),
    NO_EFFECT("tensorboard.output_path", "events always go to OUTPUT/tensorboard"),
    NO_EFFECT("tensorboard.job_name", "events always go to OUTPUT/tensorboard"),
    NO_EFFECT("wandb", LOGGED),
    NO_EFFECT("csv_monitor", LOGGED),
    NO_EFFECT("comet", LOGGED),
    NO_EFFECT("monitor_config", LOGGED),
    NO_EFFECT("wall_clock_breakdown", "--trace writes the time line of a step"),
    NO_EFFECT("memory_breakdown", "--trace writes the time line of a step"),
    NO_EFFECT("flops_profiler", "--trace writes the time line of a step"),
    NO_EFFECT("comms_logger", "--trace writes the time line of a step"),
    NO_EFFECT("dump_state", "run.json has the resolved settings"),
    NO_EFFECT("disable_python_gc", "concerns Python"),
    NO_EFFECT("log_level", "concerns Python"),
    NO_EFFECT("compile", "concerns Python"),
    NO_EFFECT("graph_harvesting", "concerns Python"),
    NO_EFFECT("checkpoint", "checkpoints are checked and load on any number of ranks"),
    NO_EFFECT("nebula", "checkpoints are checked and load on any number of ranks"),
    NO_EFFECT("vocabulary_size", "the vocabulary is the model's"),
    NO_EFFECT("dataloader_drop_last", "windows that do not fill a step are taken from the next epoch"),
    NO_EFFECT("use_data_before_expert_parallelism", "there is no expert or sequence parallelism here"),
    NO_EFFECT("seq_parallel_communication_data_type", "there is no expert or sequence parallelism here"),
    READ("communication_data_type"),
    BLOCK("data_types"),
    READ("data_types.grad_accum_dtype"),
    REFUSED("data_types.param_dtype", NOT_BUILT),
    REFUSED("data_types.buffer_dtype", NOT_BUILT),
    NO_EFFECT("data_types.keep_in_fp32_modules", "norms are computed in fp32"),
    REFUSED("prescale_gradients", "gradients are summed, then divided once"),
    REFUSED("fp32_allreduce", "gradients are summed, then divided once"),
    REFUSED("sparse_gradients", "gradients are summed, then divided once"),
    REFUSED("disable_allgather", "gradients are summed, then divided once"),
    UNLESS("1", "gradient_predivide_factor", "gradients are summed, then divided once"),
    UNLESS("\"mean\"", "gradient_allreduce_op", "gradients are averaged over all targets of a step"),
    UNLESS("true", "managed_gradient_accumulation", NOT_BUILT),
    REFUSED("elasticity", NOT_BUILT),
    REFUSED("autotuning", NOT_BUILT),
    REFUSED("sparse_attention", NOT_BUILT),
    REFUSED("eigenvalue", NOT_BUILT),
    REFUSED("progressive_layer_drop", NOT_BUILT),
    REFUSED("curriculum_learning", NOT_BUILT),
    REFUSED("data_efficiency", NOT_BUILT),
    REFUSED("compression_training", NOT_BUILT),
    REFUSED("quantize_training", NOT_BUILT),
    REFUSED("hybrid_engine", NOT_BUILT),
    REFUSED("pipeline", NOT_BUILT),
    REFUSED("tensor_parallel", "give --tensor-parallel on the command line"),
    UNLESS("1", "sequence_parallel_size", NOT_BUILT),
    REFUSED("moe", NOT_BUILT),
};

enum { N_KEYS = sizeof keys / sizeof keys[0] };

/* The i-th of all known paths: the rows above, then those of the settings; NULL at the end. */
static const char *path_at(size_t i)
{
    if (i < N_KEYS)
        return keys[i].path;
    return i < N_KEYS + ZN_N_SETTINGS ? zn_settings_table[i - N_KEYS].deepspeed : NULL;
}

bool deepspeed_find(const char *path, struct deepspeed_key *key)
{
    for (size_t i = 0; i < N_KEYS + ZN_N_SETTINGS; i++) {
        const char *known = path_at(i);
        if (!known || strcmp(known, path) != 0)
            continue;
        *key = (struct deepspeed_key){.path = known, .use = DEEPSPEED_SETTING};
        if (i < N_KEYS)
            *key = keys[i];
        else
            key->flag = zn_settings_table[i - N_KEYS].name;
        return true;
    }
    return false;
}

bool config_is_deepspeed(const char *key)
{
    struct deepspeed_key found;
    return !strchr(key, '.') && deepspeed_find(key, &found);
}

/* The last part of a path. */
static const char *name_of(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}

/* The names of one object in turn; `context` is a path in it. */
static const char *sibling(const void *context, size_t i)
{
    const char *path = context;
    size_t length = (size_t)(name_of(path) - path);
    for (size_t k = 0; k < N_KEYS + ZN_N_SETTINGS; k++) {
        const char *known = path_at(k);
        if (known && (size_t)(name_of(known) - known) == length && memcmp(known, path, length) == 0 && i-- == 0)
            return name_of(known);
    }
    return NULL;
}

const char *deepspeed_nearest(const char *path)
{
    return zn_nearest_name(name_of(path), sibling, path);
}
