/* The buffers of a run: every large piece of memory or swap, planned before the first step. Programs name places in them by
 * spans; the executor knows their addresses. */
#ifndef ZN_SCHEDULE_BUFFER_H
#define ZN_SCHEDULE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memory/buffer.h"
#include "optim/optimizer.h"

/* Doubles in ZN_BUFFER_SUMS: losses of a step, and of an evaluation; of pairs, also how many are right, and their margins, behind the
 * loss; and where token losses go that nobody reads. */
enum { ZN_N_PAIR_SUMS = 3, ZN_SUM_LOSS = 0, ZN_SUM_EVALUATE = ZN_N_PAIR_SUMS, ZN_SUM_UNREAD = 2 * ZN_N_PAIR_SUMS, ZN_N_SUMS };

typedef enum zn_buffer_id {
    ZN_BUFFER_PARAMETERS,        /* working values of trained units: all of each, or the own partitions */
    ZN_BUFFER_FROZEN,            /* the same of units that are not trained */
    ZN_BUFFER_QUANTISED,         /* … and of those that are quantised */
    ZN_BUFFER_PERSISTENT,        /* small units that stay gathered */
    ZN_BUFFER_PIPELINE,          /* chunks of the optimizer pass on their way from and to the swap */
    ZN_BUFFER_GRADIENTS,         /* sums of this step: all units, or the own partitions */
    ZN_BUFFER_PENDING,           /* those of a delayed update */
    ZN_BUFFER_NEXT,              /* own working values that a delayed update makes */
    ZN_BUFFER_SWAPPED_STATES,    /* masters and states on NVMe */
    ZN_BUFFER_MASTER,            /* of own elements, in memory */
    ZN_BUFFER_STATES,            /* … and each state of the optimizer */
    ZN_BUFFER_SCALES = ZN_BUFFER_STATES + ZN_MAX_OPTIMIZER_STATES, /* … and the scales of its blocks */
    ZN_BUFFER_IDS = ZN_BUFFER_SCALES + ZN_MAX_OPTIMIZER_STATES,
    ZN_BUFFER_TARGETS,
    ZN_BUFFER_POSITION_IDS,
    ZN_BUFFER_SEQUENCES,         /* of pairs: which answer a token is of */
    ZN_BUFFER_REFERENCE,         /* of pairs: the reference's log-sum-exp and target's logit of each token, for all micro-batches */
    ZN_BUFFER_SUMS,              /* of losses */
    ZN_BUFFER_SQUARES,           /* of gradients, by part */
    ZN_BUFFER_PARTIAL_SUMS,
    ZN_BUFFER_DIRECTIONS,        /* of own elements that are updated by matrix */
    ZN_BUFFER_MATRICES,          /* … of all ranks: whole matrices */
    ZN_BUFFER_MATRIX_WORK,
    ZN_BUFFER_OFFLOAD_PACKED,    /* gradients that leave a discrete device, rounded */
    ZN_BUFFER_OFFLOAD_ARRIVED,   /* … in the host's memory */
    ZN_BUFFER_OFFLOAD_WIDENED,
    ZN_BUFFER_OFFLOAD_EARLIER,   /* … what they are added to, from NVMe */
    ZN_BUFFER_BRIDGE,            /* what communication takes from a discrete device and brings to it, in the host's memory */
    ZN_BUFFER_STAGING,           /* pieces of states that are handed out */
    ZN_BUFFER_WIDE,              /* a chunk in fp32 of values that are kept in 16 bits alone, or quantised */
    ZN_BUFFER_LOGITS,
    ZN_BUFFER_TIED,              /* whole gradients of units that a pass writes twice: the second */
    ZN_BUFFER_ADD,               /* gradients that are added to what is there */
    ZN_BUFFER_SLOTS,             /* buckets of gradients that are being reduced */
    ZN_BUFFER_GATHERED,          /* units gathered along the trace */
    ZN_BUFFER_FETCHED,           /* own partitions on their way to be gathered */
    ZN_BUFFER_LANDED,            /* … in the host's memory, on their way to a discrete device */
    ZN_BUFFER_CHECKPOINT_COPIES, /* activation checkpoints that are copied from and to a discrete device */
    ZN_BUFFER_CHECKPOINTS,       /* where they stay */
    ZN_BUFFER_CHECKPOINT_STAGING, /* … on their way to NVMe and back */
    ZN_BUFFER_CHECKPOINT_PIECES, /* … gathered from the ranks that each keep a part of them */
    ZN_BUFFER_EXCHANGE,          /* what ranks that hold slices of parameters sum or gather */
    ZN_BUFFER_SLICES,            /* pieces of states of all slices that are handed out */
    ZN_BUFFER_KEYS_AND_VALUES,
    ZN_BUFFER_ARENA,             /* activations */
    ZN_N_BUFFERS
} zn_buffer_id;

/* A piece of a buffer. `is_own`: of a row of pieces, one for each rank, the own. */
struct zn_span {
    int16_t buffer;
    bool is_own;
    uint64_t offset, n_bytes;
};

#define ZN_NO_SPAN ((struct zn_span){.buffer = -1})

#endif
