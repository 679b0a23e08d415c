/* What training and evaluation have in common: a model folder opened, planned, put on a device. */
#ifndef ZN_TRAIN_RUN_H
#define ZN_TRAIN_RUN_H

#include <time.h>

#include "base/machine.h"
#include "base/topology.h"
#include "checkpoint/hub_files.h"
#include "checkpoint/load.h"
#include "checkpoint/peft.h"
#include "checkpoint/weights.h"
#include "device/open.h"
#include "models/network.h"
#include "text/jsonl.h"
#include "plan/planner.h"
#include "settings/settings.h"
#include "zinc/train.h"

/* Units up to so many bytes stay gathered at stage 3. */
enum { ZN_PERSIST_BELOW = 64 * 1024 };

/* Where a run comes from: what run.json tells beside its settings. */
struct zn_run_origin {
    const char *command_line, *trace; /* borrowed; NULL: none */
    time_t began;
};

struct zn_run {
    struct zn_train_listener listener;
    zn_clock clock;
    zn_ledger ledger;
    zn_comm *comm; /* all ranks. Borrowed */
    struct zn_mesh mesh; /* how they share data and parameters */
    zn_comm *groups[ZN_N_AXES]; /* of the mesh where parameters are sliced, else NULL */
    struct zn_machine machine;
    struct zn_run_origin origin;
    struct {
        size_t process_bytes;
        double flops, peak_flops; /* of a step, and a second; 0: not measured */
    } planned;
    zn_topology *bound; /* what the process is bound by; NULL: it is not */
    struct zn_row_options rows; /* how rows of data are read; borrowed */
    char *found; /* the model's folder where it was given by its name on the hub, else NULL */
    zn_hub_files *hub; /* the folder's small files, for what the run writes; NULL: it writes none */
    zn_json *config;
    zn_model *model;
    zn_model_files *files; /* NULL from scratch, and once the weights are loaded */
    zn_peft *adapter; /* the PEFT folder that its adapters come from; NULL: none, or they are new */
    struct zn_adapter_record record; /* of its adapters; rank 0: the model has none */
    bool *is_base; /* with adapters, by parameter index: it is none of theirs */
    zn_dtype quantised_type; /* of the base's matrices; fp32: they keep their type */
    bool *is_quantised;      /* by parameter index; NULL: none is */
    const zn_checkpoint *checkpoint; /* where it goes on from; NULL: at the beginning. Borrowed */
    struct zn_weights_style style;
    const zn_network *network; /* of the caller's own, in place of what config.json says; NULL: none. Borrowed */
    bool is_temporary; /* the output folder goes with the run: no model is written into it */
    bool byte_tokenizer; /* text as bytes where the folder has no tokenizer */
    int threads;
    const char *isa;
    size_t memory_limit;
    size_t data_bytes; /* held beside the plan: lists of examples and windows, a tokenizer */
    bool process_is_limited; /* memory_limit is what `ulimit -v` or `-d` leaves */
    struct zn_cluster figures; /* of this machine, or of rank 0's: what the planner compares candidates by */
    zn_engine_plan plan;
    char recompute[ZN_KEEP_TEXT]; /* of the plan: on, off or keep=N */
    const char *schedule_reason; /* why the plan has this schedule; NULL: it was given */
    zn_accelerator *accelerator; /* what the device is made on; NULL: the processor */
    size_t device_limit;         /* of its memory */
    bool peak_flops_known;       /* the figures' flops were measured of it */
    zn_device *device, *host; /* host: for updates in backward and beside an accelerator, else NULL */
    zn_storage *storage; /* NULL where nothing is on NVMe */
    zn_request_log *requests; /* NULL where no test asks for it */
    zn_engine *engine;
    bool is_evaluation_alike; /* the last evaluation failed in its data, on every rank, with the engine as it was */
    void (*loaded)(void *self, int64_t done, int64_t total); /* elements of the weights that are there; NULL: nobody asks */
    void *loaded_self;
};

/* Each step of the set-up; the caller calls fini whatever happened. */
void zn_run_init(struct zn_run *run, zn_comm *comm, const struct zn_train_listener *listener);
void zn_run_fini(struct zn_run *run);

