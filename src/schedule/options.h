/* What a step is compiled from, besides the model: the settings of an engine. */
#ifndef ZN_SCHEDULE_OPTIONS_H
#define ZN_SCHEDULE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "memory/ledger.h"
#include "optim/optimizer.h"

/* The tier of each kind of state. Device is where the engine computes; on the cpu device host memory is
 * the same memory, counted apart. */
struct zn_offload {
    zn_tier parameters; /* other than device: only at stage 3 */
    zn_tier gradients;  /* nvme: only where a rank keeps its partition alone */
    zn_tier optimizer;
    zn_tier activations; /* checkpoints between segments, with recompute */
};

struct zn_engine_options {
    bool trains;    /* else it only evaluates, in fp32: no gradients, no optimizer states, no masters */
    bool evaluates; /* a training engine that also evaluates */
    int stage;      /* 0 … 3 */
    zn_dtype type;  /* working precision: of parameters, and of gradients between ranks; else that of parameters alone */
    bool trains_fp32; /* trained parameters and their gradients are fp32 whatever the working precision: adapters */
    bool reduce_every; /* gradients are reduced every micro-batch (always at stages 2 and 3) */
    int64_t micro_batch, seq_len; /* of this rank; the most tokens a sequence has */
    bool has_examples;         /* batches say where the examples of a sequence begin, and may be shorter than `seq_len` */
    bool has_pairs; /* the loss is that of pairs of answers against the model without its adapters: a step begins with its passes */
    double beta;    /* of pairs */
    int64_t extends; /* passes add to one sequence of at most so many tokens, `seq_len` of them at once; 0: they do not */
    int64_t accumulate;
    int n_slices; /* ranks of a tensor-parallel group, each of which holds a slice of the parameters; below 2: there is none */
    bool partitions_activations; /* … and of each activation checkpoint its part (ZeRO-R's P_a); with recompute */
    bool recompute, keep_logits;
    int64_t keep; /* with recompute: the last so many segments before the head keep their activations */
    size_t prefetch_bytes, reuse_bytes; /* stage 3: see gathers.h */
    size_t persist_bytes; /* stage 3: units up to this size stay gathered */
    struct zn_offload offload;
    bool is_discrete;        /* the device has memory of its own, and the host a device for updates */
    bool stages_comm;        /* … and communication reaches it through the host's memory */
    size_t tile_bytes;    /* parameters above this are split into tile units; 0: none */
    size_t host_cache;    /* optimizer on NVMe: bytes of its states that stay in memory */
    bool vertical;        /* all micro-batches of a segment before the next segment; with recompute */
    bool in_backward;     /* a unit is updated as soon as its gradient is complete; clip is 0 */
    int64_t delay_after;  /* updates are applied a step late after so many; -1: never */
    const zn_optimizer *optimizer; /* NULL where it does not train. Borrowed */
    struct zn_hyperparameters hyperparameters;
    double clip; /* 0 is off */
    const bool *frozen; /* by parameter index: not trained; NULL: none. Where it does not train: all but the adapters. Borrowed */
    zn_dtype frozen_type; /* of the values of those: they keep the type that they come in */
    const bool *quantised; /* by parameter index: of those that are not trained, which are kept quantised; NULL: none. Borrowed */
    zn_dtype quantised_type;
};

#endif
