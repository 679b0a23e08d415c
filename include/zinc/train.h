/* Training and evaluation of hub models in one call each. */
#ifndef ZINC_TRAIN_H
#define ZINC_TRAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "zinc/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One finished step, as in the log. */
struct zn_step_report {
    int64_t step, steps;
    double loss, grad_norm, lr, seconds;
    double scale;   /* loss scale of this step */
    int64_t tokens;  /* processed in this step by all ranks, without padding */
    int64_t targets; /* those of them that count */
    bool skipped;
    const char *reason;        /* of a skipped step */
    bool evaluated;            /* the held-out data, at this step */
    double eval_loss;          /* then; may be not finite */
    const char *eval_reason;   /* why it is not finite; NULL: it is */
    size_t device_bytes, host_bytes, nvme_bytes; /* peaks of the ledger */
    size_t resident_bytes;     /* peak of the process */
    uint64_t comm_bytes;       /* sent by this rank in this step */
    uint64_t nvme_read_bytes, nvme_write_bytes; /* in this step */
};

/* Where the run's bytes will be, before any is allocated. */
struct zn_plan_report {
    const char *architecture;
    int64_t n_parameters;
    int64_t steps, tokens_per_step;
    size_t bytes[5][3]; /* parameters, gradients, optimizer, activations, buffers; on device, host, nvme */
    size_t process_bytes; /* what the process holds besides */
    size_t memory_limit;
    bool recompute, vertical;
    const char *schedule_reason; /* why this schedule was chosen; NULL: it was given */
    size_t tile_bytes; /* 0: no tiles */
    int ranks, stage;
    const char *precision;
    int threads;
    const char *isa;
    uint64_t model_bytes, checkpoint_bytes; /* of the files that are written: the model, and each checkpoint */
    int64_t checkpoint_every, keep;
    bool saves_at_end; /* a checkpoint, too */
};

/* What happens on the way; all on the calling thread, any may be NULL. But for `failed`, rank 0's alone is told. */
struct zn_train_listener {
    void *self;
    void (*plan)(void *self, const struct zn_plan_report *plan);
    void (*step)(void *self, const struct zn_step_report *step);
    void (*note)(void *self, const char *text); /* warnings and things said once */
    void (*end)(void *self, const char *output); /* the output folder is written */
    void (*saved)(void *self, const char *checkpoint, double seconds); /* a checkpoint is whole */
    /* The run has failed, or was stopped; told at once, on every rank. `speaks` on one of each node: the text is the same
     * on all, and need be printed there alone. Not told of what goes wrong before ranks have found each other. */
    void (*failed)(void *self, const char *text, bool speaks);
};

