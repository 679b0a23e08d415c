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
};

/* Of one rank, in a step like all later ones. */
struct zn_sim_step {
    uint64_t gather; /* sent: parameters; at stage 0 summed gradients */
    uint64_t reduce; /* sent: gradients */
    uint64_t nvme_read, nvme_write;
    uint64_t host_bytes; /* between a device apart and its host, both ways */
    double seconds;
};

/* The plan is one of this module, these options and ranks. Blocks for some passes without computing. */
zn_status zn_simulate_step(const zn_module *module, const struct zn_engine_options *options,
                           const zn_engine_plan *plan, const struct zn_sim_machine *machine,
                           struct zn_sim_step *step);

#endif
