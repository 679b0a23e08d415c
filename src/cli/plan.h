/* `zinc plan` from inside: what the command line says, what it becomes, and how it is shown. */
#ifndef ZN_CLI_PLAN_H
#define ZN_CLI_PLAN_H

#include "base/options.h"
#include "plan/advice.h"
#include "plan/paper.h"
#include "plan/planner.h"

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
    const char *base_quantize;
    struct zn_words lora_targets;
    bool in_backward, largest, simulate, json, program, partition_activations;
};

/* A planned run. */
struct plan {
    const struct plan_flags *flags;
    struct zn_cluster cluster;
    struct zn_plan_setup setup;
    struct zn_choices choices;
    zn_model *model;
    bool *is_base; /* with adapters, by parameter index: it is none of theirs */
    bool *is_quantised; /* NULL: none is */
    bool has_shape; /* the model is no folder's */
    struct zn_shape shape;
    struct zn_prediction prediction;
    struct zn_advice advice;
};

/* Flags that contradict each other or that belong together. */
zn_status plan_check_flags(const struct plan_flags *flags, const struct zn_options *given);

/* Reads cluster and model, and sets what will be planned. With --largest there is no model yet. The caller calls
 * fini whatever happened. */
zn_status plan_prepare(struct plan *plan, const struct plan_flags *flags, const struct zn_options *given);
void plan_fini(struct plan *plan);

/* Of --lora-rank: its flags, and once the model and its type are known, the adapters. */
zn_status plan_check_adapters(const struct plan_flags *flags, const struct zn_options *given);
zn_status plan_add_adapters(struct plan *plan, zn_dtype base_type);

void plan_show_text(const struct plan *plan);
void plan_count_text(double count, char text[32]); /* "4.276 K" */
zn_status plan_show_json(const struct plan *plan);

/* The program of a step, verified. */
zn_status plan_show_program(const struct plan *plan);

/* The chosen settings as a configuration file with the names of flags. */
zn_status plan_write_config(const struct plan *plan, const char *path);

void plan_show_paper(const struct zn_paper *paper, bool json);

#endif