/* Strings and lists are borrowed for the call. zn_train_options_init sets the defaults. */
struct zn_train_options {
    const char *model;            /* hub folder */
    bool from_scratch;            /* random weights from config.json alone */
    const char *const *data;      /* files and folders */
    size_t n_data;
    bool byte_tokenizer;          /* text as bytes where the folder has no tokenizer */
    const char *const *eval_data; /* held-out data, may be empty */
    size_t n_eval_data;
    const char *const *map;       /* "NEW=OLD": the key OLD of rows is read as NEW, of all data */
    size_t n_map;
    int64_t eval_every;           /* 0: only at the end */
    const char *output;
    bool overwrite;
    const char *output_dtype;     /* NULL: that of the source, fp32 from scratch */
    int64_t steps;                /* -1: by epochs */
    double epochs;
    int64_t micro_batch, accumulate;
    int64_t seq_len;              /* 0: the smaller of 1024 and the model's maximum */
    const char *packing;          /* of examples: best-fit (NULL), none, stream */
    bool truncate_rows;           /* examples longer than a window are cut at their end; else they are an error */
    const char *optimizer;        /* adamw, adam, sgd */
    double momentum;              /* sgd */
    double lr;                    /* 0: 2e-5, from scratch 3e-4 */
    double beta1, beta2, eps, weight_decay;
    const char *lr_schedule;      /* constant, linear, cosine */
    int64_t warmup;
    double min_lr;                /* of the last step; below 0: not given, and the rate falls towards 0 after it */
    double clip;
    const char *precision;        /* NULL: that of the folder */
    bool dynamic_loss_scale;      /* fp16 */
    double loss_scale;            /* the static one, or the first; 0: 65536 */
    int64_t loss_scale_window, hysteresis;
    double loss_scale_min;
    int stage;                    /* -1: by the plan */
    const char *const *freeze;    /* globs over parameter names, which are then not trained */
    size_t n_freeze;
    const char *reduce;           /* every, last; NULL: last where it costs no memory */
    const char *offload_optimizer, *offload_param, *offload_gradients, *offload_activations; /* none, cpu, nvme;
                                     NULL: by the plan */
    const char *const *nvme_paths; /* folders for swap; none: the output folder */
    size_t n_nvme_paths;
    bool allow_buffered_swap;     /* swap on file systems in memory or without O_DIRECT */
    size_t tile_limit;            /* parameters above are split; 0: none, SIZE_MAX: by the plan */
    size_t host_cache;            /* of optimizer states on NVMe; SIZE_MAX: by the plan */
    const char *schedule;         /* horizontal (NULL), vertical, auto */
    bool optimizer_in_backward;
    int64_t delayed_update;       /* after so many updates; -1: never */
    size_t prefetch_bytes;        /* SIZE_MAX: by the plan */
    size_t persist_below;         /* bytes; SIZE_MAX: by the plan */
    size_t memory_limit;          /* of this process; 0: its share of 90% of what the machine leaves */
    int recompute;                /* -1: by the plan, 0 off, 1 on */
    int keep_logits;              /* the same; of a chunk of tokens, for their gradient */
    uint64_t seed;
    bool shuffle;
    int threads;                  /* 0: physical cores, shared among the ranks of the node */
    const char *log;              /* NULL: metrics.jsonl in the output folder */
    const char *trace;            /* file for the time line of one step of rank 0: the third, or the last; NULL: none */
    const char *save;             /* model: at the end the weights alone; all: a checkpoint, too */
    int64_t checkpoint_every;     /* steps; 0: only when it is stopped, and at the end as `save` says */
    int64_t keep;                 /* how many checkpoints stay; 0: none is ever saved */
    bool checkpoint_async;        /* synced and hashed while training goes on */
    bool resume;                  /* go on from the newest whole checkpoint of the output folder. A finished model without
                                     one is refused, unless it has all steps: then nothing is done */
    const char *resume_from;      /* or from this one, or the newest of this run */
    /* Asked when training begins and after each step, on every rank: the number of a signal, or 0. Any rank's signal stops
     * the run after this step, with a checkpoint and ZN_ERR_INTERRUPTED. May be NULL. */
    int (*stop)(void *self);
    void *stop_self;
    struct zn_train_listener listener;
};

ZN_API void zn_train_options_init(struct zn_train_options *options);

/* Trains and writes the output folder; as one rank of the job when mpirun or srun started this process.
 * Blocks until the end. */
ZN_API zn_status zn_train(const struct zn_train_options *options);

struct zn_eval_options {
    const char *model;
    const char *const *data;
    size_t n_data;
    const char *const *map; /* as in training */
    size_t n_map;
    bool byte_tokenizer; /* text as bytes where the folder has no tokenizer */
    int64_t seq_len;     /* 0: as in training; for rows the longest example */
    int64_t micro_batch; /* windows computed at once, on each rank */
    const char *packing; /* as in training */
    bool truncate_rows;
    int threads;
    size_t memory_limit;           /* of this process; 0: its share of 90% of what the machine leaves */
    const char *offload_param;     /* none, cpu, nvme; NULL: by the plan */
    const char *const *nvme_paths; /* folders for swap; none: the current folder */
    size_t n_nvme_paths;
    bool allow_buffered_swap;
    struct zn_train_listener listener; /* only note and failed are called */
};

struct zn_eval_result {
    double loss, perplexity; /* not finite where a window's loss is not */
    int64_t windows, examples; /* examples of rows */
    int64_t tokens;            /* processed, without padding */
    int64_t targets;           /* those of them that count */
    bool is_shown;             /* by this rank */
    char reason[96];           /* why the loss is not finite; empty: it is */
};

ZN_API void zn_eval_options_init(struct zn_eval_options *options);

/* Mean loss over all windows, in fp32; as one rank of the job when mpirun or srun started this process: every rank has
 * the result, and `is_shown` is set on the one that prints it. Parameters that do not fit the limit are partitioned over the
 * ranks or read from NVMe, with the same bits for every window; ranks only change the order in which windows' sums are
 * added in double precision. Blocks until the end. */
ZN_API zn_status zn_eval(const struct zn_eval_options *options, struct zn_eval_result *result);

#ifdef __cplusplus
}
#endif
#endif
