/* A training run from inside: what train.c runs and settings.c resolves. */
#ifndef ZN_TRAIN_TRAINING_H
#define ZN_TRAIN_TRAINING_H

#include "train/batch.h"
#include "train/best.h"
#include "train/card.h"
#include "train/evaluate.h"
#include "train/metrics.h"
#include "train/order.h"
#include "train/run.h"
#include "train/saving.h"
#include "train/schedule.h"
#include "train/summary.h"
#include "zero/precision.h"

struct training {
    const struct zn_train_options *options; /* as they were asked for; borrowed */
    struct zn_settings settings;            /* theirs, with what the run decides */
    struct zn_run run;
    struct zn_engine_options engine;
    struct zn_choices choices;
    struct zn_schedule schedule;
    zn_loss_scale loss_scale;
    struct zn_order order;
    zn_packing packing;
    const char *packing_name; /* what it comes to: stream where there are no examples */
    struct zn_data data, eval_data;
    zn_windows *windows, *eval_windows; /* eval: NULL where none are held out */
    struct zn_data_part trained, held_out_part; /* --eval-split: of the data */
    struct zn_eval_result held_out;     /* of the last evaluation */
    struct zn_best best;                /* --early-stop */
    zn_metrics *metrics;
    zn_saving *saving;
    struct zn_tracing *tracing;
    struct zn_verdict verdict; /* of the last step; its report borrows the reason */
    int64_t step;              /* steps done */
    bool is_over;              /* --resume found nothing left to do */
    struct zn_summary summary;
    struct zn_card card;
    int64_t n_skipped; /* steps skipped in a row */
    int64_t n_updated; /* steps of this run that were not skipped */
    uint64_t model_bytes; /* of the model that is written */
    bool ends_alike;   /* every rank ends of itself, for the same reason */
    zn_status failure; /* that the run is to end with */
    char failure_text[1024], log_failure[1024]; /* of the log: rank 0's, "" for none */
    struct zn_host_batch *batches; /* one for each micro-batch of a step */
    struct zn_micro_batch *views;  /* theirs */
    int64_t *which;                /* the windows of one */
    bool *frozen;                  /* by parameter index */
    double peak_flops; /* of a core, where `zinc doctor --measure` has measured this machine; else 0 */
};

/* ---- A run, step by step (train.c). Collective; block ---- */

/* Before training_begin, in a zeroed struct: what is not in the options. */
struct training_setup {
    const struct zn_train_options *options; /* borrowed, as long as the run lives */
    zn_comm *comm;                          /* the same */
    const zn_network *network;              /* as of struct zn_run */
    bool is_temporary;                      /* the same */
};

/* Everything up to the first step, with the evaluation before it. The caller calls training_fini whatever happened, after
 * training_tell_failure where this or what follows fails. */
zn_status training_begin(struct training *t, const struct training_setup *setup);

/* Whether all steps are done. Not collective. */
bool training_is_done(const struct training *t);

/* The next step, with what is due after it: its line in the log, an evaluation, a checkpoint; after the last the model is written. The
 * report may be NULL; its texts live until the next step. */
zn_status training_step(struct training *t, struct zn_step_report *report);

/* After the last step: the end of the log and of run.json. */
zn_status training_end(struct training *t);

/* The others learn of a failure, and one rank of the node says it before any of them leaves. */
void training_tell_failure(const struct training *t, zn_status status);
void training_fini(struct training *t);

/* ---- Its parts ---- */

/* Opens, plans and starts everything: all ranks succeed or none. Collective; blocks. */
zn_status training_set_up(struct training *t);

/* Settings into what the engine, the planner and the schedule take: before the model is known, after it, and
 * once the data is. */
zn_status settings_resolve(struct training *t);
zn_status settings_resolve_model(struct training *t);
zn_status settings_resolve_steps(struct training *t);

#endif
