/* The prediction for one configuration on one cluster: memory from its compiled plan, traffic and seconds from the program of a
 * step, which the engine runs on simulated hardware at the rates of the cluster. */
#ifndef ZN_PLAN_PREDICT_H
#define ZN_PLAN_PREDICT_H

#include "models/model.h"
#include "plan/choices.h"
#include "plan/cluster.h"
#include "plan/simulate.h"

/* What is planned. All pointers are borrowed. */
struct zn_plan_setup {
    const zn_model *model;
    const struct zn_cluster *cluster;
    struct zn_engine_options engine;
    int n_ranks, n_nodes;
    size_t memory_limit; /* of a rank's device memory; 0: what the cluster has */
    size_t overhead;     /* what a process holds beside its plan; 0: what the cluster says */
    const struct zn_sim_trace *trace; /* where the simulated step is written; NULL: nowhere */
};

/* Ranks that hold the same slices of parameters: what stages partition over. */
static inline int zn_plan_replicas(const struct zn_plan_setup *setup)
{
    return setup->engine.n_slices > 1 ? setup->n_ranks / setup->engine.n_slices : setup->n_ranks;
}

typedef enum zn_bound { ZN_BOUND_MEMORY, ZN_BOUND_COMPUTE, ZN_BOUND_COMMUNICATION, ZN_BOUND_IO } zn_bound;

struct zn_prediction {
    zn_engine_plan plan; /* compiled: every large buffer of a rank, and the program of its step */
    size_t tier[ZN_N_TIERS], kind[ZN_N_KINDS];
    size_t reserved;          /* of the device, by the process itself */
    size_t resident;          /* memory of a process on a processor as the system counts it; 0: no processor */
    size_t limit[ZN_N_TIERS]; /* what a rank may hold; 0: there is no such tier */
    size_t largest_buffer;    /* of the device */
    size_t largest_unit;      /* that is fetched ahead of its use; 0: none is */
    bool fits;
    zn_tier short_of; /* where it does not fit: the first tier that is too small */

    uint64_t gather, reduce, nvme_read, nvme_write; /* bytes a rank and step */
    uint64_t tensor;                 /* activations between ranks that hold slices of parameters */
    uint64_t intra_node, inter_node; /* of gather, reduce and tensor */
    uint64_t host_bytes; /* between a device and its host, which is not the same */

    struct zn_sim_step simulated; /* the engine's step on the cluster */

    double compute, communication, io, step; /* seconds: each at work, drives or the link to the host; and all of it */
    double tokens_per_second;                /* of all ranks */
    double flops_per_device, efficiency;     /* reached, and its share of the peak */
    zn_bound bound;
};

const char *zn_bound_name(zn_bound bound);

/* Flops of matrix products that a rank's step takes. */
double zn_step_flops(const zn_model *model, const struct zn_engine_options *engine);

int zn_plan_ranks_per_node(const struct zn_plan_setup *setup);

/* Usage errors: more ranks or nodes than the cluster has, a precision its devices lack, sizes beyond 2^63 bytes. */
zn_status zn_plan_check(const struct zn_plan_setup *setup);

/* Checks and predicts; blocks for a dry run and some steps of simulation. The caller calls fini after a success. */
zn_status zn_predict(const struct zn_plan_setup *setup, struct zn_prediction *prediction);

/* Adds traffic and seconds to a prediction of memory; one that has them stays as it is. Blocks for some steps of simulation. */
zn_status zn_predict_time(const struct zn_plan_setup *setup, struct zn_prediction *prediction);

/* For searches, quicker: where it does not fit nothing else is told; memory alone; nothing but whether it fits; and, without a dry
 * run, false for what is far too large. */
zn_status zn_predict_if_fits(const struct zn_plan_setup *setup, struct zn_prediction *prediction);
zn_status zn_predict_memory(const struct zn_plan_setup *setup, struct zn_prediction *prediction);
zn_status zn_plan_fits(const struct zn_plan_setup *setup, bool *fits);
bool zn_plan_may_fit(const struct zn_plan_setup *setup);

/* What a rank may hold, by tier. On a processor device and host are the same bytes. */
void zn_plan_limits(const struct zn_plan_setup *setup, size_t limit[ZN_N_TIERS]);
void zn_prediction_fini(struct zn_prediction *prediction);

#endif
