/* Training and evaluation of hub models in one call each. */
#ifndef ZINC_TRAIN_H
#define ZINC_TRAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "zinc/progress.h"
#include "zinc/settings.h"
#include "zinc/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One finished step, as in the log. */
struct zn_step_report {
    int64_t step, steps;
    double loss, grad_norm, lr, seconds;
    double scale;   /* loss scale of this step */
    bool has_pairs; /* --objective dpo: the loss is the mean over pairs, and … */
    double accuracy, margin; /* … the part of them that prefers the chosen answer, and the mean of their margins */
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
    int64_t n_adapters; /* those of them that are adapters' and alone are trained; 0: there are none */
    int64_t steps, tokens_per_step;
    size_t bytes[5][3]; /* parameters, gradients, optimizer, activations, buffers; on device, host, nvme */
    size_t process_bytes; /* what the process holds besides */
    size_t memory_limit;
    const char *device;  /* with memory of its own: "opencl:0"; NULL: the processor */
    size_t device_limit; /* of that memory */
    bool shares_memory;  /* it is the process's, too */
    const char *recompute; /* on, off or keep=N */
    bool vertical;
    const char *schedule_reason; /* why this schedule was chosen; NULL: it was given */
    size_t tile_bytes; /* 0: no tiles */
    int ranks, stage;
    const char *precision;
    int threads;
    const char *isa;
    uint64_t model_bytes, checkpoint_bytes; /* of the files that are written: the model, and each checkpoint */
    int64_t checkpoint_every, keep;
    bool saves_at_end; /* a checkpoint, too */
    double flops, peak_flops; /* of matrix products, a rank: in a step, and a second at most; 0: nobody measured the latter */
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
    void (*summary)(void *self, const char *text); /* what the run has cost, as lines */
    zn_progress *progress; /* is told what the run is doing, on rank 0; borrowed, may be NULL */
};

/* Told to stop otherwise than by a signal that a person would know. */
enum { ZN_STOP_ASKED = -1 };

/* zn_train_options_init sets the defaults. Settings are given with ZN_SET; strings and lists are borrowed for the call. */
struct zn_train_options {
    struct zn_settings settings;
    /* Asked when training begins and after each step, on every rank: the number of a signal, ZN_STOP_ASKED, or 0. Any rank's
     * answer stops the run after this step, with a checkpoint and ZN_ERR_INTERRUPTED. May be NULL. */
    int (*stop)(void *self);
    void *stop_self;
    struct zn_train_listener listener;
    const char *command_line; /* for run.json; NULL: not told */
};

/* Sets the defaults of all options. */
ZN_API void zn_train_options_init(struct zn_train_options *options);

/* Trains and writes the output folder; as one rank of the job when mpirun or srun started this process.
 * Blocks until the end. */
ZN_API zn_status zn_train(const struct zn_train_options *options);

/* As those of training. */
struct zn_eval_options {
    struct zn_settings settings;
    struct zn_train_listener listener; /* only note and failed are called, and progress is told */
};

struct zn_eval_result {
    double loss, perplexity; /* not finite where a window's loss is not */
    int64_t windows, examples; /* examples of rows */
    int64_t tokens;            /* processed, without padding */
    int64_t targets;           /* those of them that count */
    bool is_shown;             /* by this rank */
    char reason[96];           /* why the loss is not finite; empty: it is */
};

/* Sets the defaults of all options. */
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
