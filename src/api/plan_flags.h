/* The options of `zinc plan` and of zn_plan. */
#ifndef ZN_API_PLAN_FLAGS_H
#define ZN_API_PLAN_FLAGS_H

#include "base/options.h"

struct plan_flags {
    const char *model, *params, *cluster, *paper, *fit, *trace;
    const char *stage, *recompute, *keep_logits, *reduce, *precision, *optimizer, *schedule;
    const char *off_optimizer, *off_param, *off_gradients, *off_activations;
    int64_t layers, hidden, heads, vocabulary, ffn;
    int64_t ranks, nodes, micro_batch, accumulate, seq_len;
    int64_t tensor_parallel;
    size_t memory_limit, prefetch_bytes, persist_below, tile_limit, host_cache;
    const char *delayed_update;
    int64_t lora_rank; /* 0: no adapters */
    const char *base_quantize, *objective;
    struct zn_words lora_targets;
    bool in_backward, largest, simulate, json, program, partition_activations;
};

/* The command, whose target is a struct plan_flags. */
extern const struct zn_command plan_command;

/* Flags that contradict each other or that belong together. */
zn_status plan_check_flags(const struct plan_flags *flags, const struct zn_options *given);

/* Of --lora-rank. */
zn_status plan_check_adapters(const struct plan_flags *flags, const struct zn_options *given);

#endif
