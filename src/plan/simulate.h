/* A training step of the real engine on simulated hardware: what it sends, reads and writes, to the byte, and how
 * long that takes on a virtual clock. */
#ifndef ZN_PLAN_SIMULATE_H
#define ZN_PLAN_SIMULATE_H

#include "zero/engine.h"

/* What one rank has. */
struct zn_sim_machine {
    struct zn_sim_rates device; /* its link to the host is used by engines that are apart */
    struct zn_sim_rates host;
    struct zn_sim_links links;
    double nvme_bytes; /* a second, reads and writes together */
    double cores;      /* of a processor whose ranks communicate and update on the cores they compute on; 0: apart from them */
};

/* What works side by side in a step. */
typedef enum zn_resource {
    ZN_COMPUTE, /* of the device */
    ZN_UPDATES, /* on the host, beside the device's work */
    ZN_COMMUNICATION,
    ZN_HOST_LINK, /* copies between a device apart and its host, both ways */
    ZN_NVME,
    ZN_N_RESOURCES
} zn_resource;

/* Of one rank, in a step like all later ones. */
struct zn_sim_step {
    uint64_t gather; /* sent: parameters; at stage 0 summed gradients */
    uint64_t reduce; /* sent: gradients */
    uint64_t slices; /* sent: activations between ranks that hold slices of parameters */
    uint64_t nvme_read, nvme_write;
    uint64_t host_bytes; /* between a device apart and its host, both ways */
    double flops; /* of matrix products, recomputed ones counted */
    double seconds;
    struct {
        double busy;    /* seconds in which it works */
        double exposed; /* … and the device computes nothing */
    } resource[ZN_N_RESOURCES];
    size_t tier_peak[ZN_N_TIERS], kind_peak[ZN_N_KINDS]; /* of the ledger, after the last step */
};

/* Where the time line of the step goes. */
struct zn_sim_trace {
    const char *path, *process;
};

/* The plan is one of this module, these options and ranks. Of many micro-batches some are run and the rest is taken to
 * be like them; with a trace (NULL: none) all are. Blocks for some passes without computing. */
zn_status zn_simulate_step(const zn_module *module, const struct zn_engine_options *options,
                           const zn_engine_plan *plan, const struct zn_sim_machine *machine,
                           const struct zn_sim_trace *trace, struct zn_sim_step *step);

#endif