/* Which of the ranks that take different data this is, and how many they are; the first of those that take the same, which speaks
 * for them. */
static inline int zn_run_data_rank(const struct zn_run *run)
{
    return zn_mesh_coordinates(&run->mesh, zn_comm_rank(run->comm)).data;
}

static inline bool zn_run_counts_data(const struct zn_run *run, int rank)
{
    return zn_mesh_coordinates(&run->mesh, rank).tensor == 0;
}

/* Before the model is opened: so many ranks share each parameter. Not collective. */
zn_status zn_run_set_tensor(struct zn_run *run, int64_t n_ranks);

/* Bytes that this rank has sent since the start. */
uint64_t zn_run_bytes_sent(const struct zn_run *run);

/* The time line takes, or takes no more (NULL), what the communicators do. */
void zn_run_trace_comm(const struct zn_run *run, zn_timeline *timeline);

void zn_run_note(const struct zn_run *run, const char *format, ...) ZN_PRINTF(2, 3);

/* Where *model is a name on the hub, makes it the snapshot in the local cache, which lives as long as the run, and says so. Not
 * collective; blocks. */
zn_status zn_run_find_model(struct zn_run *run, const char **model);

/* Before the model is opened, in a run that writes one: what it writes beside the weights is read here and never again. Rank
 * 0 holds it. Not collective; blocks. */
zn_status zn_run_hold_files(struct zn_run *run, const char *folder);

/* Reads config.json and, unless from_scratch, the headers of the weights. *seq_len 0 becomes the
 * default. */
zn_status zn_run_open_model(struct zn_run *run, const char *folder, bool from_scratch,
                            int64_t *seq_len);

/* The model of config.json, or of the caller's network, without adapters. The caller destroys it. */
zn_status zn_run_create_model(const struct zn_run *run, int64_t seq_len, zn_model **model);

/* Makes the model again for another length, which is at most its maximum. */
zn_status zn_run_set_seq_len(struct zn_run *run, int64_t seq_len);

/* Threads (0: physical cores) and the memory limit (0: 90% of what is left), shared among the ranks of the
 * node. Not collective; zn_run_bind then shares by what each of them may use. */
zn_status zn_run_measure(struct zn_run *run, int threads, size_t memory_limit);

/* Sets the tier (-1: chosen) that none, cpu or nvme names; NULL leaves it. */
zn_status zn_parse_tier(const char *flag, const char *name, int *tier);

/* After the plan: sets the settings that it or the machine decided, as run.json and the comparison of ranks have them. */
void zn_run_record(const struct zn_run *run, const struct zn_engine_options *engine, struct zn_settings *settings);

/* Dry runs until the plan fits the limit; options says what was chosen. Not collective. */
zn_status zn_run_plan(struct zn_run *run, struct zn_engine_options *options,
                      const struct zn_choices *choices);

/* The same for a run that does not train, whose options give the windows or the sequence: parameters keep the folder's type
 * and are whole, partitioned or in the tier `offload_param` (NULL: chosen) as the limit of all ranks allows. Collective. */
zn_status zn_run_plan_parameters(struct zn_run *run, struct zn_engine_options *options, const char *offload_param,
                                 const char *hint);

/* What the process holds beside the manifest. */
size_t zn_run_overhead(const struct zn_run *run);

/* Where states on NVMe go. */
struct zn_swap_paths {
    const char *const *paths;
    size_t n_paths;
    bool allow_buffered;
};

/* Makes device, storage and engine and fills the parameters: on all ranks, or each fails with the cause of the one that could
 * not. Collective. swap may be NULL where the plan has
 * no swap. */
zn_status zn_run_start(struct zn_run *run, const struct zn_engine_options *options, const struct zn_swap_paths *swap,
                       uint64_t seed);

/* Of a run that failed: the others learn of it, and one rank of the node says it before any of them leaves. What was agreed
 * upon they have already: so it is with all failures before there is a device, and with those of the data of an evaluation. */
void zn_run_tell_failure(const struct zn_run *run, const struct zn_train_listener *listener, zn_status status);

#endif
